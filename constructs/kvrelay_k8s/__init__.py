"""cdk8s charts: each holds the Kubernetes objects of one piece. `charts` makes them all."""

from kvrelay_k8s.manifest_set import ManifestSet, charts
from kvrelay_k8s.names import OPERATOR_NAMESPACE, RAY_SERVICE_ACCOUNT

__all__ = ["OPERATOR_NAMESPACE", "RAY_SERVICE_ACCOUNT", "ManifestSet", "charts"]
