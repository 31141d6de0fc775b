"""preflight --probe: asks for capacity by reserving it for a moment, and never leaves a reservation behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvrelay.local.aws.ec2_api import Ec2Api, is_alive
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.local.aws.errors import AwsError
from kvrelay.ops.preflight import probing
from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.preflight.command import preflight
from kvrelay.ops.preflight.probe import Prober, Wanted, bill
from kvrelay.ops.preflight.probe_journal import Entry, entries, unfinished, write
from kvrelay.ops.preflight.probe_reservations import PROBE_TAG, forgotten
from kvrelay.ops.residue.command import residue

SERVE_CONFIG = Path(__file__).parents[2] / "serve_configs/qwen3.5-9b.yaml"
REGION, ZONE = "us-east-2", "us-east-2a"
QUESTION = Wanted("gpu", "g6.8xlarge", 2, ZONE)


@pytest.fixture(scope="module")
def connection(emulated: EmulatedAws) -> Aws:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in emulated.environment().items():
            patch.setenv(name, value)
        aws = Aws(REGION)
        aws.client("ec2")
        return aws


class Reservations:
    """Those of the emulated account, and every call that made or ended one."""

    def __init__(self, aws: EmulatedAws) -> None:
        self._rows = aws.account.capacity_reservations.setdefault(REGION, {})
        self._rows.clear()

    @property
    def all(self) -> list[dict[str, Any]]:
        return list(self._rows.values())

    @property
    def held(self) -> list[dict[str, Any]]:
        return [row for row in self.all if is_alive(row)]


@pytest.fixture
def reservations(account_here: EmulatedAws) -> Iterator[Reservations]:
    yield Reservations(account_here)
    account_here.account.faults.clear()


def ask(connection: Aws, journal: Path, *questions: Wanted) -> list[dict[str, str]]:
    prober = Prober(connection, "kvrelay", ZONE, journal)
    return [row.as_dict() for row in prober.rows(list(questions or (QUESTION,)))]


def run(tmp_path: Path, *arguments: str, **more: Any) -> Result:
    path = tmp_path / "deployment.yaml"
    path.write_text(f"name: kvrelay\nserving: {{serve_config: {SERVE_CONFIG}}}\n")
    return CliRunner().invoke(preflight, ["--deployment", str(path), *arguments], **more)


@pytest.fixture
def only_the_probe(monkeypatch: pytest.MonkeyPatch, connection: Aws) -> None:
    """The other checks have their own tests."""
    monkeypatch.setattr("kvrelay.ops.preflight.running.run_checks", lambda subject, checks: [])
    monkeypatch.setattr("kvrelay.ops.preflight.aws.Aws", lambda region: connection)


def test_each_zone_is_asked_and_nothing_stays(
    reservations: Reservations, tmp_path: Path, only_the_probe: None
) -> None:
    result = run(tmp_path, "--probe", "--output", "json", "--yes")

    rows = json.loads(result.output)["rows"]
    assert [row["subject"] for row in rows] == [f"2 x g6.8xlarge in us-east-2{zone}" for zone in "abc"]
    assert {row["status"] for row in rows} == {"pass"}
    assert len(reservations.all) == 3
    assert reservations.held == []


def test_what_is_asked_for_is_tagged_targeted_and_ends_by_itself(
    reservations: Reservations, connection: Aws, tmp_path: Path
) -> None:
    ask(connection, tmp_path)

    (made,) = reservations.all
    tags = {tag["Key"]: tag["Value"] for tag in made["Tags"]}
    assert tags["kvrelay:deployment"] == "kvrelay"
    assert tags[PROBE_TAG].startswith("kvrelay-probe-")
    assert made["InstanceMatchCriteria"] == "targeted"
    assert made["EndDateType"] == "limited"
    assert timedelta(0) < made["EndDate"].replace(tzinfo=UTC) - datetime.now(UTC) <= timedelta(hours=1)


def test_the_journal_stands_before_aws_is_asked_and_is_empty_after(
    reservations: Reservations, account_here: EmulatedAws, connection: Aws, tmp_path: Path
) -> None:
    seen: list[str] = []

    def create(given: dict[str, Any]) -> dict[str, Any]:
        seen.extend(entry.token for _, entry in entries(tmp_path))
        assert given["ClientToken"] == seen[0]
        return Ec2Api(account_here.account, REGION).create_capacity_reservation(given)

    account_here.account.answers.put("ec2", "CreateCapacityReservation", create)
    ask(connection, tmp_path)

    assert len(seen) == 1
    assert entries(tmp_path) == []


def test_the_price_is_said_and_no_is_no(
    reservations: Reservations, tmp_path: Path, only_the_probe: None
) -> None:
    result = run(tmp_path, "--probe", input="n\n")

    assert "2 x g6.8xlarge in us-east-2a; 2 x g6.8xlarge in us-east-2b" in result.output
    assert "cost: about 0.20 USD, if each is held for a minute; 8.06 USD at most" in result.output
    assert "you said no" in result.output
    assert reservations.all == []


def test_json_cannot_ask(tmp_path: Path) -> None:
    assert "add --yes" in str(run(tmp_path, "--probe", "--output", "json").exception)


def test_a_price_that_is_not_known_is_said_so() -> None:
    assert "price is not known" in bill([QUESTION], "ap-south-2")


ERRORS: dict[str, tuple[AwsError, str, str, str]] = {
    "none free": (
        AwsError("InsufficientInstanceCapacity", "no."), "fail", "AWS has none free there now", "gpu_nodes.zone"
    ),
    "quota": (
        AwsError("InstanceLimitExceeded", "You have requested more vCPU"), "fail", "quota is too small", "quota above"
    ),
    "denied": (
        AwsError("UnauthorizedOperation", "no."), "warn", "may not call CreateCapacityReservation", "allow"
    ),
    "type not there": (AwsError("Unsupported", "not supported in the zone"), "warn", "not supported", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_what_aws_refuses_has_its_row_and_leaves_no_journal(
    reservations: Reservations, account_here: EmulatedAws, connection: Aws, tmp_path: Path, name: str
) -> None:
    error, status, found, mend = ERRORS[name]
    account_here.account.answers.put("ec2", "CreateCapacityReservation", error)

    (row,) = ask(connection, tmp_path)

    assert row["status"] == status
    assert found in row["found"]
    assert mend in row["mend"]
    assert entries(tmp_path) == []


def test_another_zone_without_capacity_is_no_failure(
    reservations: Reservations, account_here: EmulatedAws, connection: Aws, tmp_path: Path
) -> None:
    account_here.fail("AWS::EC2::CapacityReservation", times=1)
    rows = ask(connection, tmp_path, Wanted("gpu", "g6.8xlarge", 2, "us-east-2b"), QUESTION)

    assert [row["status"] for row in rows] == ["warn", "pass"]


def test_one_that_is_made_though_no_answer_comes_is_found_and_cancelled(
    reservations: Reservations, account_here: EmulatedAws, connection: Aws, tmp_path: Path
) -> None:
    def create(given: dict[str, Any]) -> dict[str, Any]:
        Ec2Api(account_here.account, REGION).create_capacity_reservation(given)
        raise RuntimeError("the emulator then answers 500, as a server of AWS may")

    account_here.account.answers.put("ec2", "CreateCapacityReservation", create)
    ask(connection, tmp_path)

    assert len(reservations.all) == 1
    assert reservations.held == []
    assert entries(tmp_path) == []


def test_one_that_cannot_be_cancelled_is_told_with_the_command_and_stays_in_the_journal(
    reservations: Reservations,
    account_here: EmulatedAws,
    connection: Aws,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    denied = AwsError("UnauthorizedOperation", "You may not.")
    account_here.account.answers.put("ec2", "CancelCapacityReservation", denied)

    (row,) = ask(connection, tmp_path)

    identifier = reservations.held[0]["CapacityReservationId"]
    assert row["status"] == "fail"
    assert f"--capacity-reservation-id {identifier}; it ends by itself within 2 hours" in row["mend"]
    assert len(entries(tmp_path)) == 1


PROGRAM = """
import sys
from pathlib import Path
from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.preflight.probe import Prober, Wanted
aws = Aws("us-east-2")
prober = Prober(aws, "kvrelay", "us-east-2a", Path(sys.argv[1]))
aws.client("ec2")
print("begins", flush=True)
for row in prober.rows([Wanted("gpu", "g6.8xlarge", 2, "us-east-2a")]):
    print(row.found, flush=True)
"""


class Moment:
    """Holds one call before or after it takes effect, until let go: there the probe is killed."""

    def __init__(self, aws: EmulatedAws, operation: str, *, after: bool) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        name = {"CreateCapacityReservation": "create", "CancelCapacityReservation": "cancel"}[operation]

        def answer(given: dict[str, Any]) -> dict[str, Any]:
            real: Callable[[Any], dict[str, Any]] = getattr(
                Ec2Api(aws.account, REGION), f"{name}_capacity_reservation"
            )
            result = real(given) if after else {}
            self.reached.set()
            self.go_on.wait(20)
            return result if after else real(given)

        aws.account.answers.put("ec2", operation, answer)


def start(aws: EmulatedAws, journal: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(journal)],
        env={**os.environ, **aws.environment()},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    return process


@pytest.mark.parametrize("after", [False, True], ids=["before-it-takes-effect", "after"])
@pytest.mark.parametrize("operation", ["CreateCapacityReservation", "CancelCapacityReservation"])
def test_killed_at_any_moment_the_next_look_leaves_no_reservation(
    reservations: Reservations,
    account_here: EmulatedAws,
    connection: Aws,
    tmp_path: Path,
    operation: str,
    after: bool,
) -> None:
    moment = Moment(account_here, operation, after=after)
    process = start(account_here, tmp_path)
    assert moment.reached.wait(30)
    process.kill()
    process.wait()
    # AWS goes on with what it was asked, though nobody waits for it any more.
    moment.go_on.set()
    made = operation == "CancelCapacityReservation" or after
    deadline = time.monotonic() + 10
    while not reservations.all and time.monotonic() < deadline:
        time.sleep(0.05)
    account_here.account.answers.clear()

    assert len(reservations.all) == 1
    assert made or reservations.held
    assert unfinished(REGION, "kvrelay", tmp_path)
    forgotten(connection, "kvrelay", tmp_path)
    assert reservations.held == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_cancels_before_it_ends(
    reservations: Reservations, account_here: EmulatedAws, tmp_path: Path, number: signal.Signals
) -> None:
    moment = Moment(account_here, "CreateCapacityReservation", after=True)
    process = start(account_here, tmp_path)
    assert moment.reached.wait(30)
    process.send_signal(number)
    process.communicate(timeout=30)
    moment.go_on.set()

    assert len(reservations.all) == 1
    assert reservations.held == []
    assert entries(tmp_path) == []


def _left(aws: EmulatedAws, deployment: str) -> str:
    tags = [
        {"Key": "kvrelay:deployment", "Value": deployment},
        {"Key": PROBE_TAG, "Value": "kvrelay-probe-x"},
    ]
    made = aws.client("ec2").create_capacity_reservation(
        InstanceType="g6.8xlarge",
        InstancePlatform="Linux/UNIX",
        InstanceCount=2,
        AvailabilityZone=ZONE,
        TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tags}],
    )
    return str(made["CapacityReservation"]["CapacityReservationId"])


def _entry(minutes_ago: float, deployment: str = "kvrelay") -> Entry:
    began = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return Entry(
        f"t-{minutes_ago}-{deployment}", REGION, deployment, "g6.8xlarge", ZONE, 2, began.isoformat()
    )


def test_the_next_preflight_cancels_what_a_killed_probe_left_and_says_so(
    reservations: Reservations,
    account_here: EmulatedAws,
    tmp_path: Path,
    only_the_probe: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = _left(account_here, "kvrelay")
    monkeypatch.setattr(probing, "unfinished", lambda region, deployment: True)
    rows = json.loads(run(tmp_path, "--output", "json").output)["rows"]

    assert [(row["subject"], row["found"]) for row in rows] == [
        (left, "an earlier probe left it; it is cancelled now")
    ]
    assert reservations.held == []


def test_residue_cancels_it_too_and_no_other_deployments(
    reservations: Reservations, account_here: EmulatedAws, tmp_path: Path
) -> None:
    left, others = _left(account_here, "kvrelay"), _left(account_here, "kvrelay-2")
    path = tmp_path / "deployment.yaml"
    path.write_text("name: kvrelay\n")
    result = CliRunner().invoke(residue, ["--deployment", str(path), "--output", "json"])

    assert json.loads(result.output)["probes_cancelled"] == [left]
    assert [row["CapacityReservationId"] for row in reservations.held] == [others]


def test_the_journal_forgets_when_a_reservation_can_no_longer_appear(
    reservations: Reservations, connection: Aws, tmp_path: Path
) -> None:
    for entry in (_entry(1), _entry(60), _entry(60, "other")):
        write(tmp_path, entry)
    (tmp_path / "cut-off.json").write_text('{"token": ')

    forgotten(connection, "kvrelay", tmp_path)

    assert sorted(entry.token for _, entry in entries(tmp_path)) == ["t-1-kvrelay", "t-60-other"]


@pytest.mark.parametrize(
    "name",
    [
        "1.36/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
        "1.35/amazon-linux-2023/arm64/standard/recommended",
    ],
)
def test_the_emulated_account_publishes_the_nodes_images(account_here: EmulatedAws, name: str) -> None:
    client = account_here.client("ssm")
    value = client.get_parameter(Name=f"/aws/service/eks/optimized-ami/{name}")["Parameter"]["Value"]
    assert "ami-" in value


@pytest.mark.parametrize(
    "name",
    [
        "/aws/service/eks/optimized-ami/1.99/amazon-linux-2023/x86_64/nvidia/recommended/image_id",
        "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/arm64/neuron/recommended/image_id",
        "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/nvidia/recommended/colour",
        "/mine",
    ],
)
def test_the_emulated_account_has_no_parameter_that_nobody_published(
    account_here: EmulatedAws, name: str
) -> None:
    client = account_here.client("ssm")
    with pytest.raises(client.exceptions.ParameterNotFound):
        client.get_parameter(Name=name)
