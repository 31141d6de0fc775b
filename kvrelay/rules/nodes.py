"""EF: the nodes of deployment.yaml: EFA, GPUs, capacity, and whether the engines fit on them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from kvrelay.data import InstanceType, UnknownNameError, gpu, instance_types
from kvrelay.rules.kinds import DeploymentRule, PlacementRule
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import Engine
from kvrelay.rules.subject import DeploymentPart, Placement
from kvrelay.rules.value import Value
from kvrelay.settings import GpuNodeGroup, Role

_LEAST_SYSTEM_MEMORY_MIB = 8 * 1024
_LEAST_SYSTEM_VCPUS = 4


def known_type(name: str) -> InstanceType | None:
    """The instance type, or None when the data does not hold it."""
    return _types().get(name)


@cache
def _types() -> dict[str, InstanceType]:
    return {each.name: each for each in instance_types()}


def _groups(part: DeploymentPart) -> Iterator[tuple[GpuNodeGroup, Value]]:
    for index, group in enumerate(part.settings.gpu_nodes.groups):
        yield group, part.value.at("gpu_nodes", "groups", index)


def _engine_group(part: Placement, engine: Engine) -> GpuNodeGroup | None:
    return part.deployment.settings.gpu_nodes.group_for(Role(engine.role)) if engine.role else None


class RolesShareOneNode(PlacementRule):
    """Prefill and decode on one node talk over EFA's loopback, which stalls with EAGAIN; pods of the two roles
    refuse to share a node, so one of them would wait for ever."""

    number = "EF001"
    level = Level.ERROR
    mend = "Set count to 2 or more, or give each role a group of its own"
    source = "https://github.com/ai-dynamo/dynamo/issues/7764"

    def check(self, part: Placement) -> Iterator[Finding]:
        if not part.app.is_prefill_decode:
            return
        for group, value in _groups(part.deployment):
            if len(group.roles) == 2 and group.count < 2:
                yield self.found(value["count"], f"count is {group.count} for prefill and decode together")


class PlacementGroupWithReservation(DeploymentRule):
    """A reservation that was made without the placement group holds no capacity in it: launches fail with
    InsufficientInstanceCapacity while the reservation is paid for."""

    number = "EF002"
    level = Level.WARNING
    mend = "Set placement_group: false; Capacity Blocks are close together anyway"
    source = "https://github.com/terraform-aws-modules/terraform-aws-eks/issues/3730"

    def check(self, part: DeploymentPart) -> Iterator[Finding]:
        for group in part.settings.gpu_nodes.groups:
            if part.settings.gpu_nodes.placement_group and group.capacity.type in {
                "reservation",
                "capacity-block",
            }:
                at = part.value.at("gpu_nodes", "placement_group")
                yield self.found(at, f"{group.name} takes a {group.capacity.type} into a placement group")
                return


class SpotGpuNodes(DeploymentRule):
    """A Spot node goes with two minutes' notice: a prefill node fails the requests whose cache it holds, a decode
    node cuts the streams that it answers, and the pair waits until a node and its image are back."""

    number = "EF003"
    level = Level.WARNING
    mend = "Use on-demand or reserved capacity for what users wait for"
    source = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-interruptions.html"

    def check(self, part: DeploymentPart) -> Iterator[Finding]:
        for group, value in _groups(part):
            if group.capacity.type == "spot":
                yield self.found(value["capacity"], f"{group.name} runs on Spot capacity")


class SmallSystemNodes(DeploymentRule):
    """System nodes run the Ray head, the KubeRay operator, CoreDNS and the ingress replicas of Serve."""

    number = "EF004"
    level = Level.WARNING
    mend = "Use m7i.xlarge (4 vCPU, 16 GiB) or larger"
    source = "https://docs.ray.io/en/latest/cluster/vms/user-guides/large-cluster-best-practices.html"

    def check(self, part: DeploymentPart) -> Iterator[Finding]:
        kind = known_type(part.settings.system_nodes.instance_type)
        value = part.value.at("system_nodes", "instance_type")
        if kind and (kind.memory_mib < _LEAST_SYSTEM_MEMORY_MIB or kind.vcpus < _LEAST_SYSTEM_VCPUS):
            yield self.found(value, f"{kind.name} has {kind.vcpus} vCPU and {kind.memory_mib / 1024:g} GiB")


class TooFewGpuNodes(PlacementRule):
    """Replicas for which no GPU is left wait for ever: the node group grows no further than its count."""

    number = "EF005"
    level = Level.ERROR
    mend = "Raise count, or lower the replicas or parallel sizes in the serve config"
    source = "https://docs.ray.io/en/latest/serve/resource-allocation.html"

    def check(self, part: Placement) -> Iterator[Finding]:
        needed: dict[str, int] = {}
        for engine in part.app.engines:
            group = _engine_group(part, engine)
            if group and not engine.on_cpu:
                needed[group.name] = needed.get(group.name, 0) + engine.gpus * (engine.replicas or 0)
        for group, value in _groups(part.deployment):
            kind = known_type(group.instance_type)
            if kind is None or kind.gpu is None:
                continue
            held = kind.gpu.count * group.largest_count
            if needed.get(group.name, 0) > held:
                yield self.found(
                    value["count"],
                    f"{group.largest_count} x {kind.name} hold {held} GPUs, the engines need {needed[group.name]}",
                )


class AcceleratorDiffers(PlacementRule):
    """Ray places an engine with an accelerator type only on nodes that have it: on any other it waits for ever."""

    number = "EF006"
    level = Level.ERROR
    mend = "Correct or remove accelerator_type"
    source = "https://docs.ray.io/en/latest/ray-core/accelerator-types.html"

    def check(self, part: Placement) -> Iterator[Finding]:
        for engine in part.app.engines:
            group = _engine_group(part, engine)
            kind = known_type(group.instance_type) if group else None
            value = engine.config["accelerator_type"]
            if not kind or not kind.gpu or not value.text:
                continue
            try:
                name = gpu(kind.gpu).ray_accelerator
            except UnknownNameError:
                continue
            if name and value.text != name and not name.startswith(f"{value.text}-"):
                yield self.found(value, f"wants {value.shown}, {kind.name} has {name}", f"Write {name}")


class EngineSpansNodes(PlacementRule):
    """Tensor parallel workers exchange data in each layer: across nodes each token waits for the network."""

    number = "EF007"
    level = Level.WARNING
    mend = "Use a type with as many GPUs as the engine takes, or a smaller model or quantization"
    source = "vLLM's documentation, serving/parallelism_scaling"

    def check(self, part: Placement) -> Iterator[Finding]:
        for engine in part.app.engines:
            group = _engine_group(part, engine)
            kind = known_type(group.instance_type) if group else None
            size = engine.size("tensor_parallel_size")
            if kind and kind.gpu and not engine.on_cpu and size > kind.gpu.count:
                value = engine.arguments["tensor_parallel_size"]
                yield self.found(value, f"shards over {size} GPUs, {kind.name} has {kind.gpu.count}")


RULES: tuple[Rule[Any], ...] = (
    RolesShareOneNode(),
    PlacementGroupWithReservation(),
    SpotGpuNodes(),
    SmallSystemNodes(),
    TooFewGpuNodes(),
    AcceleratorDiffers(),
    EngineSpansNodes(),
)
