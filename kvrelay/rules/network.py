"""NW: addresses, load balancers, timeouts, network policies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kvrelay.rules.kinds import DeploymentRule, ManifestRule, ServeRule, SubjectRule
from kvrelay.rules.manifests import Manifest
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import ServeConfig
from kvrelay.rules.subject import DeploymentPart, Subject
from kvrelay.rules.value import Value

SERVE_PORT = 8000
_RAY_LABEL = "ray.io/"
_IDLE = re.compile(r"idle_timeout\.timeout_seconds=(\d{1,6})")
_LONGEST_ANSWER_S = 60


class HalfOfEcr(DeploymentRule):
    """An image pull asks ECR's API for a token and its Docker endpoint for layers: one endpoint without the other
    is paid for and saves nothing."""

    number = "NW001"
    level = Level.WARNING
    mend = "Name both ecr-api and ecr-docker, or neither"
    source = "https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html"

    def check(self, part: DeploymentPart) -> Iterator[Finding]:
        named = {str(each) for each in part.settings.network.interface_endpoints} & {"ecr-api", "ecr-docker"}
        if len(named) == 1:
            value = part.value.at("network", "interface_endpoints")
            yield self.found(value, f"names {named.pop()} without its other half")


class StreamsCut(ManifestRule):
    """A load balancer of AWS closes a connection that is silent for 60 seconds: a long prompt or an answer that is
    not streamed ends there."""

    number = "NW002"
    level = Level.WARNING
    mend = "Add alb.ingress.kubernetes.io/load-balancer-attributes: idle_timeout.timeout_seconds=600"
    source = "https://docs.aws.amazon.com/elasticloadbalancing/latest/application/edit-load-balancer-attributes.html"

    def check(self, part: Manifest) -> Iterator[Finding]:
        if part.kind != "Ingress" or not _is_alb(part) or SERVE_PORT not in ingress_ports(part):
            return
        value = part.annotation("alb.ingress.kubernetes.io/load-balancer-attributes")
        match = _IDLE.search(value.text or "")
        if not match:
            yield self.found(part.spec, "closes connections after 60 silent seconds")
        elif int(match[1]) <= _LONGEST_ANSWER_S:
            yield self.found(value, f"closes connections after {match[1]} silent seconds")


class ShortRequestTimeout(ServeRule):
    """Serve ends a request after this time, streamed or not: long answers take minutes."""

    number = "NW003"
    level = Level.WARNING
    mend = "Leave request_timeout_s out, or allow 600 seconds"
    source = "https://docs.ray.io/en/latest/serve/advanced-guides/performance.html"

    def check(self, part: ServeConfig) -> Iterator[Finding]:
        value = part.value.at("http_options", "request_timeout_s")
        if value.number is not None and 0 < value.number < _LONGEST_ANSWER_S and _serves_llm(part):
            yield self.found(value, f"ends requests after {value.shown} seconds")


class PolicyCutsRay(SubjectRule):
    """Ray's pods talk to each other on many ports, and decode fetches the cache's address from prefill's side
    channel (20000 up): where policies select Ray pods, one of them must let Ray pods in on all ports."""

    number = "NW004"
    level = Level.WARNING
    mend = (
        "Add a policy that allows all ports from pods of the same Ray cluster, by their label ray.io/cluster"
    )
    source = "https://docs.ray.io/en/latest/ray-core/configure.html#ports-configurations"

    def check(self, part: Subject) -> Iterator[Finding]:
        selecting = [each for each in part.manifests if each.kind == "NetworkPolicy" and _limits_ray(each)]
        open_to_ray = {each.namespace for each in selecting if _lets_ray_in(each)}
        told: set[str] = set()
        for policy in selecting:
            if policy.namespace not in open_to_ray | told:
                told.add(policy.namespace)
                yield self.found(policy.spec, "no policy lets Ray pods reach each other on all ports")


def ingress_ports(part: Manifest) -> set[int]:
    """The service ports that an Ingress leads to."""
    backends = [part.spec["defaultBackend"]]
    for rule in part.spec["rules"].items():
        backends += [path["backend"] for path in rule.at("http", "paths").items()]
    numbers = (backend.at("service", "port", "number").whole for backend in backends)
    return {number for number in numbers if number is not None}


def selects_ray(spec: Value) -> bool:
    """Whether a policy's or service's selector names Ray pods."""
    labels = spec.at("podSelector", "matchLabels")
    return any(key.startswith(_RAY_LABEL) for key, _ in labels.entries())


def _limits_ray(policy: Manifest) -> bool:
    types = [each.text for each in policy.spec["policyTypes"].items()]
    return selects_ray(policy.spec) and (not types or "Ingress" in types)


def _lets_ray_in(policy: Manifest) -> bool:
    return any(
        not rule["ports"].exists and _from_ray(rule["from"]) for rule in policy.spec["ingress"].items()
    )


def _from_ray(sources: Value) -> bool:
    if not sources.exists:
        return True
    for source in sources.items():
        selector = source["podSelector"]
        if selector.is_mapping and (not selector.raw or selects_ray(source)):
            return True
    return False


def _is_alb(part: Manifest) -> bool:
    named = part.spec["ingressClassName"].text or part.annotation("kubernetes.io/ingress.class").text
    return named == "alb"


def _serves_llm(part: ServeConfig) -> bool:
    return any(app.builder for app in part.applications)


RULES: tuple[Rule[Any], ...] = (
    HalfOfEcr(),
    StreamsCut(),
    ShortRequestTimeout(),
    PolicyCutsRay(),
)
