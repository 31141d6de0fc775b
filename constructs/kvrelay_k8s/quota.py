"""What the served namespace may ask for."""

from cdk8s import Chart
from cdk8s_plus_28 import k8s
from constructs import Construct

from kvrelay.data import instance_type
from kvrelay.settings import Deployment
from kvrelay_k8s.names import EFA_RESOURCE, GPU_RESOURCE, labels


class Quota(Chart):
    """A bound on GPUs, EFA interfaces and ways in from outside."""

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        gpus = interfaces = nodes = 0
        for group in deployment.gpu_nodes.groups:
            kind, count = instance_type(group.instance_type), group.largest_count
            nodes += count
            gpus += count * (kind.gpu.count if kind.gpu else 0)
            interfaces += count * kind.efa_interfaces
        # A pod that ends counts until it is gone: twice, so that its replacement is accepted meanwhile.
        bounds = {
            f"requests.{GPU_RESOURCE}": 2 * gpus,
            f"requests.{EFA_RESOURCE}": 2 * interfaces,
            "pods": 2 * nodes + 8,
            "services.nodeports": 0,
        }
        k8s.KubeResourceQuota(
            self,
            "Quota",
            metadata=k8s.ObjectMeta(
                name="serving", namespace=deployment.serving.namespace, labels=labels("quota")
            ),
            spec=k8s.ResourceQuotaSpec(
                hard={name: k8s.Quantity.from_number(bound) for name, bound in bounds.items()}
            ),
        )
