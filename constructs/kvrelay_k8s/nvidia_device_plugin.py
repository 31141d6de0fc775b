"""NVIDIA's device plugin: makes a node's GPUs something pods can ask for."""

from cdk8s import Chart
from cdk8s_plus_28 import k8s
from constructs import Construct

from kvrelay.data import versions
from kvrelay_k8s.gpu_node_pods import device_plugin

_SETTINGS = {
    # A node whose driver does not answer shows in the DaemonSet's numberReady, instead of having no GPUs in silence.
    "FAIL_ON_INIT_ERROR": "true",
    # On, it hands out /dev/infiniband, which is the EFA plugin's.
    "MOFED_ENABLED": "false",
    "MIG_STRATEGY": "none",
    "DEVICE_LIST_STRATEGY": "envvar",
    "NVIDIA_VISIBLE_DEVICES": "all",
    "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
}


class NvidiaDevicePlugin(Chart):
    """The DaemonSet alone: no GPU feature discovery, whose labels nothing here needs."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        image = versions().nvidia_device_plugin_image
        props = device_plugin(
            "nvidia-device-plugin",
            image=image,
            command=["nvidia-device-plugin"],
            env=_SETTINGS,
            host_paths={},
        )
        k8s.KubeDaemonSet(self, "DaemonSet", metadata=props.metadata, spec=props.spec)
