"""A real Kubernetes control plane on this machine, with simulated nodes and the real KubeRay operator."""

from kvrelay.local.kubernetes.api import Api, ApiError, Endpoint
from kvrelay.local.kubernetes.applying import apply_all
from kvrelay.local.kubernetes.cluster import LocalCluster
from kvrelay.local.kubernetes.control_plane import ControlPlane
from kvrelay.local.kubernetes.nodes import SimulatedNode, gpu_node, nodes_of
from kvrelay.local.kubernetes.pod_status import Fault
from kvrelay.local.kubernetes.waiting import wait_for

__all__ = [
    "Api",
    "ApiError",
    "ControlPlane",
    "Endpoint",
    "Fault",
    "LocalCluster",
    "SimulatedNode",
    "apply_all",
    "gpu_node",
    "nodes_of",
    "wait_for",
]
