"""KV: the hand-over of the cache."""

from tests.rules.case import Case
from tests.rules.scaffolds import DELETED

T = "engine_kwargs/kv_transfer_config"
X = f"{T}/kv_connector_extra_config"
HYBRID = {
    "prefill/model_loading_config/model_source": "Qwen/Qwen3.5-9B",
    "decode/model_loading_config/model_source": "Qwen/Qwen3.5-9B",
}
HYBRID_SERVICE = {
    "embedded-prefill/model_loading_config/model_source": "Qwen/Qwen3.5-9B",
    "embedded-decode/model_loading_config/model_source": "Qwen/Qwen3.5-9B",
}
CPU = {"accelerator_config": {"kind": "cpu"}}
LAYOUT = "runtime_env/env_vars/VLLM_SSM_CONV_STATE_LAYOUT"
PORT = "experimental_configs/NIXL_SIDE_CHANNEL_PORT_BASE"
MASTER = "runtime_env/env_vars/VLLM_DP_MASTER_PORT"

CASES = (
    Case("KV001", "serve", {f"prefill/{T}/engine_id": "prefill"}, ({f"prefill/{T}/engine_id": None},)),
    Case(
        "KV002",
        "service",
        {f"embedded-prefill/{X}": DELETED},
        ({f"embedded-prefill/{X}/backends": ["LIBFABRIC", "UCX"]},),
        also=frozenset({"KV012"}),
    ),
    Case(
        "KV002",
        "service",
        {f"embedded-prefill/{X}/backends": ["UCX"], f"embedded-decode/{X}/backends": ["UCX"]},
    ),
    Case(
        "KV003",
        "serve",
        {f"prefill/{PORT}": 22000},
        ({f"prefill/{PORT}": 21000}, {f"prefill/{PORT}": 22000, f"decode/{PORT}": 20000}),
    ),
    Case("KV003", "serve", {f"prefill/{PORT}": 25000, f"decode/{PORT}": 25000}),
    Case("KV004", "serve", {f"decode/{T}": DELETED}),
    Case("KV005", "serve", {f"decode/{T}/kv_role": DELETED}),
    Case("KV006", "serve", {f"decode/{T}/kv_role": "consumer"}),
    Case("KV007", "serve", {f"decode/{T}/kv_role": "kv_both"}),
    Case("KV008", "serve", {f"decode/{T}/kv_role": "kv_producer"}),
    Case("KV008", "serve", {f"prefill/{T}/kv_role": "kv_consumer"}),
    Case("KV009", "serve", {f"decode/{T}/num_threads": 8}, ({f"decode/{X}/num_threads": 8},)),
    Case("KV009", "serve", {f"decode/{T}/kv_buffer_divice": "cpu"}, ({f"decode/{T}/kv_ip": "10.0.0.1"},)),
    Case(
        "KV009", "serve", {f"decode/{T}/a_key_of_some_later_release": 1} | {f"prefill/{T}/backends": ["UCX"]}
    ),
    Case(
        "KV010",
        "serve",
        {f"decode/{X}/kv_load_failure_policy": "fail"},
        ({f"decode/{T}/kv_load_failure_policy": "fail"},),
    ),
    Case("KV010", "serve", {f"decode/{X}/kv_lease_durations": 30}, ({f"decode/{X}/kv_lease_duration": 30},)),
    Case("KV011", "serve", {f"decode/{T}/kv_connector": "LMCacheConnectorV1"}),
    Case(
        "KV012",
        "serve",
        {f"decode/{X}/backends": ["LIBFABRIC"]},
        ({f"decode/{X}/backends": ["LIBFABRIC", "UCX"]},),
    ),
    Case("KV013", "serve", {f"decode/{X}/backends": ["ucx"]}, also=frozenset({"KV012"})),
    Case(
        "KV013",
        "serve",
        {f"prefill/{X}/backends": ["POSIX"], f"decode/{X}/backends": ["POSIX", "UCX"]},
        ({f"prefill/{X}/backends": ["UCX", "POSIX"]},),
    ),
    Case("KV014", "serve", {f"decode/{X}/backends": "UCX"}),
    Case("KV014", "serve", {f"decode/{X}/backends": []}),
    Case(
        "KV015",
        "serve",
        {f"decode/{T}/kv_load_failure_policy": "retry"},
        ({f"decode/{T}/kv_load_failure_policy": "recompute"},),
    ),
    Case(
        "KV016", "serve", {f"decode/{T}/kv_buffer_device": "gpu"}, ({f"decode/{T}/kv_buffer_device": "cpu"},)
    ),
    Case(
        "KV016",
        "serve",
        {"prefill/accelerator_config": {"kind": "cpu"}, f"prefill/{T}/kv_buffer_device": "cuda"},
        ({"prefill/accelerator_config": {"kind": "cpu"}, f"prefill/{T}/kv_buffer_device": "cpu"},),
    ),
    Case(
        "KV017",
        "serve",
        {f"decode/{X}/enforce_handshake_compat": False},
        ({f"decode/{X}/enforce_handshake_compat": True},),
    ),
    Case("KV018", "serve", {f"decode/{T}": {"kv_role": "kv_consumer"}}),
    Case(
        "KV018",
        "serve",
        {f"decode/{T}/kv_connector": "NIXLConnector"},
        also=frozenset({"KV011"}),
    ),
    Case("KV019", "serve", {f"decode/{X}/kv_lease_duration": 5}, ({f"decode/{X}/kv_lease_duration": 6},)),
    Case(
        "KV020",
        "serve",
        {"decode/runtime_env/env_vars/PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        ({"decode/runtime_env/env_vars/PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"},),
    ),
    Case("KV020", "serve", {"app/runtime_env/env_vars/PYTORCH_ALLOC_CONF": "x:1, expandable_segments: True"}),
    Case(
        "KV020",
        "service",
        {
            "worker/template/spec/containers/0/env/1": {
                "name": "PYTORCH_CUDA_ALLOC_CONF",
                "value": "expandable_segments:True",
            }
        },
    ),
    Case(
        "KV021",
        "service",
        {"embedded-decode/runtime_env/env_vars/VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1"},
        ({"embedded-decode/runtime_env/env_vars/VLLM_NIXL_SIDE_CHANNEL_HOST": "10.0.1.7"},),
    ),
    Case(
        "KV021",
        "service",
        {
            "worker/template/spec/containers/0/env/1": {
                "name": "VLLM_NIXL_SIDE_CHANNEL_HOST",
                "value": "localhost",
            }
        },
    ),
    Case("KV022", "serve", {"decode/runtime_env/env_vars/VLLM_NIXL_SIDE_CHANNEL_PORT": "5600"}),
    Case(
        "KV023",
        "serve",
        {f"prefill/{MASTER}": "29400", f"decode/{MASTER}": "29400"},
        ({f"prefill/{MASTER}": "29400", f"decode/{MASTER}": "29600"}, {f"prefill/{MASTER}": "29400"}),
    ),
    # What both roles must have alike.
    Case("KV030", "serve", {"decode/model_loading_config/model_id": "other"}),
    Case("KV031", "serve", {"decode/model_loading_config/model_source": "Qwen/Qwen3-1.7B"}),
    Case(
        "KV032",
        "serve",
        {"prefill/engine_kwargs/dtype": "float16", "decode/engine_kwargs/dtype": "bfloat16"},
        (
            {"prefill/engine_kwargs/dtype": "float16", "decode/engine_kwargs/dtype": "half"},
            {"prefill/engine_kwargs/dtype": "auto", "decode/engine_kwargs/dtype": "bfloat16"},
        ),
    ),
    Case(
        "KV032",
        "serve",
        {"decode/engine_kwargs/kv_cache_dtype": "fp8"},
        ({"decode/engine_kwargs/kv_cache_dtype": "fp8", "prefill/engine_kwargs/kv_cache_dtype": "fp8"},),
    ),
    Case("KV032", "serve", {"decode/engine_kwargs/disable_hybrid_kv_cache_manager": True}),
    Case(
        "KV033",
        "serve",
        {"prefill/engine_kwargs/block_size": 48, "decode/engine_kwargs/block_size": 32},
        ({"prefill/engine_kwargs/block_size": 64, "decode/engine_kwargs/block_size": 64},),
    ),
    Case("KV033", "serve", {"prefill/engine_kwargs/block_size": 64, "decode/engine_kwargs/block_size": 32}),
    Case("KV033", "serve", {"prefill/engine_kwargs/block_size": 32, "decode/engine_kwargs/block_size": 64}),
    Case(
        "KV033",
        "serve",
        {"prefill/engine_kwargs/block_size": 64, "decode/engine_kwargs/block_size": None},
        ({"prefill/engine_kwargs/block_size": 16, "decode/engine_kwargs/block_size": None},),
    ),
    Case(
        "KV034",
        "serve",
        {"prefill/engine_kwargs/tensor_parallel_size": 3, "decode/engine_kwargs/tensor_parallel_size": 2},
        ({"prefill/engine_kwargs/tensor_parallel_size": 2, "decode/engine_kwargs/tensor_parallel_size": 4},),
    ),
    Case(
        "KV035",
        "serve",
        {"decode/engine_kwargs/max_model_len": 8192},
        ({"decode/engine_kwargs/max_model_len": DELETED},),
    ),
    # Hybrid models.
    Case(
        "KV036",
        "service",
        HYBRID_SERVICE | {f"embedded-prefill/{LAYOUT}": "DS"},
        (HYBRID_SERVICE | {f"embedded-prefill/{LAYOUT}": "DS", f"embedded-decode/{LAYOUT}": "DS"},),
    ),
    Case("KV036", "serve", HYBRID | {f"decode/{LAYOUT}": "SD"}, (HYBRID, {f"decode/{LAYOUT}": "SD"})),
    Case(
        "KV037",
        "serve",
        HYBRID
        | {
            "prefill/engine_kwargs/disable_hybrid_kv_cache_manager": True,
            "decode/engine_kwargs/disable_hybrid_kv_cache_manager": True,
        },
    ),
    Case(
        "KV038",
        "serve",
        HYBRID | {"prefill/engine_kwargs/enable_prefix_caching": True},
        ({"prefill/engine_kwargs/enable_prefix_caching": True},),
    ),
    Case(
        "KV039",
        "serve",
        HYBRID | {"decode/engine_kwargs/speculative_config": {"method": "mtp"}},
        ({"decode/engine_kwargs/speculative_config": {"method": "ngram"}},),
    ),
    Case("KV040", "serve", HYBRID | {f"decode/{T}/kv_load_failure_policy": "recompute"}),
    Case(
        "KV041",
        "serve",
        HYBRID | {"prefill/accelerator_config": {"kind": "cpu"}},
        ({"prefill/accelerator_config": {"kind": "cpu"}},),
    ),
)
