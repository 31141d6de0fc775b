"""Who may talk to whom: nothing, but for the flows named here. EFA's own traffic is no IP and passes below."""

from cdk8s import Chart
from cdk8s_plus_28 import k8s
from constructs import Construct

from kvrelay.settings import Deployment
from kvrelay_k8s.names import (
    DASHBOARD_PORT,
    METRICS_PORT,
    OPERATOR_NAMESPACE,
    RAY_NODE_LABEL,
    SYSTEM_NAMESPACE,
    labels,
)

_MONITORING_NAMESPACES = ["monitoring", "amazon-cloudwatch", "prometheus"]
_RAY_PODS = k8s.LabelSelector(match_labels={RAY_NODE_LABEL: "yes"})
_EVERY_POD = k8s.LabelSelector()
_ANYWHERE = k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr="0.0.0.0/0"))
# https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
_POD_IDENTITY_AGENT = k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr="169.254.170.23/32"))


class NetworkPolicies(Chart):
    """Default deny both ways in both namespaces, and the few flows that serving needs.

    They act where the VPC CNI enforces them (`enableNetworkPolicy` of its add-on), and do nothing otherwise.
    """

    def __init__(self, scope: Construct, id: str, *, deployment: Deployment, serve_port: int) -> None:
        super().__init__(scope, id, disable_resource_name_hashes=True)
        served = deployment.serving.namespace
        vpc = k8s.NetworkPolicyPeer(ip_block=k8s.IpBlock(cidr=deployment.network.cidr))
        ray = k8s.NetworkPolicyPeer(pod_selector=_RAY_PODS)
        for namespace in (served, OPERATOR_NAMESPACE):
            self._policy(namespace, "default-deny", _EVERY_POD, ingress=[], egress=[])
            self._policy(namespace, "dns", _EVERY_POD, egress=[_to_dns()])
        # Ray's own ports are many and partly random, NIXL's handshakes take one a worker: all among Ray's pods.
        self._policy(
            served,
            "ray-internal",
            _RAY_PODS,
            ingress=[k8s.NetworkPolicyIngressRule(from_=[ray])],
            egress=[k8s.NetworkPolicyEgressRule(to=[ray])],
        )
        # Pods and load balancers have the VPC's addresses.
        self._policy(served, "serve", _RAY_PODS, ingress=[_from([vpc], serve_port)])
        self._policy(
            served,
            "operator",
            _RAY_PODS,
            ingress=[_from([_namespaces(OPERATOR_NAMESPACE)], DASHBOARD_PORT, serve_port)],
        )
        self._policy(
            served,
            "metrics",
            _RAY_PODS,
            ingress=[_from([_namespaces(*_MONITORING_NAMESPACES)], METRICS_PORT)],
        )
        # Weights, and the credentials to read them.
        self._policy(
            served, "https-out", _RAY_PODS, egress=[_to([_ANYWHERE], 443), _to([_POD_IDENTITY_AGENT], 80)]
        )
        # The API server has addresses of the VPC, behind one of the cluster's own.
        self._policy(
            OPERATOR_NAMESPACE,
            "operator",
            _EVERY_POD,
            ingress=[_from([_namespaces(*_MONITORING_NAMESPACES)], METRICS_PORT)],
            egress=[_to([_ANYWHERE], 443), _to([_namespaces(served)], DASHBOARD_PORT, serve_port)],
        )

    def _policy(
        self,
        namespace: str,
        name: str,
        pods: k8s.LabelSelector,
        *,
        ingress: list[k8s.NetworkPolicyIngressRule] | None = None,
        egress: list[k8s.NetworkPolicyEgressRule] | None = None,
    ) -> None:
        rules = {"Ingress": ingress, "Egress": egress}
        k8s.KubeNetworkPolicy(
            self,
            f"{namespace}-{name}",
            metadata=k8s.ObjectMeta(name=name, namespace=namespace, labels=labels("network-policy")),
            spec=k8s.NetworkPolicySpec(
                pod_selector=pods,
                policy_types=[direction for direction, each in rules.items() if each is not None],
                ingress=ingress or None,
                egress=egress or None,
            ),
        )


def _ports(protocol: str, *numbers: int) -> list[k8s.NetworkPolicyPort]:
    return [
        k8s.NetworkPolicyPort(protocol=protocol, port=k8s.IntOrString.from_number(number))
        for number in numbers
    ]


def _from(peers: list[k8s.NetworkPolicyPeer], *ports: int) -> k8s.NetworkPolicyIngressRule:
    return k8s.NetworkPolicyIngressRule(from_=peers, ports=_ports("TCP", *ports))


def _to(peers: list[k8s.NetworkPolicyPeer], *ports: int) -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(to=peers, ports=_ports("TCP", *ports))


def _to_dns() -> k8s.NetworkPolicyEgressRule:
    return k8s.NetworkPolicyEgressRule(
        to=[_namespaces(SYSTEM_NAMESPACE)], ports=[*_ports("UDP", 53), *_ports("TCP", 53)]
    )


def _namespaces(*names: str) -> k8s.NetworkPolicyPeer:
    requirement = k8s.LabelSelectorRequirement(
        key="kubernetes.io/metadata.name", operator="In", values=list(names)
    )
    return k8s.NetworkPolicyPeer(namespace_selector=k8s.LabelSelector(match_expressions=[requirement]))
