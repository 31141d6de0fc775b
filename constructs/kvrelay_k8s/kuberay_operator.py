"""The KubeRay operator: turns a RayService into Ray's pods and keeps them."""

from collections.abc import Mapping

from cdk8s import ApiObjectMetadata, Chart
from cdk8s_plus_28 import ServiceAccount, k8s
from constructs import Construct

from kvrelay.data import versions
from kvrelay.settings import Deployment
from kvrelay.settings.scheduling import ROLE_LABEL, SYSTEM_ROLE
from kvrelay_k8s.kuberay_rbac import grant_operator
from kvrelay_k8s.names import OPERATOR_NAME, OPERATOR_NAMESPACE, labels

_PORT = 8080
_SELECTOR = {"app.kubernetes.io/name": OPERATOR_NAME}
# Off: RayService's incremental upgrade, which needs the Gateway API's CRDs and Ray's autoscaler.
_FEATURE_GATES = {"RayServiceIncrementalUpgrade": False}


class KubeRayOperator(Chart):
    """One operator for the served namespace, on the system nodes."""

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        served = deployment.serving.namespace
        ServiceAccount(
            self,
            "ServiceAccount",
            metadata=ApiObjectMetadata(
                name=OPERATOR_NAME, namespace=OPERATOR_NAMESPACE, labels=labels("operator")
            ),
            automount_token=True,
        )
        grant_operator(self, served=served)
        k8s.KubeDeployment(
            self,
            "Deployment",
            metadata=k8s.ObjectMeta(
                name=OPERATOR_NAME, namespace=OPERATOR_NAMESPACE, labels={**_SELECTOR, **labels("operator")}
            ),
            spec=k8s.DeploymentSpec(
                replicas=1,
                # The old one goes before the new one comes: two would both reconcile until the lease moves.
                strategy=k8s.DeploymentStrategy(type="Recreate"),
                selector=k8s.LabelSelector(match_labels=_SELECTOR),
                template=k8s.PodTemplateSpec(
                    metadata=k8s.ObjectMeta(labels={**_SELECTOR, **labels("operator")}),
                    spec=_pod(
                        _arguments(served, {**_FEATURE_GATES, **deployment.serving.operator_feature_gates})
                    ),
                ),
            ),
        )


def _arguments(served: str, feature_gates: Mapping[str, bool]) -> list[str]:
    gates = ",".join(f"{name}={str(on).lower()}" for name, on in sorted(feature_gates.items()))
    return [
        "--enable-leader-election=true",
        f"--watch-namespace={served}",
        "--enable-metrics=true",
        "--reconcile-concurrency=1",
        f"--feature-gates={gates}",
    ]


def _pod(arguments: list[str]) -> k8s.PodSpec:
    probe = k8s.HttpGetAction(path="/metrics", port=k8s.IntOrString.from_number(_PORT))
    container = k8s.Container(
        name=OPERATOR_NAME,
        image=versions().kuberay_image,
        command=["/manager"],
        args=arguments,
        ports=[k8s.ContainerPort(name="http", container_port=_PORT)],
        liveness_probe=k8s.Probe(
            http_get=probe, initial_delay_seconds=10, period_seconds=5, failure_threshold=5
        ),
        readiness_probe=k8s.Probe(
            http_get=probe, initial_delay_seconds=5, period_seconds=5, failure_threshold=5
        ),
        # No CPU limit: a throttled operator misses its lease.
        resources=k8s.ResourceRequirements(
            requests={"cpu": k8s.Quantity.from_string("100m"), "memory": k8s.Quantity.from_string("512Mi")},
            limits={"memory": k8s.Quantity.from_string("512Mi")},
        ),
        security_context=k8s.SecurityContext(
            allow_privilege_escalation=False,
            read_only_root_filesystem=True,
            capabilities=k8s.Capabilities(drop=["ALL"]),
        ),
    )
    return k8s.PodSpec(
        service_account_name=OPERATOR_NAME,
        node_selector={ROLE_LABEL: SYSTEM_ROLE},
        priority_class_name="system-cluster-critical",
        termination_grace_period_seconds=10,
        security_context=k8s.PodSecurityContext(
            run_as_non_root=True,
            run_as_user=65532,
            run_as_group=65532,
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
        ),
        containers=[container],
    )
