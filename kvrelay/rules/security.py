"""SC: who can reach, read or change what."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from kvrelay.rules.embedded import RayService
from kvrelay.rules.kinds import (
    ApplicationRule,
    DeploymentRule,
    EngineRule,
    ManifestRule,
    PlacementRule,
    RayClusterRule,
    RayGroupRule,
    RayServiceRule,
    SubjectRule,
)
from kvrelay.rules.manifests import EFA, GPU, Manifest, RayCluster, RayGroup
from kvrelay.rules.models import is_gated
from kvrelay.rules.network import SERVE_PORT, ingress_ports, selects_ray
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import Application, Engine
from kvrelay.rules.subject import DeploymentPart, Placement, Subject
from kvrelay.rules.value import Value
from kvrelay.settings import HuggingFaceWeights

CONTROL_PORTS = {6379: "Ray's control store", 8265: "the Ray dashboard", 10001: "Ray's client port"}
_RAY_SECURITY = "https://docs.ray.io/en/latest/ray-security/index.html"
_TOKEN = re.compile(
    r"hf_[A-Za-z0-9]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}|sk-[A-Za-z0-9_-]{32,}|ghp_[A-Za-z0-9]{36}"
)
_SECRET_NAMES = {"AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
_AWS_SECRET = re.compile(r"[A-Za-z0-9/+=]{40,}")
_WIDE_PREFIX = 8
_INTERNAL = {
    "service.beta.kubernetes.io/aws-load-balancer-scheme",
    "service.beta.kubernetes.io/aws-load-balancer-internal",
}
_MOVING_ARCHIVE = re.compile(
    r"/(?:archive/)?refs/heads/|/(?:archive|raw)/(?:main|master)[./]|\.git@(?:main|master)\b"
)


class OpenApiServer(DeploymentRule):
    """The Kubernetes API answers the whole internet: one leaked credential, or one fault in it, is enough."""

    number = "SC001"
    level = Level.WARNING
    mend = "Name the addresses that need it, such as 203.0.113.7/32"
    source = "https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html"

    def check(self, part: DeploymentPart) -> Iterator[Finding]:
        for index, cidr in enumerate(part.settings.cluster.public_access_cidrs):
            if ipaddress.IPv4Network(cidr).prefixlen < _WIDE_PREFIX:
                value = part.value.at("cluster", "public_access_cidrs", index)
                yield self.found(value, f"{cidr} may reach the Kubernetes API")


class OpenDashboard(SubjectRule):
    """Whoever reaches the Ray dashboard runs code in the cluster: within Kubernetes that is every pod, unless it
    asks for a token or a network policy keeps others out."""

    number = "SC002"
    level = Level.WARNING
    mend = "Set authOptions: {mode: token} (Ray 2.52 and later), or add a NetworkPolicy for Ray pods"
    source = _RAY_SECURITY

    def check(self, part: Subject) -> Iterator[Finding]:
        guarded = {
            manifest.namespace
            for manifest in part.manifests
            if manifest.kind == "NetworkPolicy"
            and (selects_ray(manifest.spec) or not manifest.spec.at("podSelector", "matchLabels").exists)
        }
        for cluster in part.ray_clusters:
            if (
                cluster.owner.kind != "RayJob"
                and cluster.spec.at("authOptions", "mode").text != "token"
                and not cluster.spec["networkPolicy"].exists
                and cluster.owner.namespace not in guarded
            ):
                yield self.found(cluster.spec, "the Ray dashboard runs jobs of any pod that reaches it")


class ExposedControlPort(ManifestRule):
    """Ray's dashboard, control store and client port run code for whoever reaches them; none is made for an open
    network."""

    number = "SC003"
    level = Level.ERROR
    mend = "Use ClusterIP, and kubectl port-forward to look at the dashboard"
    source = _RAY_SECURITY

    def check(self, part: Manifest) -> Iterator[Finding]:
        if part.kind != "Service" or part.spec["type"].text != "LoadBalancer" or _is_internal(part):
            return
        for port in part.spec["ports"].items():
            for value in (port["targetPort"], port["port"]):
                if value.whole in CONTROL_PORTS:
                    yield self.found(value, f"a load balancer opens {CONTROL_PORTS[value.whole]}")
                    break


class ExposedHead(RayClusterRule):
    """The head service carries the dashboard, the control store and the client port: made public, anyone runs code
    in the cluster."""

    number = "SC004"
    level = Level.ERROR
    mend = "Leave serviceType at ClusterIP and enableIngress off"
    source = _RAY_SECURITY

    def check(self, part: RayCluster) -> Iterator[Finding]:
        head = part.head.value
        annotated = Manifest(head["headService"]), part.spec["headServiceAnnotations"]
        internal = _is_internal(annotated[0]) or any(
            key in _INTERNAL and value.scalar_text in {"internal", "true"}
            for key, value in annotated[1].entries()
        )
        for value in (head["serviceType"], head.at("headService", "spec", "type")):
            if value.text == "LoadBalancer" and not internal:
                yield self.found(value, "the head service is a load balancer")
        if head["enableIngress"].is_true:
            yield self.found(head["enableIngress"], "an Ingress leads to the head service")


class ControlPortBehindIngress(ManifestRule):
    """An Ingress asks nobody for a name by itself: whoever reaches it runs code through Ray's dashboard."""

    number = "SC016"
    level = Level.WARNING
    mend = "Use kubectl port-forward, or keep it internal and behind authentication and acknowledge this"
    source = _RAY_SECURITY

    def check(self, part: Manifest) -> Iterator[Finding]:
        if part.kind != "Ingress":
            return
        for number in sorted(ingress_ports(part) & CONTROL_PORTS.keys()):
            yield self.found(part.spec, f"an Ingress leads to {CONTROL_PORTS[number]}")


class PublicEndpoint(ManifestRule):
    """Ray Serve asks nobody for a key and speaks plain HTTP: whoever reaches the endpoint uses the GPUs."""

    number = "SC005"
    level = Level.WARNING
    mend = "Make the load balancer internal, or put one with TLS and authentication in front"
    source = "https://docs.ray.io/en/latest/serve/production-guide/best-practices.html"

    def check(self, part: Manifest) -> Iterator[Finding]:
        service = part
        spec = part.spec
        if part.kind == "RayService":
            service = Manifest(part.spec["serveService"])
            spec = service.spec
        elif part.kind != "Service" or not any(
            key.startswith("ray.io/") for key, _ in spec["selector"].entries()
        ):
            return
        ports = {port["port"].whole for port in spec["ports"].items()}
        serves = SERVE_PORT in ports or part.kind == "RayService"
        if spec["type"].text == "LoadBalancer" and serves and not _is_internal(service):
            yield self.found(spec["type"], "the endpoint is open to the internet")


class SecretInText(SubjectRule):
    """A token in a manifest or Serve config is read by whoever reads the repository, the object or Ray's
    dashboard."""

    number = "SC006"
    level = Level.ERROR
    mend = "Take it from a Secret: valueFrom: {secretKeyRef: ...}, and revoke this one"
    source = "https://kubernetes.io/docs/concepts/security/secrets-good-practices/"

    def check(self, part: Subject) -> Iterator[Finding]:
        variables: list[tuple[str, Value]] = []
        for pod in part.pods:
            for container in pod.all_containers:
                variables += [
                    (entry["name"].text or "", entry["value"]) for entry in container.value["env"].items()
                ]
        for config in part.serve_configs:
            for app in config.applications:
                for environment in (
                    app.value["runtime_env"],
                    *(each.config["runtime_env"] for each in app.engines),
                ):
                    variables += environment["env_vars"].entries()
        for engine in part.engines:
            variables.append(("", engine.arguments["hf_token"]))
        for name, value in variables:
            text = (value.text or "")[:500]
            if _TOKEN.search(text) or (name in _SECRET_NAMES and _AWS_SECRET.fullmatch(text)):
                finding = self.found(value, f"{name or 'hf_token'} holds a secret in plain text")
                yield replace(finding, found="a secret")


class TrustedRemoteCode(EngineRule):
    """The engine runs whatever Python the model's repository holds at its next start."""

    number = "SC007"
    level = Level.WARNING
    mend = "Remove trust_remote_code, or pin revision to a commit that was read"
    source = "https://huggingface.co/docs/transformers/main/en/models#custom-models"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.arguments["trust_remote_code"]
        pinned = re.fullmatch(r"[0-9a-f]{40}", part.arguments["revision"].text or "")
        if value.is_true and not pinned:
            yield self.found(value, "runs code from the model's repository, which can change")


class PromptsLogged(RayServiceRule):
    """Ray Serve LLM writes each prompt to its log unless told otherwise: what users ask ends in log storage."""

    number = "SC008"
    level = Level.WARNING
    mend = 'Set RAYLLM_ENABLE_REQUEST_PROMPT_LOGS to "0" in every Ray container'
    source = "Ray 2.58, ray/llm/_internal/serve/constants.py"

    def check(self, part: RayService) -> Iterator[Finding]:
        name = "RAYLLM_ENABLE_REQUEST_PROMPT_LOGS"
        apps = [app for app in part.serve.applications if app.builder] if part.serve else []
        if not apps or not part.cluster:
            return
        containers = [group.ray_container for group in part.cluster.groups]
        set_by_app = all(app.value.at("runtime_env", "env_vars", name).scalar_text == "0" for app in apps)
        if not set_by_app and not all(
            container.environment(name).scalar_text == "0" for container in containers
        ):
            yield self.found(part.serve_text, "prompts of users are written to the log")


class NeedlessPrivilege(RayGroupRule):
    """A privileged container owns its node. Workers need it to register memory with EFA; nothing else does."""

    number = "SC009"
    level = Level.WARNING
    mend = "Remove privileged: true"
    source = "https://docs.aws.amazon.com/eks/latest/best-practices/pod-security.html"

    def check(self, part: RayGroup) -> Iterator[Finding]:
        if part.pod.count(EFA) or part.pod.count(GPU):
            return
        for container in part.pod.containers:
            if container.is_privileged:
                yield self.found(
                    container.value.at("securityContext", "privileged"),
                    f"{part.name} is privileged without a device",
                )


class HostMounted(RayGroupRule):
    """These paths hand the node, and through it the cluster, to whoever gets into the pod."""

    number = "SC010"
    level = Level.ERROR
    mend = "Mount the one folder that is needed, such as /mnt/k8s-disks/0/models"
    source = "https://kubernetes.io/docs/concepts/storage/volumes/#hostpath"

    def check(self, part: RayGroup) -> Iterator[Finding]:
        for volume in part.pod.spec["volumes"].items():
            path = volume.at("hostPath", "path")
            text = (path.text or "x").rstrip("/")
            if text in {"", "/etc", "/root", "/var", "/var/lib/kubelet"} or text.endswith(
                ("docker.sock", "containerd.sock")
            ):
                yield self.found(path, f"mounts {path.shown} of the node")


class ClusterAdmin(SubjectRule):
    """A pod with cluster-admin reads every secret and runs anything anywhere: Ray runs whatever it is sent."""

    number = "SC011"
    level = Level.WARNING
    mend = "Bind a role with the few verbs that are needed"
    source = "https://docs.aws.amazon.com/eks/latest/best-practices/identity-and-access-management.html"

    def check(self, part: Subject) -> Iterator[Finding]:
        accounts = {
            (cluster.owner.namespace, group.pod.spec["serviceAccountName"].text or "default")
            for cluster in part.ray_clusters
            for group in cluster.groups
        }
        for manifest in part.manifests:
            if manifest.kind not in {"ClusterRoleBinding", "RoleBinding"}:
                continue
            role = manifest.value.at("roleRef", "name")
            for subject in manifest.value["subjects"].items() if role.text == "cluster-admin" else []:
                account = (subject["namespace"].text or manifest.namespace, subject["name"].text or "")
                if subject["kind"].text == "ServiceAccount" and account in accounts:
                    yield self.found(role, f"Ray's service account {account[1][:60]} is cluster-admin")


class GatedWithoutToken(PlacementRule):
    """The hub refuses a gated model's weights without the token of an account that accepted its licence."""

    number = "SC012"
    level = Level.WARNING
    mend = "Set serving.weights.token_secret_name, or copy the weights to a bucket (weights: {source: s3})"
    source = "https://huggingface.co/docs/hub/models-gated"

    def check(self, part: Placement) -> Iterator[Finding]:
        weights = part.deployment.settings.serving.weights
        if not isinstance(weights, HuggingFaceWeights) or weights.token_secret_name:
            return
        for engine in part.app.engines:
            if is_gated(engine):
                yield self.found(
                    engine.model_source, f"{engine.model_source.shown} is gated and no token is named"
                )


class MovingCode(ApplicationRule):
    """The archive of a branch holds other code after the next push: replicas that restart run it unseen."""

    number = "SC013"
    level = Level.WARNING
    mend = "Name the archive of a commit or tag"
    source = "https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#remote-uris"

    def check(self, part: Application) -> Iterator[Finding]:
        environments = [part.value["runtime_env"], *(engine.config["runtime_env"] for engine in part.engines)]
        for environment in environments:
            for value in (environment["working_dir"], *environment["py_modules"].items()):
                text = (value.text or "")[:2000]
                if _MOVING_ARCHIVE.search(text):
                    yield self.found(value, f"{value.shown} is a branch")
                elif text.startswith("http://"):
                    yield self.found(value, f"{value.shown} comes without TLS", "Use https://")


class TokenNeedsNewerRay(RayClusterRule):
    """KubeRay refuses token authentication with a Ray that has none, or without knowing the version."""

    number = "SC014"
    level = Level.ERROR
    mend = "Set rayVersion to 2.52 or later, with an image of that version"
    source = "KubeRay 1.7, ray-operator/controllers/ray/utils/validation.go"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        mode = part.spec.at("authOptions", "mode")
        version = part.ray_version
        if mode.text == "token" and (version is None or version < (2, 52)):
            yield self.found(mode, f"wants a token, rayVersion is {part.spec['rayVersion'].shown}")
        kubernetes = part.spec.at("authOptions", "enableK8sTokenAuth")
        if kubernetes.is_true and (part.owner.kind != "RayCluster" or mode.text != "token"):
            yield self.found(
                kubernetes, "a token of Kubernetes is not taken here", "Remove enableK8sTokenAuth"
            )


class HostNetworkForRay(RayGroupRule):
    """On the node's network Ray's ports are open to the whole VPC, past network policies, and two Ray pods on one
    node fight over them."""

    number = "SC015"
    level = Level.WARNING
    mend = "Remove hostNetwork: EFA needs none in a pod"
    source = "https://docs.aws.amazon.com/eks/latest/best-practices/pod-security.html"

    def check(self, part: RayGroup) -> Iterator[Finding]:
        value = part.pod.spec["hostNetwork"]
        if value.is_true:
            yield self.found(value, f"{part.name} uses the node's network")


def _is_internal(service: Manifest) -> bool:
    return service.spec["loadBalancerSourceRanges"].exists or any(
        service.annotation(name).scalar_text in {"internal", "true"} for name in _INTERNAL
    )


RULES: tuple[Rule[Any], ...] = (
    OpenApiServer(),
    OpenDashboard(),
    ExposedControlPort(),
    ExposedHead(),
    PublicEndpoint(),
    SecretInText(),
    TrustedRemoteCode(),
    PromptsLogged(),
    NeedlessPrivilege(),
    HostMounted(),
    ClusterAdmin(),
    GatedWithoutToken(),
    MovingCode(),
    TokenNeedsNewerRay(),
    HostNetworkForRay(),
    ControlPortBehindIngress(),
)
