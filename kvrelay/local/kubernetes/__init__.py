"""A real Kubernetes control plane on this machine, with simulated nodes and the real KubeRay operator."""

from kvrelay.local.kubernetes.api import Api, ApiError, Endpoint
from kvrelay.local.kubernetes.cluster import LocalCluster
from kvrelay.local.kubernetes.control_plane import ControlPlane, wait_for
from kvrelay.local.kubernetes.nodes import SimulatedNode, gpu_node, nodes_of
from kvrelay.local.kubernetes.pod_status import Fault

__all__ = [
    "Api",
    "ApiError",
    "ControlPlane",
    "Endpoint",
    "Fault",
    "LocalCluster",
    "SimulatedNode",
    "gpu_node",
    "nodes_of",
    "wait_for",
]
