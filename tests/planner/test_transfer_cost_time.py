"""Transfer, cost and time of the reference deployment, against the facts."""

import pytest

from kvrelay.data import instance_type
from kvrelay.data.performance import fabrics
from kvrelay.data.reading import load
from kvrelay.planner.cost import Footprint, Nodes, cost
from kvrelay.planner.engine import Engine
from kvrelay.planner.image_pull import ImagePull
from kvrelay.planner.model_config import known_shape
from kvrelay.planner.timeline import PHASES, timeline
from kvrelay.planner.transfer import descriptors, fabric_of, possible_fabrics, transfer
from kvrelay.settings import Deployment, GpuNodeGroup, GpuNodes

PULL = ImagePull.with_mode("parallel").seconds
REFERENCE = Engine(known_shape("Qwen/Qwen3.5-9B"), instance_type("g6.8xlarge"))
NODES = (Nodes("gpu", "g6.8xlarge", 2, 200), Nodes("system", "m7i.xlarge", 1, 50))


@pytest.mark.parametrize(
    ("fabric", "milliseconds"), [("efa-staged", 61), ("tcp", 304), ("ucx-emulated", 633)]
)
def test_a_4096_token_prompt_travels_as_long_as_the_facts_say(fabric: str, milliseconds: float) -> None:
    assert transfer(REFERENCE, 4096, fabric).seconds * 1e3 == pytest.approx(milliseconds, rel=0.03)


def test_gpudirect_only_where_the_instance_has_it() -> None:
    assert fabric_of(instance_type("g6.8xlarge")) == "efa-staged"
    assert fabric_of(instance_type("p5.48xlarge")) == "efa-gpudirect"
    assert possible_fabrics(instance_type("g6.xlarge")) == ["tcp"]


def test_a_tensor_parallel_engine_takes_its_share_of_the_line() -> None:
    shape, node = known_shape("Qwen/Qwen3-32B"), instance_type("g6.12xlarge")
    alone = transfer(Engine(shape, node), 4096, "efa-staged")
    together = transfer(Engine(shape, node, tensor_parallel=4), 4096, "efa-staged")
    assert together.bytes == alone.bytes
    assert together.gb_per_s == pytest.approx(4 * alone.gb_per_s)


def test_larger_blocks_take_fewer_descriptors() -> None:
    shape, node = known_shape("Qwen/Qwen3-8B"), instance_type("g6.8xlarge")
    assert descriptors(Engine(shape, node, block=128), 8192) < descriptors(Engine(shape, node), 8192) / 7


def test_fabrics_say_whether_they_were_measured() -> None:
    assert not fabrics()["efa-staged"].measured
    assert all(fabric.source for fabric in fabrics().values())


def test_the_reference_costs_what_the_facts_say() -> None:
    bill = cost(Footprint("us-east-2", 2, NODES, nat_gateways=1, interface_endpoints=0))
    assert bill.usd_per_hour == pytest.approx(4.4, rel=0.03)
    assert bill.unknown == ()


def test_endpoints_cost_in_every_zone() -> None:
    without = cost(Footprint("us-east-2", 3, NODES, 1, 0)).usd_per_hour
    with_two = cost(Footprint("us-east-2", 3, NODES, 1, 2)).usd_per_hour
    assert without is not None
    assert with_two == pytest.approx(without + 2 * 3 * 0.01)


def test_an_unknown_node_price_leaves_the_sum_unknown() -> None:
    bill = cost(Footprint("mars-north-1", 2, NODES, 1, 0))
    assert bill.usd_per_hour is None
    assert "nodes, gpu: 2 x g6.8xlarge" in bill.unknown


@pytest.mark.parametrize(
    ("phase", "least", "most"),
    [("deploy", 20, 32), ("destroy", 10, 15), ("restart-warm", 1, 3), ("restart-cold", 8, 20)],
)
def test_phases_take_as_long_as_the_sample_says(phase: str, least: float, most: float) -> None:
    assert least <= timeline(phase, 16.7, PULL).seconds / 60 <= most


@pytest.mark.parametrize("phase", PHASES)
def test_no_step_starts_before_what_it_waits_for(phase: str) -> None:
    steps = {step.name: step for step in timeline(phase, 16.7, PULL).steps}
    for name, entry in load("durations.yaml")[phase].items():
        for other in entry["after"]:
            assert steps[name].start >= steps[other].start + steps[other].seconds


@pytest.mark.parametrize("phase", PHASES)
def test_the_critical_path_is_as_long_as_the_phase(phase: str) -> None:
    line = timeline(phase, 16.7, PULL)
    assert sum(step.seconds for step in line.steps if step.critical) == pytest.approx(line.seconds)


def test_larger_weights_delay_the_first_token_but_not_a_warm_restart() -> None:
    assert timeline("deploy", 130, PULL).seconds > timeline("deploy", 16, PULL).seconds
    assert timeline("restart-warm", 130, PULL).seconds == timeline("restart-warm", 16, PULL).seconds


def test_a_parallel_pull_brings_the_first_token_forward_by_what_it_saves() -> None:
    pull = ImagePull.with_mode("parallel")
    assert pull.sequential / pull.parallel == pytest.approx(112.33 / 59.81, rel=0.01)
    for phase in ("deploy", "restart-cold"):
        fast, slow = (timeline(phase, 16.7, seconds).seconds for seconds in (pull.parallel, pull.sequential))
        assert slow - fast == pytest.approx(pull.sequential - pull.parallel)
        assert slow - fast > 60


def test_a_restart_with_the_image_on_the_node_pulls_nothing() -> None:
    assert timeline("restart-warm", 16.7, 0.0).seconds == timeline("restart-warm", 16.7, 500.0).seconds


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
def test_the_deployments_own_way_to_pull_counts(mode: str) -> None:
    group = GpuNodeGroup.model_validate({"image_pull": mode})
    pull = ImagePull.of(Deployment(gpu_nodes=GpuNodes(groups=(group,))))
    assert pull.seconds == getattr(pull, mode)
