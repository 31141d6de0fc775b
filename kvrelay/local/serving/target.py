"""The config for this machine: a portable Ray Serve config with the CPU target's additions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_INGRESS = "openai_error_ingress:OpenAIErrorIngress"


def cpu_config(config: Path | None, model: Path) -> tuple[dict[str, Any], str]:
    """The rendered config and its model id; `model` is the folder that stands in for the real model."""
    del config
    prefill, decode = _engine(model, "kv_producer", 29_600), _engine(model, "kv_consumer", 29_700)
    decode["experimental_configs"]["_prewarm_prefill_decode"] = True
    arguments = {
        "prefill_config": prefill,
        "decode_config": decode,
        "ingress_cls_config": {"ingress_cls": _INGRESS},
        "ingress_deployment_config": {
            "autoscaling_config": {"min_replicas": 1, "max_replicas": 1},
            "max_ongoing_requests": 1024,
            "ray_actor_options": {"num_cpus": 0.1},
        },
    }
    application = {
        "name": "pd",
        "route_prefix": "/",
        "import_path": "ray.serve.llm:build_pd_openai_app",
        "args": arguments,
    }
    return {"proxy_location": "HeadOnly", "applications": [application]}, "tiny"


def _engine(model: Path, role: str, port: int) -> dict[str, Any]:
    return {
        "model_loading_config": {"model_id": "tiny", "model_source": str(model)},
        "accelerator_config": {"kind": "cpu"},
        "placement_group_config": {"bundles": [{"CPU": 0.5}]},
        "runtime_env": {
            "env_vars": {
                "HF_HUB_OFFLINE": "1",
                "VLLM_CPU_KVCACHE_SPACE": "1",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "OMP_NUM_THREADS": "1",
                "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
                "VLLM_DP_MASTER_PORT": str(port),
            }
        },
        "deployment_config": {
            "autoscaling_config": {"min_replicas": 1, "max_replicas": 1, "target_ongoing_requests": 64},
            "max_ongoing_requests": 512,
            "health_check_period_s": 2,
            "health_check_timeout_s": 10,
            "ray_actor_options": {"num_cpus": 0.1},
        },
        "experimental_configs": {"stream_batching_interval_ms": 0},
        "engine_kwargs": {
            "dtype": "float32",
            "enforce_eager": True,
            "max_model_len": 2048,
            "block_size": 32,
            "kv_transfer_config": {
                "kv_connector": "NixlConnector",
                "kv_role": role,
                "kv_connector_extra_config": {"backends": ["UCX"]},
            },
        },
    }
