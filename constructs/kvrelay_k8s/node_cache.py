"""The node's own disk under Ray's workers: weights and compiled kernels survive their pods."""

from __future__ import annotations

from kvrelay.data import InstanceType
from kvrelay_k8s.ray_container import Object

CACHE_PATH = "/cache"
"""Where workers see it."""
MODELS_PATH = f"{CACHE_PATH}/models"
"""Where weights from a bucket lie."""

# nodeadm's RAID0 of the instance store is mounted here, see node_config.py.
_ON_NVME = "/mnt/k8s-disks/0/kvrelay"
_ON_ROOT_VOLUME = "/var/lib/kvrelay"


def cache_volume(instance: InstanceType) -> Object:
    """A directory of the node: on NVMe where the instance has it, else on its root volume."""
    path = _ON_NVME if instance.nvme else _ON_ROOT_VOLUME
    return {"name": "cache", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def cache_mount() -> Object:
    """Its mount."""
    return {"name": "cache", "mountPath": CACHE_PATH}


def cache_environment() -> dict[str, str]:
    """Where each library keeps what it downloads or compiles."""
    return {
        "HF_HOME": f"{CACHE_PATH}/huggingface",
        "VLLM_CACHE_ROOT": f"{CACHE_PATH}/vllm",
        "TORCHINDUCTOR_CACHE_DIR": f"{CACHE_PATH}/torchinductor",
        "TRITON_CACHE_DIR": f"{CACHE_PATH}/triton",
        "FLASHINFER_WORKSPACE_BASE": f"{CACHE_PATH}/flashinfer",
    }
