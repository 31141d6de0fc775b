"""What holds for every serve config, whatever it asks for."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvrelay.data import instance_types
from kvrelay.errors import InvalidFileError
from kvrelay.serve_app import Cpu, Efa, Loopback, WorkerGroup, parse_serve_app, render, worker_groups
from kvrelay.settings import Deployment
from kvrelay.yaml_source import parse_documents
from tests.serve_app.examples import engine, parsed, prefill_decode

UNHURRIED = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
GPU_TYPES = [kind.name for kind in instance_types() if kind.gpu and kind.efa]

replica_bounds = st.one_of(
    st.builds(lambda count: {"num_replicas": count}, st.integers(1, 6)),
    st.tuples(st.integers(0, 3), st.integers(0, 3)).map(
        lambda pair: {"autoscaling_config": {"min_replicas": pair[0], "max_replicas": max(1, sum(pair))}}
    ),
)


@st.composite
def engine_configs(draw: st.DrawFn) -> dict[str, Any]:
    """Engines of many sizes and bounds, with keys that nothing here knows."""
    arguments: dict[str, Any] = dict(engine()["engine_kwargs"])
    for name in ("tensor_parallel_size", "pipeline_parallel_size"):
        if draw(st.booleans()):
            arguments[name] = draw(st.sampled_from([1, 2, 4, 8]))
    arguments |= draw(
        st.dictionaries(st.sampled_from(["dtype", "seed", "some_key"]), st.integers() | st.text(max_size=5))
    )
    config = engine(engine_kwargs=arguments, deployment_config=draw(replica_bounds))
    if draw(st.booleans()):
        config["experimental_configs"] = {"NIXL_SIDE_CHANNEL_PORT_BASE": draw(st.integers(20000, 30000))}
    return config


apps = st.builds(prefill_decode, engine_configs(), engine_configs())
deployments = st.builds(
    lambda kind, count: Deployment.model_validate(
        {"gpu_nodes": {"groups": [{"instance_type": kind, "count": count}]}}
    ),
    st.sampled_from(GPU_TYPES),
    st.integers(1, 12),
)


@UNHURRIED
@given(apps)
def test_reading_changes_nothing(config: dict[str, Any]) -> None:
    assert parsed(config).config == config


@UNHURRIED
@given(apps, deployments)
def test_rendering_what_was_rendered_adds_nothing(config: dict[str, Any], deployment: Deployment) -> None:
    app = parsed(config)
    for target in (Efa.of(app, deployment), Loopback(), Cpu("./tiny")):
        rendered = render(app, target)
        (document,) = parse_documents(rendered.text, "rendered.yaml")
        again = render(parse_serve_app(document), target)
        assert again.additions == ()
        assert again.text == rendered.text
    assert app.config == config


@UNHURRIED
@given(apps, deployments)
def test_worker_groups_hold_every_replica_on_the_nodes_there_are(
    config: dict[str, Any], deployment: Deployment
) -> None:
    app = parsed(config)
    nodes = deployment.gpu_nodes.groups[0]
    try:
        groups = worker_groups(app, deployment)
    except InvalidFileError:
        return
    assert sum(group.pods for group in groups) <= nodes.count
    for group in groups:
        assert group.gpus * group.pods >= group.engine.replicas.most * group.engine.gpus_per_replica
        assert _replicas_that_fit(group) >= group.engine.replicas.most


def _replicas_that_fit(group: WorkerGroup) -> int:
    """By placing replica after replica, each whole on one pod or on as many empty ones as it needs."""
    size = group.engine.gpus_per_replica
    if size > group.gpus:
        return group.pods // -(-size // group.gpus)
    free, placed = [group.gpus] * group.pods, 0
    for index in range(len(free)):
        while free[index] >= size:
            free[index] -= size
            placed += 1
    return placed


@UNHURRIED
@given(apps, deployments)
def test_side_channel_ports_never_collide_on_one_node(config: dict[str, Any], deployment: Deployment) -> None:
    """Each role fills its own nodes, so only replicas of one engine share one: a port for each of their workers."""
    app = parsed(config)
    try:
        groups = worker_groups(app, deployment)
    except InvalidFileError:
        return
    for group in groups:
        base, size = group.engine.side_channel_port_base, group.engine.gpus_per_replica
        ports = [
            base + rank * size + worker
            for rank in range(int(group.engine.replicas.most))
            for worker in range(size)
        ]
        assert len(set(ports)) == len(ports)
        assert max(ports) < 65536


KEYS = ["applications", "args", "import_path", "prefill_config", "decode_config", "engine_kwargs", "x"]
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@UNHURRIED
@given(anything)
def test_whatever_stands_in_the_file_is_an_app_or_told_in_lines(config: Any) -> None:
    for each in (
        {"x": config},
        {"applications": [config]},
        {"applications": [{"import_path": "ray.serve.llm:build_pd_openai_app", "args": config}]},
        prefill_decode(prefill=config),
    ):
        with contextlib.suppress(InvalidFileError):
            parsed(each)
