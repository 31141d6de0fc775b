"""The namespaces, with what their pods may do, and which pods give way to which."""

from cdk8s import ApiObjectMetadata, Chart
from cdk8s_plus_28 import Namespace, ServiceAccount, k8s
from constructs import Construct

from kvrelay.settings import Deployment
from kvrelay_k8s.names import (
    HEAD_PRIORITY,
    OPERATOR_NAMESPACE,
    RAY_SERVICE_ACCOUNT,
    WORKER_PRIORITY,
    labels,
)


class Namespaces(Chart):
    """The served namespace and the operator's, the service account of Ray's pods, and priority classes."""

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        served = deployment.serving.namespace
        # Ray's workers keep weights on the node's disk (hostPath) and register GPU memory with EFA (privileged, or
        # IPC_LOCK): Kubernetes' baseline and restricted levels forbid all three.
        _namespace(self, served, level="privileged")
        _namespace(self, OPERATOR_NAMESPACE, level="restricted")
        ServiceAccount(
            self,
            "RayServiceAccount",
            metadata=ApiObjectMetadata(name=RAY_SERVICE_ACCOUNT, namespace=served, labels=labels("ray")),
            # Ray talks to no Kubernetes API here; a pod identity brings its own token.
            automount_token=False,
        )
        _priority(self, HEAD_PRIORITY, 1_000_000, "Without its head a Ray cluster stops serving")
        _priority(self, WORKER_PRIORITY, 900_000, "Prefill and decode")


def _namespace(chart: Chart, name: str, *, level: str) -> None:
    modes = ("enforce", "audit", "warn")
    security = {f"pod-security.kubernetes.io/{mode}": level for mode in modes}
    Namespace(chart, name, metadata=ApiObjectMetadata(name=name, labels={**labels("namespace"), **security}))


def _priority(chart: Chart, name: str, value: int, description: str) -> None:
    k8s.KubePriorityClass(
        chart,
        name,
        metadata=k8s.ObjectMeta(name=name, labels=labels("priority")),
        value=value,
        # Nothing else asks for the GPU nodes, and a Ray head must not push out what the cluster runs on.
        preemption_policy="Never",
        description=description,
    )
