"""kvrelay wait judges a deployment's way to the first token, phase by phase, from one snapshot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import kvrelay
from kvrelay.ops.wait.judging import KINDS, failure, judge, served
from kvrelay.ops.wait.phases import Memory, State
from kvrelay.ops.wait.snapshot import Answer, Snapshot
from kvrelay.ops.wait.wanted import Wanted
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import read_deployment
from tests.ops.recorded import world
from tests.ops.recorded.world import WANTED, at, by_name

DONE, WORKING, WAITING, LATE = State.DONE, State.WORKING, State.WAITING, State.LATE
ORDER = [kind.name for kind in KINDS]

# Each point of the way, with the phases that are under way there.
WAY = [
    (world.making_network, {"network"}, set()),
    (world.making_cluster, {"control plane"}, {"network"}),
    (world.starting_nodes, {"GPU nodes", "serving stack", "operator"}, {"control plane", "system nodes"}),
    (world.applied, {"device plugins", "operator"}, {"GPU nodes", "serving stack"}),
    (world.operating, {"workers placed"}, {"device plugins", "operator", "Ray head"}),
    (world.pulling, {"image"}, {"workers placed"}),
    (world.loading, {"weights"}, {"image"}),
    (world.warming, {"engines"}, {"weights"}),
    (world.engines_up, {"handshake", "endpoint"}, {"engines"}),
    (world.serving, set(), set(ORDER)),
]


@pytest.mark.parametrize(("make", "under_way", "done"), WAY, ids=lambda part: getattr(part, "__name__", ""))
def test_each_point_of_the_way_shows_what_is_done_and_what_is_waited_for(
    make: object, under_way: set[str], done: set[str]
) -> None:
    assert callable(make)
    phases = judge(make(), WANTED)

    assert [phase.name for phase in phases] == ORDER
    found = by_name(phases)
    assert {name for name in ORDER if found[name].state is WORKING} == under_way
    assert {name for name in done if found[name].state is DONE} == done
    assert not any(phase.cause for phase in phases)


def test_the_way_ends_with_the_first_token_and_not_before() -> None:
    assert [served(judge(make(), WANTED)) for make, _, _ in WAY] == [False] * (len(WAY) - 1) + [True]


def test_a_phase_says_how_long_it_has_taken_and_how_long_it_usually_does() -> None:
    cluster = by_name(judge(world.making_cluster(), WANTED))["control plane"]

    assert (cluster.elapsed, cluster.usual, cluster.state) == (300.0, 600.0, WORKING)


def test_a_phase_is_late_once_it_takes_half_as_long_again_as_usual() -> None:
    slow = replace(world.making_cluster(), at=at(3 + 15.6))

    assert by_name(judge(slow, WANTED))["control plane"].state is LATE


def test_ready_alone_is_not_served_while_an_application_still_deploys() -> None:
    snapshot = replace(world.serving(), ray_service=world.service("DEPLOYING"), answer=None)

    assert by_name(judge(snapshot, WANTED))["engines"].state is WORKING


def test_an_answer_of_the_old_config_does_not_count_for_the_new_one() -> None:
    service = world.service()
    service["metadata"]["generation"] = 2

    assert by_name(judge(replace(world.serving(), ray_service=service), WANTED))["engines"].state is WORKING


def test_handshake_is_seen_in_decodes_log_or_by_an_answer() -> None:
    logs = {"ray-llm-decode-b": (world.LOADED, world.STARTED, world.SHOOK)}
    logged = by_name(judge(replace(world.engines_up(), engine_logs=logs), WANTED))["handshake"]
    listed = replace(world.engines_up(), answer=Answer(("qwen3.5-9b",)))

    assert logged.state is DONE
    assert by_name(judge(listed, WANTED))["handshake"].state is WORKING


def test_a_plain_app_has_no_handshake() -> None:
    wanted = replace(WANTED, workers={"engine": 2})

    assert "not needed" in by_name(judge(world.serving(), wanted))["handshake"].detail


def test_memory_gives_times_where_the_world_tells_none() -> None:
    memory = Memory()
    memory.dated(judge(world.warming(), WANTED), world.warming().at)
    later = replace(world.engines_up(), at=at(27))

    engines = by_name(memory.dated(judge(later, WANTED), later.at))["engines"]

    assert engines.state is DONE
    assert engines.elapsed == 60.0


def test_what_was_done_at_the_first_look_claims_no_time_it_can_not_know() -> None:
    phases = by_name(Memory().dated(judge(world.serving(), WANTED), world.serving().at))

    assert phases["engines"].elapsed is None
    assert phases["image"].elapsed == pytest.approx(234)


def test_nothing_in_a_cluster_out_of_reach_is_judged() -> None:
    snapshot = replace(
        world.serving(), unread={"kubernetes": "the cluster's API can't be reached: timed out"}
    )

    phases = by_name(judge(snapshot, WANTED))

    assert phases["control plane"].cause is not None
    assert "timed out" in phases["control plane"].cause.said
    assert phases["Ray head"].state is WAITING
    assert failure(list(phases.values())) is None


def test_usual_times_and_counts_come_from_the_deployment_and_kvrelays_data() -> None:
    source = read_deployment(Path(kvrelay.__file__).parents[1] / "deployment.yaml")
    wanted = Wanted.of(source.deployment, load_serve_app(source.serve_config_path))

    assert (wanted.gpu_nodes, wanted.workers) == (2, {"prefill": 1, "decode": 1})
    assert 100 < wanted.usual["weights"] < 200
    assert {kind.step for kind in KINDS} - {""} <= set(wanted.usual)


def test_an_empty_world_waits_for_the_first_stack() -> None:
    phases = judge(Snapshot(at(0)), WANTED)

    assert phases[0].state is WORKING
    assert {phase.state for phase in phases[1:]} == {WAITING}
