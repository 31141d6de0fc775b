"""The labels and taints that nodes carry and pods select by: one place, so that both sides agree."""

ROLE_LABEL = "role"
SYSTEM_ROLE = "system"
GPU_WORKER_ROLE = "gpu-worker"

NODE_GROUP_LABEL = "kvrelay.io/node-group"
"""Holds the name of the GpuNodeGroup in deployment.yaml."""

GPU_TAINT_KEY = "nvidia.com/gpu"
GPU_TAINT_VALUE = "present"
GPU_TAINT_EFFECT = "NoSchedule"
"""Keeps everything off GPU nodes but device plugins and Ray workers, which tolerate it."""

DEPLOYMENT_TAG = "kvrelay:deployment"
"""The AWS tag on every resource; its value is the deployment's name."""
