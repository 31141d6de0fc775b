"""RS: RayServices, and the Serve config inside them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kvrelay.rules.embedded import RayService
from kvrelay.rules.kinds import RayServiceRule
from kvrelay.rules.manifests import GPU
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import Engine

_VALIDATION = "KubeRay 1.7, ray-operator/controllers/ray/utils/validation.go"
_TIMEOUT = "ray.io/initializing-timeout"
_DURATION = re.compile(r"(?:\d{1,9}(?:\.\d{1,9})?(?:ns|us|µs|ms|s|m|h))+")
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_SHORTEST_START = 600.0
_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


class IgnoredThresholds(RayServiceRule):
    """KubeRay ignores both thresholds: an unhealthy service is not replaced by them."""

    number = "RS030"
    level = Level.WARNING
    mend = "Remove it; Serve restarts unhealthy replicas itself (health_check_period_s)"
    source = "https://github.com/ray-project/kuberay/issues/1685"

    def check(self, part: RayService) -> Iterator[Finding]:
        for name in ("serviceUnhealthySecondThreshold", "deploymentUnhealthySecondThreshold"):
            if part.spec[name].exists:
                yield self.found(part.spec[name], f"{name} has no effect")


class NamedHeadService(RayServiceRule):
    """KubeRay names the head service itself, one for each cluster of an upgrade, and refuses a fixed name."""

    number = "RS031"
    level = Level.ERROR
    mend = "Remove headService.metadata.name"
    source = "https://github.com/ray-project/kuberay/issues/2433"

    def check(self, part: RayService) -> Iterator[Finding]:
        name = part.spec.at("rayClusterConfig", "headGroupSpec", "headService", "metadata", "name")
        if name.exists:
            yield self.found(name, f"names the head service {name.shown}")


class UnreadableServeConfig(RayServiceRule):
    """KubeRay hands the text to Serve as it is: an error in it shows only in the service's events."""

    number = "RS032"
    level = Level.ERROR
    mend = "Correct the YAML under serveConfigV2: |"
    source = "https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/rayservice.html"

    def check(self, part: RayService) -> Iterator[Finding]:
        if part.fault:
            yield self.found(part.serve_text, f"serveConfigV2 {part.fault}")
        elif part.serve and not part.serve.value["applications"].is_list:
            yield self.found(part.serve.value, "serveConfigV2 has no list of applications")


class BadStartTimeout(RayServiceRule):
    """KubeRay refuses a timeout that it can't read."""

    number = "RS033"
    level = Level.ERROR
    mend = 'Write a duration such as "45m", or seconds, in quotes'
    source = _VALIDATION

    def check(self, part: RayService) -> Iterator[Finding]:
        value = part.manifest.annotation(_TIMEOUT)
        seconds = _seconds(value.scalar_text or "0")
        if value.exists and value.raw != "" and (seconds is None or seconds <= 0 or value.text is None):
            yield self.found(value, f"{value.shown} is no duration")


class ShortStart(RayServiceRule):
    """When the timeout ends before the first start does, the service fails for good. A first start pulls an image
    of tens of gigabytes and loads the weights."""

    number = "RS034"
    level = Level.WARNING
    mend = 'Allow 30 minutes ("30m") or leave the annotation out'
    source = "KubeRay 1.7, ray-operator/controllers/ray/utils/constant.go"

    def check(self, part: RayService) -> Iterator[Finding]:
        value = part.manifest.annotation(_TIMEOUT)
        seconds = _seconds(value.text or "")
        if seconds is not None and 0 < seconds < _SHORTEST_START:
            yield self.found(value, f"gives up after {value.shown}")


class NoProxyOnWorkers(RayServiceRule):
    """KubeRay's readiness probe of a worker asks its Serve proxy: without one no worker is ever ready, and the
    service has no endpoints."""

    number = "RS035"
    level = Level.ERROR
    mend = "Write proxy_location: EveryNode, the default"
    source = "KubeRay 1.7, ray-operator/controllers/ray/common/pod.go"

    def check(self, part: RayService) -> Iterator[Finding]:
        if not part.serve or not part.cluster:
            return
        location = part.serve.value["proxy_location"]
        unprobed = [
            group for group in part.cluster.workers if not group.ray_container.value["readinessProbe"].exists
        ]
        if location.text in {"HeadOnly", "Disabled"} and unprobed:
            yield self.found(location, f"proxy_location is {location.text}: no worker becomes ready")


class ServePortDiffers(RayServiceRule):
    """Services and probes use the container port named `serve`, or 8000; Serve listens where its config says."""

    number = "RS036"
    level = Level.ERROR
    mend = "Leave http_options.port out, or name the same containerPort serve in every group"
    source = "KubeRay 1.7, ray-operator/controllers/ray/utils/util.go: FindContainerPort"

    def check(self, part: RayService) -> Iterator[Finding]:
        if not part.serve or not part.cluster:
            return
        value = part.serve.value.at("http_options", "port")
        listening = value.whole if value.exists else 8000
        for group in part.cluster.groups:
            expected = 8000
            for port in group.ray_container.value["ports"].items():
                if port["name"].text == "serve":
                    expected = port["containerPort"].whole or 8000
            if listening is not None and listening != expected and group.pod.containers:
                at = value if value.exists else part.serve.value
                yield self.found(
                    at, f"Serve listens on {listening}, the port serve of {group.name} is {expected}"
                )
                return


class LoopbackServe(RayServiceRule):
    """Serve that listens on loopback answers nobody outside its own pod."""

    number = "RS037"
    level = Level.ERROR
    mend = "Write http_options: {host: 0.0.0.0}, or leave the host out"
    source = "https://docs.ray.io/en/latest/serve/production-guide/config.html"

    def check(self, part: RayService) -> Iterator[Finding]:
        host = part.serve.value.at("http_options", "host") if part.serve else None
        if host is not None and host.text in _LOOPBACK:
            yield self.found(host, f"Serve listens on {host.shown}, inside its pod only")


class TooFewGpus(RayServiceRule):
    """Engines for which the cluster has no GPU wait for ever; Serve says DEPLOYING."""

    number = "RS038"
    level = Level.ERROR
    mend = "Raise the worker groups' replicas, or lower the engines' replicas or parallel sizes"
    source = "https://docs.ray.io/en/latest/serve/production-guide/handling-dependencies.html"

    def check(self, part: RayService) -> Iterator[Finding]:
        if not part.serve or not part.cluster:
            return
        held = 0
        for group in part.cluster.groups:
            each = group.ray_container.count(GPU)
            if group.is_head:
                held += each
                continue
            counts = [group.value[name].whole or 0 for name in ("replicas", "minReplicas")]
            if part.cluster.autoscales:
                most = group.value["maxReplicas"].whole
                if most is None and each:
                    return
                counts.append(most or 0)
            held += each * max(counts) * (group.value["numOfHosts"].whole or 1)
        engines = [
            engine
            for app in part.serve.applications
            for engine in app.engines
            if not engine.on_cpu and not _takes_part_of_gpu(engine)
        ]
        needed = sum(engine.gpus * (engine.replicas or 0) for engine in engines)
        if 0 < held < needed:
            at = part.cluster.spec["workerGroupSpecs"]
            yield self.found(at, f"the cluster holds {held} GPUs, its engines need {needed}")


def _takes_part_of_gpu(engine: Engine) -> bool:
    group = engine.config["placement_group_config"]
    counts = [bundle["GPU"].number for bundle in (*group["bundles"].items(), group["bundle_per_worker"])]
    return any(count is not None and 0 < count < 1 for count in counts)


def _seconds(text: str) -> float | None:
    if text.isdecimal() and len(text) < 10:
        return float(text)
    if len(text) > 60 or not _DURATION.fullmatch(text):
        return None
    return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"([\d.]+)([a-zµ]+)", text))


RULES: tuple[Rule[Any], ...] = (
    IgnoredThresholds(),
    NamedHeadService(),
    UnreadableServeConfig(),
    BadStartTimeout(),
    ShortStart(),
    NoProxyOnWorkers(),
    ServePortDiffers(),
    LoopbackServe(),
    TooFewGpus(),
)
