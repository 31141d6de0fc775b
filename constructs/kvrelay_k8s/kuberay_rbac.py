"""What the KubeRay operator may do: what its code does for RayService, RayCluster and RayJob, no more."""

from cdk8s import Chart
from cdk8s_plus_28 import k8s

from kvrelay_k8s.names import OPERATOR_NAME, OPERATOR_NAMESPACE, labels

_FOLLOW = ("list", "watch")
_MAKE = (*_FOLLOW, "create", "delete")

# API group, resources, verbs: what the code of 1.7 asks for, no more. It reads from caches, which list and watch but
# never get. Nothing for feature gates that are off.
_RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("ray.io", ("rayclusters",), (*_MAKE, "update")),
    # Their finalizers; and a job may be deleted by a rule of its own.
    ("ray.io", ("rayservices",), (*_FOLLOW, "update")),
    ("ray.io", ("rayjobs",), (*_FOLLOW, "update", "delete")),
    ("ray.io", ("rayclusters/status", "rayservices/status", "rayjobs/status"), ("update",)),
    # Updated: whether the head serves. All of a suspended cluster's at once.
    ("", ("pods",), (*_MAKE, "update", "deletecollection")),
    ("", ("services",), (*_MAKE, "update")),
    # The head's token, made once for each Ray cluster.
    ("", ("secrets",), (*_FOLLOW, "create")),
    # Watched with what a Ray cluster owns, even where none is ever made.
    ("", ("persistentvolumeclaims",), _FOLLOW),
    ("", ("events",), ("create", "patch")),
    ("events.k8s.io", ("events",), ("create", "patch")),
    # How many endpoints serve.
    ("discovery.k8s.io", ("endpointslices",), _FOLLOW),
    # A RayJob's submitter.
    ("batch", ("jobs",), _MAKE),
)
_ELECTION_RULES: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("coordination.k8s.io", ("leases",), ("get", "create", "update")),
    ("", ("events",), ("create", "patch")),
    ("events.k8s.io", ("events",), ("create", "patch")),
)


def grant_operator(chart: Chart, *, served: str) -> None:
    """Rights in the namespace it serves, and leader election in its own. No right reaches the whole cluster."""
    election = f"{OPERATOR_NAME}-leader-election"
    k8s.KubeClusterRole(
        chart,
        "Role",
        metadata=k8s.ObjectMeta(name=OPERATOR_NAME, labels=labels("operator")),
        rules=_policy_rules(_RULES),
    )
    # A RoleBinding holds a ClusterRole's rights within one namespace.
    _bind(chart, "Binding", name=OPERATOR_NAME, namespace=served, kind="ClusterRole")
    k8s.KubeRole(
        chart,
        "LeaderElection",
        metadata=k8s.ObjectMeta(name=election, namespace=OPERATOR_NAMESPACE, labels=labels("operator")),
        rules=_policy_rules(_ELECTION_RULES),
    )
    _bind(chart, "LeaderElectionBinding", name=election, namespace=OPERATOR_NAMESPACE, kind="Role")


def _policy_rules(rules: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]) -> list[k8s.PolicyRule]:
    return [
        k8s.PolicyRule(api_groups=[group], resources=list(resources), verbs=list(verbs))
        for group, resources, verbs in rules
    ]


def _bind(chart: Chart, id: str, *, name: str, namespace: str, kind: str) -> None:
    """Gives the operator's service account the role of the binding's own name."""
    k8s.KubeRoleBinding(
        chart,
        id,
        metadata=k8s.ObjectMeta(name=name, namespace=namespace, labels=labels("operator")),
        role_ref=k8s.RoleRef(api_group="rbac.authorization.k8s.io", kind=kind, name=name),
        subjects=[k8s.Subject(kind="ServiceAccount", name=OPERATOR_NAME, namespace=OPERATOR_NAMESPACE)],
    )
