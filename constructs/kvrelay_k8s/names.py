"""Names that charts, stacks and commands share."""

SYSTEM_NAMESPACE = "kube-system"
OPERATOR_NAMESPACE = "kuberay-system"
OPERATOR_NAME = "kuberay-operator"

RAY_SERVICE_ACCOUNT = "ray"
"""Ray's pods run as it, in the served namespace; give it a pod identity to read a bucket or a secret."""

HEAD_PRIORITY = "kvrelay-ray-head"
WORKER_PRIORITY = "kvrelay-ray-worker"

GPU_RESOURCE = "nvidia.com/gpu"
EFA_RESOURCE = "vpc.amazonaws.com/efa"
HUGE_PAGES_RESOURCE = "hugepages-2Mi"

# KubeRay's own labels.
RAY_NODE_LABEL = "ray.io/is-ray-node"
RAY_GROUP_LABEL = "ray.io/group"
RAY_NODE_TYPE_LABEL = "ray.io/node-type"

# Ray's ports. The dashboard's agent answers health probes on 52365.
GCS_PORT = 6379
DASHBOARD_PORT = 8265
CLIENT_PORT = 10001
METRICS_PORT = 8080
AGENT_PORT = 52365


def labels(component: str) -> dict[str, str]:
    """The recommended labels of an object, for `kubectl get -l app.kubernetes.io/part-of=kvrelay`."""
    return {"app.kubernetes.io/part-of": "kvrelay", "app.kubernetes.io/component": component}
