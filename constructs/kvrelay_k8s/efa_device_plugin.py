"""AWS's EFA device plugin: makes a node's EFA interfaces something pods can ask for."""

from cdk8s import Chart
from cdk8s_plus_28 import k8s
from constructs import Construct

from kvrelay.data import versions
from kvrelay_k8s.gpu_node_pods import device_plugin


class EfaDevicePlugin(Chart):
    """The DaemonSet alone, on our own node label: the upstream chart's list of instance types is left out."""

    def __init__(self, scope: Construct, id: str, *, region: str) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        props = device_plugin(
            "aws-efa-k8s-device-plugin",
            image=_image(region),
            env={},
            host_paths={"/dev/infiniband": "infiniband"},
            # It reads the node's own interfaces.
            host_network=True,
        )
        k8s.KubeDaemonSet(self, "DaemonSet", metadata=props.metadata, spec=props.spec)


def _image(region: str) -> str:
    pinned = versions()
    registry = f"{pinned.eks_registry_account}.dkr.ecr.{region}.amazonaws.com"
    return f"{registry}/{pinned.efa_device_plugin_repository}:{pinned.efa_device_plugin}"
