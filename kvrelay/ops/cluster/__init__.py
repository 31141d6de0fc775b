"""A deployment's cluster as commands see it: how to reach its API, its objects as they are, commands in its pods."""

from kvrelay.ops.cluster.access import Access, find_access, kubeconfig, reach
from kvrelay.ops.cluster.reader import Cluster, ClusterError, Object, connect

__all__ = ["Access", "Cluster", "ClusterError", "Object", "connect", "find_access", "kubeconfig", "reach"]
