"""EN: the Serve config around the engines: applications, replicas, autoscaling, misspelled keys."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Any

from kvrelay.rules.kinds import ApplicationRule, EngineRule, ServeRule
from kvrelay.rules.known_keys import meant
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import PREFILL_DECODE_BUILDER, Application, Engine, ServeConfig
from kvrelay.rules.value import Value
from kvrelay.serve_app.ingress import INGRESS_ARGUMENTS, INGRESS_CLASS

_BUILDER = "Ray 2.58, ray/llm, prefill_decode/builder.py"
_SCHEMA = "Ray 2.58, ray/serve/schema.py"
_CONFIG = "Ray 2.58, ray/serve/config.py"
_BUILDERS = {
    "build_dp_deployment",
    "build_dp_openai_app",
    "build_llm_deployment",
    "build_openai_app",
    "build_pd_openai_app",
}


class MisspelledServeKey(ServeRule):
    """Serve accepts any key and ignores those it does not know: a misspelled one changes nothing, in silence."""

    number = "EN030"
    level = Level.ERROR
    mend = "Correct the key"
    source = _SCHEMA

    def check(self, part: ServeConfig) -> Iterator[Finding]:
        top = ("serve_config",) if part.value["applications"].exists else ("serve_config", "application")
        yield from self._in(part.value, *top)
        yield from self._in(part.value["http_options"], "http_options")
        for app in part.applications:
            if part.value["applications"].exists:
                yield from self._in(app.value, "application")
            for options, _ in app.deployment_options:
                yield from self._in(options, "deployment_options")
                yield from self._in(options["ray_actor_options"], "actor_options")
                yield from self._in(options["autoscaling_config"], "autoscaling")

    def _in(self, mapping: Value, *kinds: str) -> Iterator[Finding]:
        for key, value in mapping.entries():
            if name := meant(key, *kinds):
                yield self.found(value, f"{key} is no key of {kinds[-1]} and is ignored", f"Write {name}")


class UnknownBuilderArgument(ApplicationRule):
    """The prefill/decode builder refuses arguments that it does not know."""

    number = "EN031"
    level = Level.ERROR
    mend = "Correct it; the builder takes prefill_config, decode_config, ingress_deployment_config, ingress_cls_config"
    source = _BUILDER

    def check(self, part: Application) -> Iterator[Finding]:
        if not part.is_prefill_decode:
            return
        for key, value in part.arguments.entries():
            if key in {"llm_configs", "llm_config"} or meant(key, "prefill_decode_arguments"):
                yield self.found(value, f"{key} is no argument of {PREFILL_DECODE_BUILDER}")


class IgnoredProxyConfig(ApplicationRule):
    """Decode took over the proxy's work: its settings are ignored by Ray 2.58 and refused by 2.60."""

    number = "EN032"
    level = Level.WARNING
    mend = "Remove it; ingress_deployment_config sets the ingress"
    source = _BUILDER

    def check(self, part: Application) -> Iterator[Finding]:
        for name in ("proxy_cls_config", "proxy_deployment_config"):
            value = part.arguments[name]
            if part.is_prefill_decode and value.written:
                yield self.found(value, f"{name} is ignored")


class WrongBuilder(ApplicationRule):
    """Prefill and decode configs go to one builder, plain ones to another; each refuses the other's."""

    number = "EN033"
    level = Level.ERROR
    mend = "Use ray.serve.llm:build_pd_openai_app with prefill_config and decode_config"
    source = _BUILDER

    def check(self, part: Application) -> Iterator[Finding]:
        roles = [part.arguments[f"{role}_config"] for role in ("prefill", "decode")]
        given = [role.exists for role in roles]
        if part.is_prefill_decode and not all(given):
            yield self.found(part.arguments, "lacks prefill_config or decode_config")
        elif part.builder == "build_openai_app" and any(given):
            yield self.found(part.value["import_path"], "build_openai_app makes no prefill and decode")


class ReplicasTwice(ApplicationRule):
    """A deployment has a fixed number of replicas or scales itself: Serve refuses both."""

    number = "EN034"
    level = Level.ERROR
    mend = "Remove num_replicas or autoscaling_config"
    source = _SCHEMA

    def check(self, part: Application) -> Iterator[Finding]:
        for options, _ in part.deployment_options:
            if options["num_replicas"].whole is not None and options["autoscaling_config"].is_mapping:
                yield self.found(options["num_replicas"], "num_replicas stands beside autoscaling_config")


class ReplicaBounds(ApplicationRule):
    """Serve refuses bounds that hold no number of replicas."""

    number = "EN035"
    level = Level.ERROR
    mend = "Keep min_replicas <= initial_replicas <= max_replicas, and max_replicas at 1 at least"
    source = _CONFIG

    def check(self, part: Application) -> Iterator[Finding]:
        for options, _ in part.deployment_options:
            scaling = options["autoscaling_config"]
            least, first, most = (scaling[f"{name}_replicas"] for name in ("min", "initial", "max"))
            low = least.whole if least.exists else None
            high = most.whole if most.exists else None
            if high is not None and (high < 1 or (low is not None and low > high)):
                yield self.found(most, f"max_replicas is {high}" + (f", min_replicas {low}" if low else ""))
            start = first.whole if first.exists else None
            if start is not None and (
                (low is not None and start < low) or (high is not None and start > high)
            ):
                yield self.found(first, f"initial_replicas is {start}, outside the bounds")


class ScaleToZero(EngineRule):
    """Ray Serve LLM ignores a minimum of 0 since 2.51: the GPUs stay taken."""

    number = "EN036"
    level = Level.WARNING
    mend = "Use min_replicas: 1; to park the service, suspend the RayService and set the nodes to 0"
    source = "https://github.com/ray-project/ray/issues/59076"

    def check(self, part: Engine) -> Iterator[Finding]:
        value = part.deployment.at("autoscaling_config", "min_replicas")
        if value.whole == 0:
            yield self.found(value, "min_replicas is 0, which does not free the GPUs")


class TargetAboveLimit(ApplicationRule):
    """Autoscaling compares running requests with the target: a replica that never runs so many never asks for
    another."""

    number = "EN037"
    level = Level.WARNING
    mend = "Set target_ongoing_requests below max_ongoing_requests"
    source = "https://docs.ray.io/en/latest/serve/advanced-guides/advanced-autoscaling.html"

    def check(self, part: Application) -> Iterator[Finding]:
        for options, _ in part.deployment_options:
            target = options.at("autoscaling_config", "target_ongoing_requests")
            limit = options["max_ongoing_requests"]
            if target.number and limit.number and target.number > limit.number:
                yield self.found(target, f"the target {target.shown} is above the limit {limit.shown}")


class AddressInApplication(ServeRule):
    """With several applications the address belongs to all: Serve refuses it in one."""

    number = "EN038"
    level = Level.ERROR
    mend = "Move it to http_options"
    source = _SCHEMA

    def check(self, part: ServeConfig) -> Iterator[Finding]:
        for app in part.applications if part.value["applications"].exists else []:
            for name in ("host", "port"):
                if app.value[name].written:
                    yield self.found(app.value[name], f"{name} is set for one application")


class SameApplicationTwice(ServeRule):
    """Serve refuses two applications with one name or one route."""

    number = "EN039"
    level = Level.ERROR
    mend = "Give each application its own name and route_prefix"
    source = _SCHEMA

    def check(self, part: ServeConfig) -> Iterator[Finding]:
        for key, default in (("name", "default"), ("route_prefix", "/")):
            seen: set[str] = set()
            for app in part.applications:
                value = app.value[key]
                text = (value.text or "") if value.written else default
                if text and text in seen:
                    at = value if value.exists else app.value
                    yield self.found(at, f"the {key} {text[:60]!r} is taken by another application")
                seen.add(text)


class BadRoutePrefix(ApplicationRule):
    """A route begins with a slash, ends without one, and has no wildcards."""

    number = "EN040"
    level = Level.ERROR
    mend = "Write / or a path such as /llm"
    source = _SCHEMA

    def check(self, part: Application) -> Iterator[Finding]:
        value = part.value["route_prefix"]
        text = value.text
        if text is not None and (
            not text.startswith("/") or (len(text) > 1 and text.endswith("/")) or "{" in text or "}" in text
        ):
            yield self.found(value, f"{value.shown} is no route")


class BadImportPath(ApplicationRule):
    """Serve imports `module:attribute`; Ray Serve LLM's builders stand in ray.serve.llm."""

    number = "EN041"
    level = Level.ERROR
    mend = "Write ray.serve.llm:build_pd_openai_app"
    source = _SCHEMA

    def check(self, part: Application) -> Iterator[Finding]:
        value = part.value["import_path"]
        if not value.exists:
            yield self.found(value, "the application has no import_path")
            return
        text = value.text or ""
        attribute = text.replace(":", ".").rpartition(".")[2]
        if text.count(":") > 1 or text.strip(":.") != text or not (":" in text or "." in text):
            yield self.found(value, f"{value.shown} is no module:attribute")
        elif (
            text.startswith("ray.serve.llm") and attribute.startswith("build_") and attribute not in _BUILDERS
        ):
            yield self.found(value, f"ray.serve.llm has no {attribute[:60]}")


class WrongIngressArgument(ApplicationRule):
    """Arguments of the ingress class are first looked at when a replica starts: with a wrong one none ever does."""

    number = "EN043"
    level = Level.ERROR
    mend = (
        f"Correct it; {INGRESS_CLASS} takes {', '.join(INGRESS_ARGUMENTS)}, each a number of seconds over 0"
    )
    source = "kvrelay/ingress/openai_error_ingress.py, which serves where a file names no class of its own"

    def check(self, part: Application) -> Iterator[Finding]:
        config = part.arguments["ingress_cls_config"]
        if config["ingress_cls"].exists and config["ingress_cls"].text != INGRESS_CLASS:
            return
        for key, value in config["ingress_extra_kwargs"].entries():
            if key not in INGRESS_ARGUMENTS:
                yield self.found(value, f"{key} is no argument of the ingress class")
            elif not 0 < (value.number or 0) < inf:
                yield self.found(value, f"{value.shown} is no number of seconds over 0")


class LocalCode(ServeRule):
    """A Serve config names code by a remote archive: Serve refuses a folder of the machine that applies it."""

    number = "EN042"
    level = Level.ERROR
    mend = "Put the code into the image, or name an archive such as s3://bucket/code.zip"
    source = _SCHEMA

    def check(self, part: ServeConfig) -> Iterator[Finding]:
        for app in part.applications:
            environments = [app.value["runtime_env"]]
            environments += [
                entry.at("ray_actor_options", "runtime_env") for entry in app.value["deployments"].items()
            ]
            for environment in environments:
                for value in (environment["working_dir"], *environment["py_modules"].items()):
                    if value.text is not None and "://" not in value.text:
                        yield self.found(value, f"{value.shown} is no remote archive")


RULES: tuple[Rule[Any], ...] = (
    MisspelledServeKey(),
    UnknownBuilderArgument(),
    IgnoredProxyConfig(),
    WrongBuilder(),
    ReplicasTwice(),
    ReplicaBounds(),
    ScaleToZero(),
    TargetAboveLimit(),
    AddressInApplication(),
    SameApplicationTwice(),
    BadRoutePrefix(),
    BadImportPath(),
    WrongIngressArgument(),
    LocalCode(),
)
