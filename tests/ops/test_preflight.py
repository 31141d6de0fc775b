"""kvrelay preflight: a healthy account passes clean, and each thing that would stop a deployment has its row."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kvrelay.local.aws.account import SECRET_KEY
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.local.aws.errors import AwsError
from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.preflight.command import preflight
from kvrelay.ops.preflight.permissions import policy_principal
from kvrelay.ops.preflight.quotas import quota_family
from kvrelay.ops.preflight.rows import Subject
from kvrelay.ops.preflight.running import CHECKS, SERVICES, run_checks
from kvrelay.settings import read_deployment

SERVE_CONFIG = Path(__file__).parents[2] / "serve_configs/qwen3.5-9b.yaml"
RESERVATION = "cr-0123456789abcdef0"


@dataclass
class World:
    """An account, the web around it, and a deployment file: healthy until a scenario spoils something."""

    aws: EmulatedAws
    web: Any
    file: Path
    bin: Path
    connection: Aws
    settings: dict[str, Any] = field(default_factory=dict)

    def answer(self, service: str, operation: str, answer: Any) -> None:
        self.aws.account.answers.put(service, operation, answer)

    def error(self, service: str, operation: str, code: str) -> None:
        self.answer(service, operation, AwsError(code, f"{operation} went wrong"))

    def quota(self, code: str, value: float) -> None:
        from kvrelay.local.aws.answers import _service_quota

        def answer(given: dict[str, Any]) -> dict[str, Any]:
            found = _service_quota(given)
            if given["QuotaCode"] == code:
                found["Quota"]["Value"] = value
            return found

        self.answer("servicequotas", "GetServiceQuota", answer)

    def parameters(self, *missing: str) -> None:
        def answer(given: dict[str, Any]) -> dict[str, Any]:
            if any(part in given["Name"] for part in missing):
                raise AwsError("ParameterNotFound", f"Parameter {given['Name']} not found.")
            value = "30" if "cdk-bootstrap" in given["Name"] else "ami-0123456789abcdef0"
            return {"Parameter": {"Name": given["Name"], "Value": value, "Type": "String"}}

        self.answer("ssm", "GetParameter", answer)

    def reservation(self, kind: str = "reservation", **changes: Any) -> None:
        row = {
            "CapacityReservationId": RESERVATION,
            "InstanceType": "g6.8xlarge",
            "AvailabilityZone": "us-east-2a",
            "State": "active",
            "TotalInstanceCount": 2,
            "AvailableInstanceCount": 2,
            "InstanceMatchCriteria": "targeted",
            "ReservationType": "default" if kind == "reservation" else kind,
            "StartDate": datetime.now(UTC) - timedelta(days=1),
        } | changes
        self.answer("ec2", "DescribeCapacityReservations", lambda given: {"CapacityReservations": [row]})
        self.capacity(kind)

    def capacity(self, kind: str, **more: Any) -> None:
        chosen = {"type": kind} | ({"reservation_id": RESERVATION} if kind not in ("spot",) else {})
        self.settings["gpu_nodes"] = {"groups": [{"capacity": chosen | more}]}

    def denied(self, action: str) -> None:
        def answer(given: dict[str, Any]) -> dict[str, Any]:
            return {
                "EvaluationResults": [
                    {"EvalActionName": each, "EvalDecision": "implicitDeny" if each == action else "allowed"}
                    for each in given["ActionNames"]
                ]
            }

        self.answer("iam", "SimulatePrincipalPolicy", answer)

    def run(self, *arguments: str) -> Result:
        self.file.write_text(yaml.safe_dump(self.settings))
        return CliRunner().invoke(preflight, ["--deployment", str(self.file), *arguments])

    def rows_of(self, name: str) -> list[dict[str, str]]:
        """The rows of one check; its clients are kept, so that a scenario takes milliseconds."""
        self.file.write_text(yaml.safe_dump(self.settings))
        subject = Subject(read_deployment(self.file), self.connection, "Qwen/Qwen3.5-9B")
        checks = [check() for check in CHECKS if check.name == name]
        return [row.as_dict() for row in run_checks(subject, checks)]

    def rows(self) -> tuple[int, list[dict[str, str]]]:
        result = self.run("--output", "json")
        return result.exit_code, json.loads(result.output)["rows"]


@pytest.fixture(scope="module")
def connection(emulated: EmulatedAws) -> Aws:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in emulated.environment().items():
            patch.setenv(name, value)
        aws = Aws("us-east-2")
        for service in SERVICES:
            aws.client(service)
        return aws


@pytest.fixture
def world(
    account_here: EmulatedAws, connection: Aws, web: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> World:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("node", "cdk", "kubectl"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("HF_ENDPOINT", f"http://{web.address}")
    made = World(account_here, web, tmp_path / "deployment.yaml", programs, connection)
    made.settings = {
        "serving": {"image": f"{web.address}/ray:v1", "serve_config": str(SERVE_CONFIG)},
    }
    made.parameters()
    return made


def test_a_healthy_account_passes_clean(world: World) -> None:
    code, rows = world.rows()

    assert [row for row in rows if row["status"] != "pass"] == []
    assert code == 0
    assert {row["check"] for row in rows} >= {
        "credentials", "bootstrap", "permissions", "quotas", "zones", "eks", "image", "network", "model", "tools"
    }  # fmt: skip


def _weights(**given: Any) -> Callable[[World], None]:
    return lambda world: world.settings["serving"].update(weights=given)


def _image(name: str) -> Callable[[World], None]:
    return lambda world: world.settings["serving"].update(image=name)


def _offered_in(*zones: str) -> Callable[[World], None]:
    def spoil(world: World) -> None:
        def answer(given: dict[str, Any]) -> dict[str, Any]:
            types = given["Filters"][0]["Values"]
            return {
                "InstanceTypeOfferings": [
                    {"InstanceType": name, "Location": zone, "LocationType": "availability-zone"}
                    for name in types
                    for zone in (zones if name.startswith("g6") else ("us-east-2a",))
                ]
            }

        world.answer("ec2", "DescribeInstanceTypeOfferings", answer)

    return spoil


def _zones(*rows: tuple[str, str]) -> Callable[[World], None]:
    answer = {
        "AvailabilityZones": [
            {"ZoneName": name, "ZoneId": identifier, "State": "available"} for name, identifier in rows
        ]
    }
    return lambda world: world.answer("ec2", "DescribeAvailabilityZones", lambda given: answer)


def _addons(*rows: tuple[str, str]) -> Callable[[World], None]:
    answer = {
        "addons": [
            {"addonName": name, "addonVersions": [{"addonVersion": version}]} for name, version in rows
        ]
    }
    return lambda world: world.answer("eks", "DescribeAddonVersions", lambda given: answer)


def _other_vpc(cidr: str) -> Callable[[World], None]:
    row = {"VpcId": "vpc-other", "CidrBlock": cidr, "CidrBlockAssociationSet": [{"CidrBlock": cidr}]}
    return lambda world: world.answer("ec2", "DescribeVpcs", lambda given: {"Vpcs": [row]})


def _peer(cidr: str) -> Callable[[World], None]:
    row = {
        "VpcPeeringConnectionId": "pcx-1",
        "AccepterVpcInfo": {"VpcId": "vpc-peer", "CidrBlock": cidr},
        "RequesterVpcInfo": {"VpcId": "vpc-own", "CidrBlock": "192.168.0.0/16"},
    }
    return lambda world: world.answer(
        "ec2", "DescribeVpcPeeringConnections", lambda given: {"VpcPeeringConnections": [row]}
    )


def _running(kind: str, count: int, deployment: str) -> Callable[[World], None]:
    def spoil(world: World) -> None:
        tags = [{"Key": "kvrelay:deployment", "Value": deployment}]
        rows = [
            {"InstanceId": f"i-{n}", "InstanceType": kind, "Tags": tags, "State": {"Name": "running"}}
            for n in range(count)
        ]
        world.answer("ec2", "DescribeInstances", lambda given: {"Reservations": [{"Instances": rows}]})
        world.quota("L-DB2E81BA", 64)

    return spoil


def _held(world: World) -> None:
    world.reservation()
    world.settings.pop("gpu_nodes")
    world.quota("L-DB2E81BA", 64)


def _quota(code: str, value: float) -> Callable[[World], None]:
    return lambda world: world.quota(code, value)


def _error(service: str, operation: str, code: str) -> Callable[[World], None]:
    return lambda world: world.error(service, operation, code)


def _reserved(kind: str = "reservation", **changes: Any) -> Callable[[World], None]:
    return lambda world: world.reservation(kind, **changes)


def _web(path: str, status: int) -> Callable[[World], None]:
    return lambda world: world.web.statuses.update({path: status})


def _without(program: str) -> Callable[[World], None]:
    return lambda world: (world.bin / program).unlink()


def _no_reservation(world: World) -> None:
    world.error("ec2", "DescribeCapacityReservations", "InvalidCapacityReservationId.NotFound")
    world.capacity("reservation")


def _wrong_kind(world: World) -> None:
    world.reservation("capacity-block")
    world.capacity("reservation")


def _spot(score: int) -> Callable[[World], None]:
    def spoil(world: World) -> None:
        world.capacity("spot")
        rows = [{"Region": "us-east-2", "AvailabilityZoneId": "use2-az1", "Score": score}]
        world.answer("ec2", "GetSpotPlacementScores", lambda given: {"SpotPlacementScores": rows})

    return spoil


def _deleted_secret(world: World) -> None:
    _weights(source="hugging-face", token_secret_name="hf")(world)
    world.answer(
        "secretsmanager", "DescribeSecret", lambda given: {"Name": "hf", "DeletedDate": datetime.now(UTC)}
    )


def _identity(arn: str) -> Callable[[World], None]:
    answer = {"Account": "123456789012", "Arn": arn, "UserId": "x"}
    return lambda world: world.answer("sts", "GetCallerIdentity", lambda given: answer)


def _empty_bucket(world: World) -> None:
    world.aws.client("s3").create_bucket(
        Bucket="kvrelay-empty", CreateBucketConfiguration={"LocationConstraint": "us-east-2"}
    )
    _weights(source="s3", bucket="kvrelay-empty", prefix="models")(world)


def _ecr(name: str) -> Callable[[World], None]:
    return _image(f"123456789012.dkr.ecr.{name}")


def _mirrored(*, denied: str = "") -> Callable[[World], None]:
    def spoil(world: World) -> None:
        world.settings.update(account="123456789012", images={"mirror": "ecr"})
        if denied:
            world.denied(denied)

    return spoil


# name: what is spoiled, the check, the status, a piece of what was found, a piece of the mend
SCENARIOS: dict[str, tuple[Callable[[World], None], str, str, str, str]] = {
    "another account": (
        lambda w: w.settings.update(account="999999999999"),
        "credentials",
        "fail",
        "allows 999999999999 only",
        "use credentials of 999999999999",
    ),
    "expired credentials": (
        _error("sts", "GetCallerIdentity", "ExpiredToken"),
        "credentials",
        "fail",
        "expired",
        "sign in again",
    ),
    "unknown credentials": (
        _error("sts", "GetCallerIdentity", "InvalidClientTokenId"),
        "credentials",
        "fail",
        "does not accept",
        "sign in again",
    ),
    "not bootstrapped": (
        lambda w: w.parameters("cdk-bootstrap"),
        "bootstrap",
        "fail",
        "never bootstrapped",
        "cdk bootstrap aws://123456789012/us-east-2",
    ),
    "may not read the bootstrap version": (
        _error("ssm", "GetParameter", "AccessDeniedException"),
        "bootstrap",
        "warn",
        "may not call GetParameter",
        "allow GetParameter",
    ),
    "may not create a cluster": (
        lambda w: w.denied("eks:CreateCluster"),
        "permissions",
        "fail",
        "may not: eks:CreateCluster",
        "allow these to",
    ),
    "may not take up CDK's roles": (
        lambda w: w.denied("sts:AssumeRole"),
        "permissions",
        "fail",
        "may not: sts:AssumeRole",
        "allow these to",
    ),
    "simulation denied": (
        _error("iam", "SimulatePrincipalPolicy", "AccessDenied"),
        "permissions",
        "warn",
        "may not call SimulatePrincipalPolicy",
        "allow SimulatePrincipalPolicy",
    ),
    "no execution role": (
        _error("iam", "SimulatePrincipalPolicy", "NoSuchEntity"),
        "permissions",
        "warn",
        "",
        "",
    ),
    "root user": (
        _identity("arn:aws:iam::123456789012:root"),
        "permissions",
        "warn",
        "cannot simulate",
        "deploy with a role",
    ),
    "no GPU quota": (
        _quota("L-DB2E81BA", 0),
        "quotas",
        "fail",
        "limit 0 vCPU, 0 in use by others, 64 needed",
        "--quota-code L-DB2E81BA --desired-value 64",
    ),
    "half the GPU quota": (_quota("L-DB2E81BA", 32), "quotas", "fail", "limit 32 vCPU", "--desired-value 64"),
    "GPU quota used by others": (
        _running("g6.8xlarge", 1, "other"),
        "quotas",
        "fail",
        "32 in use by others",
        "--desired-value 96",
    ),
    "GPU quota used by itself": (
        _running("g6.8xlarge", 2, "kvrelay"),
        "quotas",
        "pass",
        "0 in use by others",
        "",
    ),
    "GPU quota held by a reservation": (
        _held,
        "quotas",
        "fail",
        "64 in use by others",
        "--desired-value 128",
    ),
    "no standard quota": (
        _quota("L-1216C47A", 2),
        "quotas",
        "fail",
        "limit 2 vCPU",
        "--quota-code L-1216C47A --desired-value 4",
    ),
    "no VPC left": (_quota("L-F678F1CE", 1), "quotas", "fail", "limit 1 VPC, 1 in use", "--service-code vpc"),
    "no address left": (
        _quota("L-0263D0A3", 0),
        "quotas",
        "fail",
        "limit 0 address",
        "--quota-code L-0263D0A3",
    ),
    "no NAT gateway left": (
        _quota("L-FE5A380F", 0),
        "quotas",
        "fail",
        "limit 0 NAT gateway",
        "--quota-code L-FE5A380F",
    ),
    "no cluster left": (_quota("L-1194D53C", 0), "quotas", "fail", "limit 0 cluster", "--service-code eks"),
    "quota call throttled": (
        _error("servicequotas", "GetServiceQuota", "TooManyRequestsException"),
        "quotas",
        "warn",
        "throttles",
        "run again in a minute",
    ),
    "quota call denied": (
        _error("servicequotas", "GetServiceQuota", "AccessDeniedException"),
        "quotas",
        "warn",
        "may not call GetServiceQuota",
        "allow GetServiceQuota",
    ),
    "nobody asked for more": (
        _error("servicequotas", "GetServiceQuota", "NoSuchResourceException"),
        "quotas",
        "fail",
        "limit 0 vCPU",
        "--desired-value 64",
    ),
    "GPU type in another zone": (
        _offered_in("us-east-2c"),
        "zones",
        "fail",
        "not offered in us-east-2a; offered in us-east-2c (use2-az3)",
        "--zones",
    ),
    "GPU type nowhere": (
        _offered_in(),
        "zones",
        "fail",
        "not offered anywhere in us-east-2",
        "choose another",
    ),
    "zone not the account's": (
        _zones(("us-east-2a", "use2-az1")),
        "zones",
        "fail",
        "no such zone",
        "us-east-2a",
    ),
    "zone without EKS": (
        _zones(("us-east-2a", "use1-az3"), ("us-east-2b", "use2-az2")),
        "zones",
        "fail",
        "EKS takes no subnets in use1-az3",
        "another zone",
    ),
    "zones denied": (
        _error("ec2", "DescribeAvailabilityZones", "UnauthorizedOperation"),
        "zones",
        "warn",
        "may not call DescribeAvailabilityZones",
        "allow",
    ),
    "zones throttled": (
        _error("ec2", "DescribeAvailabilityZones", "RequestLimitExceeded"),
        "zones",
        "warn",
        "throttles",
        "run again",
    ),
    "Kubernetes not offered": (_addons(), "eks", "fail", "does not offer it", "pins.yaml"),
    "add-on version withdrawn": (
        _addons(("vpc-cni", "v9.9.9")),
        "eks",
        "fail",
        "is not offered; offered: v9.9.9",
        "pins.yaml",
    ),
    "no node image": (
        lambda w: w.parameters("optimized-ami"),
        "node image",
        "fail",
        "publishes none",
        "pins.yaml",
    ),
    "image absent": (_web("/v2/ray", 404), "image", "fail", "is not in 127.0.0.1", "correct serving.image"),
    "image private": (_web("/v2/ray", 401), "image", "fail", "without signing in", "correct serving.image"),
    "registry ill": (_web("/v2/ray", 503), "image", "warn", "answers 503", "run again"),
    "registry out of reach": (_image("127.0.0.1:9/ray:v1"), "image", "warn", "does not answer", ""),
    "ECR image absent": (
        _ecr("us-east-2.amazonaws.com/ray:v1"),
        "image",
        "fail",
        "not in that registry",
        "correct serving.image",
    ),
    "ECR of another region": (
        _ecr("eu-west-1.amazonaws.com/ray:v1"),
        "image",
        "warn",
        "is in eu-west-1",
        "registry of us-east-2",
    ),
    "image not copied": (_mirrored(), "image", "warn", "is not copied yet", "kvrelay mirror"),
    "repositories denied": (
        _mirrored(denied="ecr:CreateRepository"),
        "permissions",
        "fail",
        "may not: ecr:CreateRepository",
        "allow these",
    ),
    "reservation fits": (_reserved(), "capacity", "pass", "2 x g6.8xlarge free in us-east-2a", ""),
    "reservation absent": (_no_reservation, "capacity", "fail", "is not in this account", "reservation_id"),
    "reservation full": (
        _reserved(AvailableInstanceCount=1),
        "capacity",
        "fail",
        "room for 1 of 2, 2 needed",
        "modify-capacity-reservation",
    ),
    "reservation of another type": (
        _reserved(InstanceType="g6.12xlarge"),
        "capacity",
        "fail",
        "holds g6.12xlarge",
        "instance_type: g6.12xlarge",
    ),
    "reservation in another zone": (
        _reserved(AvailabilityZone="us-east-2b"),
        "capacity",
        "fail",
        "is in us-east-2b",
        "zone: us-east-2b",
    ),
    "reservation cancelled": (
        _reserved(State="cancelled"),
        "capacity",
        "fail",
        "is cancelled",
        "make a new one",
    ),
    "reservation open": (_reserved(InstanceMatchCriteria="open"), "capacity", "fail", "is open", "targeted"),
    "reservation is a block": (
        _wrong_kind,
        "capacity",
        "fail",
        "is a capacity-block",
        "capacity.type: capacity-block",
    ),
    "block not begun": (
        _reserved("capacity-block", State="scheduled", StartDate=datetime(2030, 1, 2, tzinfo=UTC)),
        "capacity",
        "fail",
        "starts at 2030-01-02",
        "deploy after",
    ),
    "block ends soon": (
        _reserved("capacity-block", EndDate=datetime.now(UTC) + timedelta(hours=3)),
        "capacity",
        "warn",
        "within a day",
        "takes the nodes back",
    ),
    "spot likely": (_spot(8), "spot", "pass", "score 8 of 10", ""),
    "spot unlikely": (_spot(2), "spot", "warn", "score 2 of 10", "on-demand"),
    "range overlaps a VPC": (
        _other_vpc("10.0.128.0/20"),
        "network",
        "warn",
        "overlaps vpc-other",
        "network.cidr",
    ),
    "range overlaps a peer": (_peer("10.0.0.0/8"), "network", "warn", "overlaps vpc-peer", "network.cidr"),
    "token's secret absent": (
        _weights(source="hugging-face", token_secret_name="hf"),
        "model",
        "fail",
        "no such secret",
        "create-secret --name hf",
    ),
    "token's secret dying": (_deleted_secret, "model", "fail", "waits for its deletion", "restore-secret"),
    "model gated": (_web("/Qwen", 401), "model", "fail", "gated", "token_secret_name"),
    "model absent": (_web("/Qwen", 404), "model", "fail", "is not on the hub", "model_source"),
    "hub ill": (_web("/Qwen", 500), "model", "warn", "answers 500", "run again"),
    "bucket absent": (
        _weights(source="s3", bucket="kvrelay-nowhere", prefix="models"),
        "model",
        "fail",
        "no such bucket",
        "serving.weights",
    ),
    "bucket empty": (_empty_bucket, "model", "fail", "holds no file", "aws s3 cp"),
    "no cdk": (_without("cdk"), "tools", "fail", "not on PATH", "make setup"),
    "no kubectl": (_without("kubectl"), "tools", "warn", "not on PATH", "kubernetes.io"),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_trouble_has_its_row_and_mend(world: World, name: str) -> None:
    spoil, check, status, found, mend = SCENARIOS[name]
    spoil(world)

    rows = world.rows_of(check)

    matching = [
        row
        for row in rows
        if row["check"] == check and row["status"] == status
        and found in row["found"] and mend in row["mend"]
    ]  # fmt: skip
    assert matching, json.dumps([row for row in rows if row["check"] == check], indent=1)
    assert not any("Traceback" in row["found"] or "please report" in row["mend"] for row in rows)


def test_a_call_that_hangs_ends_with_its_own_row(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from kvrelay.ops.preflight.network import Ranges

    def slow(given: dict[str, Any]) -> dict[str, Any]:
        time.sleep(3)
        return {"VpcPeeringConnections": []}

    world.answer("ec2", "DescribeVpcPeeringConnections", slow)
    monkeypatch.setattr(Ranges, "limit_s", 0.1)
    _, rows = world.rows()

    assert [row["found"] for row in rows if row["check"] == "network"] == ["not checked: no answer in 0.1 s"]


def test_without_credentials_every_aws_check_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    code, rows = world.rows()

    assert code == 1
    assert {"no AWS credentials were found"} == {
        row["found"] for row in rows if row["check"] == "credentials"
    }


def test_the_table_shows_mends_and_counts(world: World) -> None:
    world.quota("L-DB2E81BA", 0)
    result = world.run()

    assert result.exit_code == 1
    assert "mend:" in result.output
    assert result.output.rstrip().endswith("1 fail")


def test_zones_prints_the_lines_for_the_file(world: World) -> None:
    _offered_in("us-east-2b")(world)
    world.settings["system_nodes"] = {"instance_type": "m7i.xlarge"}
    world.answer(
        "ec2",
        "DescribeInstanceTypeOfferings",
        lambda given: {
            "InstanceTypeOfferings": [
                {"InstanceType": kind, "Location": "us-east-2b"} for kind in ("g6.8xlarge", "m7i.xlarge")
            ]
        },
    )
    result = world.run("--zones")

    assert result.exit_code == 0
    assert "us-east-2b (use2-az2): offers every type" in result.output
    assert "zones: [us-east-2b, us-east-2a]\ngpu_nodes:\n  zone: us-east-2b" in result.output


def test_secrets_are_never_printed(world: World) -> None:
    world.aws.client("secretsmanager").create_secret(Name="hf-token", SecretString="hf_planted_secret")
    _weights(source="hugging-face", token_secret_name="hf-token")(world)
    for arguments in ((), ("--output", "json")):
        output = world.run(*arguments).output
        assert "hf_planted_secret" not in output
        assert SECRET_KEY not in output


def test_help_teaches_exit_codes() -> None:
    assert "Exit codes: 0 nothing failed" in CliRunner().invoke(preflight, ["--help"]).output


@pytest.mark.parametrize(
    ("arn", "principal"),
    [
        ("arn:aws:sts::1:assumed-role/admin/me", "arn:aws:iam::1:role/admin"),
        ("arn:aws-cn:iam::1:user/a/b", "arn:aws-cn:iam::1:user/a/b"),
        ("arn:aws:iam::1:root", None),
        ("arn:aws:sts::1:federated-user/x", None),
    ],
)
def test_a_callers_policies_hang_on_its_role_or_user(arn: str, principal: str | None) -> None:
    assert policy_principal(arn) == principal


@pytest.mark.parametrize(
    ("kind", "family"),
    [
        ("g6.8xlarge", "g-and-vt"), ("gr6.4xlarge", "g-and-vt"), ("p5.48xlarge", "p"), ("m7i.xlarge", "standard"),
        ("im4gn.large", "standard"), ("inf2.xlarge", ""), ("trn1.2xlarge", ""), ("dl1.24xlarge", ""),
    ],
)  # fmt: skip
def test_quota_families_of_any_type(kind: str, family: str) -> None:
    assert quota_family(kind) == family
