"""EN: engines and the Serve config around them."""

from tests.rules.case import Case
from tests.rules.scaffolds import DELETED

K = "decode/engine_kwargs"
SCALING = "decode/deployment_config/autoscaling_config"
FREE = {"decode/deployment_config/num_replicas": DELETED}
PLAIN = {"import_path": "ray.serve.llm:build_openai_app", "args": {"llm_configs": []}}

CASES = (
    Case("EN001", "serve", {"decode/tensor_parallel_size": 1}, ({f"{K}/tensor_parallel_size": 1},)),
    Case("EN001", "serve", {"decode/deployment_configs": {}}, ({"decode/log_engine_metrics": True},)),
    Case("EN001", "serve", {"decode/resources_per_bundle": {"GPU": 1}}),
    Case("EN002", "serve", {f"{K}/max_model_lens": 4096}, ({f"{K}/an_argument_of_some_later_release": 1},)),
    Case("EN002", "serve", {f"{K}/accelerator_type": "L4"}),
    Case("EN003", "serve", {f"{K}/model": "Qwen/Qwen3-0.6B"}),
    Case("EN003", "serve", {f"{K}/served_model_name": "x"}),
    Case(
        "EN004",
        "serve",
        {f"{K}/distributed_executor_backend": "mp"},
        (
            {f"{K}/distributed_executor_backend": "ray"},
            {f"{K}/distributed_executor_backend": "mp", "decode/accelerator_config": {"kind": "cpu"}},
        ),
    ),
    Case("EN005", "serve", {"decode/llm_engine": "vllm"}, ({"decode/llm_engine": "vLLM"},)),
    Case("EN006", "serve", {"decode/accelerator_type": "nvidia-l4"}, ({"decode/accelerator_type": "L4"},)),
    Case("EN006", "serve", {"decode/accelerator_type": "h100"}, ({"decode/accelerator_type": "R999"},)),
    Case(
        "EN007",
        "serve",
        {"decode/accelerator_type": "L4", "decode/accelerator_config": {"kind": "cpu"}},
        ({"decode/accelerator_type": "L4", "decode/accelerator_config": {"kind": "gpu"}},),
    ),
    Case(
        "EN007",
        "serve",
        {"decode/accelerator_type": "L4", "decode/placement_group_config": {"bundles": [{"CPU": 1}]}},
    ),
    Case(
        "EN008",
        "serve",
        {f"{K}/tensor_parallel_size": 2, "decode/placement_group_config": {"bundles": [{"GPU": 1}]}},
        (
            {
                f"{K}/tensor_parallel_size": 2,
                "decode/placement_group_config": {"bundles": [{"GPU": 1}, {"GPU": 1}]},
            },
            {
                f"{K}/tensor_parallel_size": 2,
                "decode/placement_group_config": {"bundle_per_worker": {"GPU": 1}},
            },
        ),
    ),
    Case("EN009", "serve", {"decode/placement_group_config": {"bundles": [{"GPU": 0.5}]}}),
    Case("EN009", "serve", {"decode/placement_group_config": {"bundle_per_worker": {"GPU": 0.5}}}),
    Case("EN010", "serve", {f"{K}/gpu_memory_utilization": 90}, ({f"{K}/gpu_memory_utilization": 0.9},)),
    Case("EN010", "serve", {f"{K}/gpu_memory_utilization": "90%"}),
    Case("EN011", "serve", {f"{K}/gpu_memory_utilization": 0.97}, ({f"{K}/gpu_memory_utilization": 0.95},)),
    Case(
        "EN012",
        "serve",
        {f"{K}/enable_chunked_prefill": False, f"{K}/max_num_batched_tokens": 2048},
        (
            {f"{K}/max_num_batched_tokens": 2048},
            {f"{K}/enable_chunked_prefill": False, f"{K}/max_num_batched_tokens": 4096},
        ),
    ),
    Case(
        "EN013",
        "serve",
        {f"{K}/max_num_batched_tokens": 128, f"{K}/max_num_seqs": 256},
        ({f"{K}/max_num_batched_tokens": 256, f"{K}/max_num_seqs": 256},),
    ),
    Case("EN014", "serve", {f"{K}/dtype": "bf16"}, ({f"{K}/dtype": "bfloat16"},)),
    Case(
        "EN015",
        "serve",
        {f"{K}/disable_log_stats": True},
        ({f"{K}/disable_log_stats": True, "decode/log_engine_metrics": False},),
    ),
    Case("EN016", "serve", {"prefill/engine_kwargs/max_model_len": DELETED, f"{K}/max_model_len": 0}),
    Case(
        "EN016",
        "serve",
        {"prefill/engine_kwargs/max_model_len": DELETED, f"{K}/max_model_len": 0.5},
        ({"prefill/engine_kwargs/max_model_len": -1, f"{K}/max_model_len": -1}, {f"{K}/max_model_len": "4k"}),
    ),
    Case(
        "EN017",
        "serve",
        {"decode/experimental_configs/num_router_replicas": 2},
        ({"decode/experimental_configs/num_ingress_replicas": 2},),
    ),
    Case("EN018", "serve", {"decode/model_loading_config/model_id": DELETED}),
    Case("EN018", "serve", {"decode/model_loading_config/model_sourse": "x"}),
    Case("EN019", "serve", {"app/runtime_env/pip": ["nixl-cu12"]}, ({"app/runtime_env/pip": ["requests"]},)),
    Case("EN019", "serve", {"decode/runtime_env/pip/packages": ["vllm==0.20.0"]}),
    Case(
        "EN019",
        "serve",
        {"decode/runtime_env/uv": ["ray[serve]==2.50"]},
        ({"decode/runtime_env/uv": ["raytracer"]},),
    ),
    # The Serve config around the engines.
    Case(
        "EN030", "serve", {"serve/http_option": {"port": 8000}}, ({"serve/a_key_of_some_later_release": 1},)
    ),
    Case("EN030", "serve", {"serve/http_options/request_timeouts": 600}),
    Case("EN030", "serve", {"app/route_prefx": "/x"}),
    Case("EN030", "serve", {"decode/deployment_config/max_ongoing_request": 8}),
    Case("EN030", "serve", {"decode/deployment_config/ray_actor_options/num_cpu": 1}),
    Case("EN030", "serve", FREE | {SCALING: {"min_replica": 1, "max_replicas": 1}}),
    Case("EN030", "serve", {"app/args/ingress_deployment_config/num_replica": 2}),
    Case("EN031", "serve", {"app/args/decode_configs": {}}),
    Case("EN031", "serve", {"app/args/llm_configs": []}),
    Case("EN032", "serve", {"app/args/proxy_cls_config": {}}, ({"app/args/ingress_cls_config": {}},)),
    Case("EN033", "serve", {"app/args/decode_config": DELETED}),
    Case(
        "EN033",
        "serve",
        {"app/import_path": "ray.serve.llm:build_openai_app"},
        ({"serve": {"applications": [PLAIN]}},),
    ),
    Case("EN034", "serve", {f"{SCALING}/min_replicas": 1}, (FREE | {SCALING: {"min_replicas": 1}},)),
    Case(
        "EN034",
        "serve",
        {"app/deployments": [{"name": "x", "num_replicas": 1, "autoscaling_config": {}}]},
        ({"app/deployments": [{"name": "x", "num_replicas": "auto", "autoscaling_config": {}}]},),
    ),
    Case(
        "EN035",
        "serve",
        FREE | {SCALING: {"min_replicas": 3, "max_replicas": 2}},
        (FREE | {SCALING: {"min_replicas": 2, "max_replicas": 2}},),
    ),
    Case("EN035", "serve", FREE | {SCALING: {"min_replicas": 2, "initial_replicas": 1}}),
    Case("EN035", "serve", FREE | {SCALING: {"max_replicas": 0}}),
    Case("EN036", "serve", FREE | {SCALING: {"min_replicas": 0}}, (FREE | {SCALING: {"min_replicas": 1}},)),
    Case(
        "EN037",
        "serve",
        FREE | {SCALING: {"target_ongoing_requests": 16}, "decode/deployment_config/max_ongoing_requests": 8},
        (
            FREE
            | {SCALING: {"target_ongoing_requests": 8}, "decode/deployment_config/max_ongoing_requests": 8},
        ),
    ),
    Case("EN038", "serve", {"app/port": 8000}, ({"serve/http_options/port": 8000},)),
    Case(
        "EN039",
        "serve",
        {"serve/applications/1": PLAIN | {"name": "llm", "route_prefix": "/b"}},
        (
            {"serve/applications/1": PLAIN | {"name": "b", "route_prefix": "/b"}},
            {"serve/applications/1": PLAIN | {"name": "b", "route_prefix": None}},
        ),
    ),
    Case("EN039", "serve", {"serve/applications/1": PLAIN | {"name": "b"}}),
    Case("EN040", "serve", {"app/route_prefix": "llm"}, ({"app/route_prefix": "/llm"},)),
    Case("EN040", "serve", {"app/route_prefix": "/llm/"}),
    Case("EN041", "serve", {"serve": {"applications": [{"name": "a"}]}}),
    Case(
        "EN041",
        "serve",
        {"serve": {"applications": [{"import_path": "app"}]}},
        ({"serve": {"applications": [{"import_path": "app:main"}]}},),
    ),
    Case("EN041", "serve", {"serve": {"applications": [{"import_path": "ray.serve.llm:build_pd_app"}]}}),
    Case(
        "EN043",
        "serve",
        {"app/args/ingress_cls_config": {"ingress_extra_kwargs": {"recovry_seconds": 30}}},
        (
            {"app/args/ingress_cls_config": {"ingress_extra_kwargs": {"recovery_seconds": 30}}},
            {"app/args/ingress_cls_config": {"ingress_cls": "mine:I", "ingress_extra_kwargs": {"any": "x"}}},
        ),
    ),
    Case("EN043", "serve", {"app/args/ingress_cls_config": {"ingress_extra_kwargs": {"answer_seconds": 0}}}),
    Case(
        "EN043", "serve", {"app/args/ingress_cls_config": {"ingress_extra_kwargs": {"answer_seconds": "1m"}}}
    ),
    Case(
        "EN042",
        "serve",
        {"app/runtime_env/working_dir": "./code"},
        ({"app/runtime_env/working_dir": "s3://b/code.zip"},),
    ),
    Case("EN042", "serve", {"app/runtime_env/py_modules": ["./code"]}),
)
