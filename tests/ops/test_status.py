"""kvrelay status shows a deployment on one screen, and says by its exit code whether it serves."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kvrelay.cli import cli
from kvrelay.errors import UserError
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.local.aws.errors import AwsError
from kvrelay.ops.engine_metrics import parse
from kvrelay.ops.status import Transfers, status_of, transfers
from kvrelay.settings import Deployment
from tests.ops.recorded import world
from tests.ops.recorded.world import WANTED

# As Ray's metrics page of a worker shows them (Ray 2.58, vLLM 0.26).
METRICS = """\
ray_serve_replica_processing_queries{{deployment="Decode:qwen3.5-9b",replica="d1"}} 0.0
ray_serve_replica_processing_queries{{deployment="Prefill:qwen3.5-9b",replica="p1"}} 0.0
ray_vllm_prompt_tokens_by_source_total{{ReplicaId="d1",source="external_kv_transfer"}} 4096.0
ray_vllm_prompt_tokens_by_source_total{{ReplicaId="d1",source="local_compute"}} 2.0
ray_vllm_prompt_tokens_by_source_total{{ReplicaId="p1",source="local_compute"}} 4096.0
ray_vllm_nixl_bytes_transferred_count{{ReplicaId="d1"}} 3.0
ray_vllm_nixl_num_failed_transfers_total{{ReplicaId="d1"}} {failed}
ray_vllm_nixl_num_kv_expired_reqs_total{{ReplicaId="p1"}} 0.0
"""


def test_transfers_are_those_of_both_roles_and_tokens_those_of_decode() -> None:
    moved = transfers(parse(METRICS.format(failed="0.0")))

    assert moved == Transfers(count=3, failed=0, expired=0, tokens=4096, recomputed=2)
    assert moved.healthy


def test_a_failed_transfer_is_not_healthy() -> None:
    moved = transfers(parse(METRICS.format(failed="1.0")))

    assert moved is not None
    assert not moved.healthy


def test_engines_that_report_nothing_are_not_called_healthy() -> None:
    assert transfers(parse("python_gc_objects_collected_total 1.0")) is None


def test_a_serving_deployment_is_ready_with_its_nodes_replicas_and_spend() -> None:
    snapshot = replace(
        world.serving(),
        at=world.at(3 + 120),
        ray_service=world.service(**{"Decode:qwen3.5-9b": "HEALTHY", "Prefill:qwen3.5-9b": "HEALTHY"}),
    )

    found = status_of(snapshot, WANTED, Deployment(), None, {})

    assert found.ready
    assert [node["gpus"] for node in found.nodes] == [1, 1, 0]
    assert found.replicas == {
        "prefill pods": "1 of 1 ready",
        "decode pods": "1 of 1 ready",
        "Decode:qwen3.5-9b": "HEALTHY",
        "Prefill:qwen3.5-9b": "HEALTHY",
    }
    assert found.versions["kuberay"] == "v1.7.0"
    assert found.endpoint == "qwen3.5-9b answers"
    assert found.hours == 2.0
    assert found.usd_since_deploy == pytest.approx(2 * (found.usd_per_hour or 0), abs=0.01)


def test_a_problem_is_shown_with_its_mend() -> None:
    snapshot = world.with_worker(world.unscheduled("0/2 nodes are available: 1 Insufficient nvidia.com/gpu."))

    found = status_of(snapshot, WANTED, Deployment(), None, {})

    assert not found.ready
    assert [problem["phase"] for problem in found.problems] == ["workers placed"]


@pytest.fixture
def empty_account(account_here: EmulatedAws) -> EmulatedAws:
    return account_here


def test_an_account_without_the_deployment_says_so_in_text_and_json(empty_account: EmulatedAws) -> None:
    text = CliRunner().invoke(cli, ["status"])
    machine = CliRunner().invoke(cli, ["status", "--output", "json"])

    assert (text.exit_code, machine.exit_code) == (1, 1)
    assert "does not serve" in text.output
    assert "none stands" in text.output
    told = json.loads(machine.output)
    assert set(told) == {
        "deployment",
        "region",
        "ready",
        "versions",
        "stacks",
        "nodes",
        "replicas",
        "endpoint",
        "transfers",
        "usd_per_hour",
        "usd_since_deploy",
        "hours",
        "problems",
        "unread",
    }
    assert told["ready"] is False


@pytest.mark.parametrize("command", ["status", "wait", "diagnose"])
@pytest.mark.parametrize(
    ("code", "words"),
    [("ExpiredToken", "expired"), ("InvalidClientTokenId", "does not accept the credentials")],
    ids=["expired", "unknown"],
)
def test_credentials_that_aws_does_not_take_are_one_line(
    empty_account: EmulatedAws, command: str, code: str, words: str
) -> None:
    empty_account.account.answers.put("cloudformation", "DescribeStacks", AwsError(code, "no"))

    result = CliRunner().invoke(cli, [command])

    assert isinstance(result.exception, UserError)
    assert words in str(result.exception)
    assert "sign in again" in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_denied_call_is_named_and_the_rest_is_shown(empty_account: EmulatedAws) -> None:
    empty_account.account.answers.put("eks", "DescribeCluster", AwsError("AccessDeniedException", "no"))

    result = CliRunner().invoke(cli, ["status"])

    assert result.exit_code == 1
    assert "may not call DescribeCluster" in " ".join(result.output.split())


def test_a_wrong_file_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text("nmae: x\n")

    result = CliRunner().invoke(cli, ["status", "--deployment", str(file)])

    assert isinstance(result.exception, UserError)
    assert "nmae" in str(result.exception)
