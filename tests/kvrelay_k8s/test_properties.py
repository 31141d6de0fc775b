"""What holds for the final manifests of every deployment and serve app, through the charts themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from cdk8s import App
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvrelay.data import instance_type, instance_types
from kvrelay.errors import InvalidFileError
from kvrelay.local.kubernetes.add_ons import add_on_objects
from kvrelay.local.kubernetes.nodes import nodes_of
from kvrelay.serve_app import Efa, ServeApp, parse_serve_app, render, worker_groups
from kvrelay.settings import Deployment
from kvrelay.yaml_source import parse_documents
from kvrelay_k8s import charts
from kvrelay_k8s.files import as_yaml
from kvrelay_k8s.model_access import ModelAccess
from kvrelay_k8s.ports import RAY_PORTS
from kvrelay_k8s.quota import Quota
from kvrelay_k8s.ray_service import RayService
from tests.kvrelay_k8s.manifests import find, sets_of
from tests.kvrelay_k8s.placement import Node, Pod, daemons, place, ray_pods, replicas
from tests.serve_app.examples import DEPLOYMENTS, engine, example, parsed, prefill_decode

Object = dict[str, Any]

GPU_TYPES = [kind.name for kind in instance_types() if kind.gpu and kind.efa]
SYSTEM_TYPES = [kind.name for kind in instance_types() if not kind.gpu]
WEIGHTS = [
    {"source": "hugging-face"},
    {"source": "hugging-face", "token_secret_name": "hugging-face/token"},
    {"source": "s3", "bucket": "my-weights", "prefix": "models/m"},
]


def unhurried(examples: int) -> settings:
    """Each example starts no process, but takes its time in jsii."""
    return settings(deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Case:
    """A serve app on nodes that are just enough for it, or a few more."""

    deployment: Deployment
    app: ServeApp


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Apps of one or two node groups of any types, sizes and replicas, with every choice of `serving`."""
    apart = draw(st.booleans())
    roles = [["prefill"], ["decode"]] if apart else [["prefill", "decode"]]
    types = [draw(st.sampled_from(GPU_TYPES)) for _ in roles]
    app = draw(_apps([types[0], types[-1]]))
    surge = draw(st.booleans())
    serving = {
        "upgrade": "surge" if surge else "in-place",
        "security_profile": draw(st.sampled_from(["privileged", "ipc-lock"])),
        "hugepages_mib": draw(st.sampled_from([0, 2048, 10256])),
        "weights": draw(st.sampled_from(WEIGHTS)),
    }
    # Two heads at once are too much for two cores: that is told, and tested elsewhere.
    systems = [name for name in SYSTEM_TYPES if not surge or instance_type(name).vcpus > 2]
    system = {"instance_type": draw(st.sampled_from(systems)), "count": draw(st.integers(1, 2))}

    def deployment(counts: list[int]) -> Deployment:
        groups = [
            {"name": f"g{index}", "roles": each, "instance_type": types[index], "count": counts[index]}
            for index, each in enumerate(roles)
        ]
        return Deployment.model_validate(
            {"serving": serving, "system_nodes": system, "gpu_nodes": {"groups": groups}}
        )

    plenty = worker_groups(app, deployment([60] * len(roles)))
    factor, spare = (2 if surge else 1), draw(st.integers(0, 1))
    needed = [
        sum(group.pods for group in plenty if group.node_group.name == f"g{index}") * factor + spare
        for index in range(len(roles))
    ]
    return Case(deployment(needed), app)


@st.composite
def _apps(draw: st.DrawFn, types: list[str]) -> ServeApp:
    engines = []
    for name in types:
        gpus = instance_type(name).gpu
        assert gpus
        size = draw(st.sampled_from([n for n in (1, 2, 4, 8) if gpus.count % n == 0]))
        arguments = {**engine()["engine_kwargs"], "tensor_parallel_size": size}
        arguments["pipeline_parallel_size"] = draw(st.sampled_from([1, 1, 2]))
        count = draw(st.integers(1, 3))
        scaling = {"autoscaling_config": {"min_replicas": 1, "max_replicas": count}}
        replicas = draw(st.sampled_from([{"num_replicas": count}, scaling]))
        engines.append(engine(engine_kwargs=arguments, deployment_config=replicas))
    return parsed(prefill_decode(*engines))


def objects_of(case: Case) -> list[Object]:
    """Every object with pods or bounds. Those that are the same in every deployment are rendered once: see
    test_so_are_the_objects_that_all_of_them_share."""
    shared = [each for each in sets_of("qwen3.5-9b") if each.name not in ("ray-service", "quota")]
    own = [
        *RayService(App(), "ray-service", deployment=case.deployment, app=case.app).to_json(),
        *Quota(App(), "quota", deployment=case.deployment).to_json(),
    ]
    return [*(each for one in shared for each in one.objects), *own]


def ray_service(deployment: Deployment, app: ServeApp) -> Object:
    """The RayService alone, from its chart: ten times as quick as all of them."""
    return find(RayService(App(), "ray-service", deployment=deployment, app=app).to_json(), "RayService")


@unhurried(25)
@given(cases(), st.randoms(use_true_random=False))
def test_every_pod_finds_room_and_prefill_never_shares_a_node_with_decode(case: Case, random: Any) -> None:
    objects = objects_of(case)
    nodes = [Node(node) for node in nodes_of(case.deployment, plugged=True)]
    rays = list(ray_pods(find(objects, "RayService")))
    if case.deployment.serving.upgrade == "surge":
        # The new cluster beside the old one.
        rays += [Pod(f"new {pod.name}", pod.labels, pod.spec) for pod in rays]
    random.shuffle(rays)

    both = [*add_on_objects(), *objects]
    assert place(daemons(both, nodes), nodes) == []
    assert place(replicas(both), nodes) == []
    assert place(rays, nodes) == []

    for node in nodes:
        groups = {pod.labels["ray.io/group"] for pod in node.pods if "ray.io/group" in pod.labels}
        assert groups <= {"headgroup"} or len(groups) == 1
    _hold_apart(rays, nodes)
    _hold_quota(find(objects, "ResourceQuota")["spec"]["hard"], rays)


def _hold_apart(rays: list[Pod], nodes: list[Node]) -> None:
    """By anti-affinity and by devices, each enough alone: in either order, on a node with nothing else."""
    one_of_each = {pod.labels["ray.io/group"]: pod for pod in rays}
    prefill, decode = one_of_each["prefill"], one_of_each["decode"]
    for node in nodes:
        for first, second in ((prefill, decode), (decode, prefill)):
            empty = Node(node.simulated)
            if not empty.refusals(first):
                empty.pods.append(first)
                refused = empty.refusals(second)
                assert "anti-affinity" in refused
                assert "selector" in refused or {"nvidia.com/gpu", "vpc.amazonaws.com/efa"} <= refused


def _hold_quota(hard: Object, rays: list[Pod]) -> None:
    assert len(rays) <= int(hard["pods"])
    for device in ("nvidia.com/gpu", "vpc.amazonaws.com/efa"):
        asked = sum(int(pod.requests.get(device, 0)) for pod in rays)
        assert asked <= int(hard[f"requests.{device}"])


@unhurried(3)
@given(cases())
def test_rendering_again_gives_the_same_objects(case: Case) -> None:
    first, second = (charts(case.deployment, case.app) for _ in range(2))
    assert [as_yaml(each) for each in first] == [as_yaml(each) for each in second]


# Ordinary ports, and those around ports that something takes.
ports = st.integers(1024, 65535) | st.sampled_from(
    sorted(
        {edge + off for taken in RAY_PORTS.values() for edge in (taken.start, taken.stop) for off in (-1, 0)}
    )
)
bases = st.integers(20000, 65535) | st.sampled_from([8070, 8080, 19999, 29390, 29401, 29605, 52360, 65530])


@unhurried(40)
@given(ports, bases, bases)
def test_no_two_parts_of_a_pod_take_one_port_or_it_is_told_at_its_place(
    serve_port: int, prefill_base: int, decode_base: int
) -> None:
    engines = [
        engine(
            engine_kwargs={**engine()["engine_kwargs"], "tensor_parallel_size": 4},
            deployment_config={"num_replicas": 2},
            experimental_configs={"NIXL_SIDE_CHANNEL_PORT_BASE": base},
        )
        for base in (prefill_base, decode_base)
    ]
    app = parsed({**prefill_decode(*engines), "http_options": {"port": serve_port}})
    nodes = {"gpu_nodes": {"groups": [{"instance_type": "g6.48xlarge", "count": 2}]}}
    try:
        service = ray_service(Deployment.model_validate(nodes), app)
    except InvalidFileError as error:
        for line in error.lines:
            assert "http_options.port" in line or "NIXL_SIDE_CHANNEL_PORT_BASE" in line
        assert any(_meet(claims) for claims in _claims(app, serve_port))
        return
    for claims in _claims(app, serve_port):
        assert not _meet(claims)
    for pod in ray_pods(service):
        named = [port["containerPort"] for each in pod.spec["containers"] for port in each["ports"]]
        assert len(set(named)) == len(named)
        assert serve_port in named
        assert not pod.host_ports


def _claims(app: ServeApp, serve_port: int) -> Iterator[list[range]]:
    """For each engine, all ports of its pods; Ray's own ranges may lie in one another."""
    for each, master in zip(app.engines, (29400, 29600), strict=True):
        base = each.side_channel_port_base
        ray = sorted({port for taken in RAY_PORTS.values() for port in taken})
        yield [
            *(range(port, port + 1) for port in ray),
            range(serve_port, serve_port + 1),
            range(master, master + 10),
            range(base, base + 8),
        ]


def _meet(claims: list[range]) -> bool:
    taken = [port for claim in claims for port in claim]
    return len(set(taken)) < len(taken) or max(taken) > 65535


def test_a_portable_config_survives_its_rendering_but_for_what_the_target_says_it_added() -> None:
    for name, deployment in DEPLOYMENTS.items():
        _hold_round_trip(deployment, example(name))


@unhurried(20)
@given(cases())
def test_so_does_any_config(case: Case) -> None:
    _hold_round_trip(case.deployment, case.app)


def _hold_round_trip(deployment: Deployment, app: ServeApp) -> None:
    text = ray_service(deployment, app)["spec"]["serveConfigV2"]
    (document,) = parse_documents(text, "serveConfigV2")
    again = parse_serve_app(document)
    target = Efa.of(app, deployment, ModelAccess.of(deployment).model_source)
    added = {addition.path for addition in render(app, target).additions}
    before, after = dict(_leaves(app.config)), dict(_leaves(again.config))
    for path in before.keys() | after.keys():
        if not any(path[: len(edited)] == edited for edited in added):
            assert before.get(path) == after.get(path), path
    assert [each.replicas for each in again.engines] == [each.replicas for each in app.engines]
    assert [each.gpus_per_replica for each in again.engines] == [
        each.gpus_per_replica for each in app.engines
    ]


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    if not isinstance(value, dict | list):
        yield path, value
    for key, child in children:
        yield from _leaves(child, (*path, key))


def test_more_huge_pages_than_a_node_sets_aside_are_told() -> None:
    app = parsed(prefill_decode())
    deployment = Deployment.model_validate({"serving": {"hugepages_mib": 10258}})
    with pytest.raises(InvalidFileError, match=r"^serving.hugepages_mib: 10258 is more than the 10256 MiB"):
        ray_service(deployment, app)
