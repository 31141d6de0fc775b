"""kvrelay diagnose writes what tells why a deployment does not serve, and no secret with it."""

from __future__ import annotations

import base64
import json
import stat
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kvrelay.cli import cli
from kvrelay.local.aws.account import ACCESS_KEY, SECRET_KEY
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops.cluster.masking import MASK, Masker
from tests.ops.fake_api_server import FakeApiServer
from tests.ops.recorded import world

HF_TOKEN = "hf_PlantedTokenAbCdEf123456"
AWS_KEY = "AKIAPLANTEDKEY00000X"
# In no form that a pattern would know: only their place tells that they are secret.
SECRET_DATA = "plain-words-of-a-secret"
ENV_VALUE = "value-of-a-variable"
RAY_TOKEN = "5f2d0c77deadbeef5f2d0c77deadbeef"
PLANTED = (HF_TOKEN, AWS_KEY, SECRET_DATA, ENV_VALUE, RAY_TOKEN, ACCESS_KEY, SECRET_KEY)
INSIDE = f"/api/v1/namespaces/{world.NAMESPACE}"


def objects() -> dict[str, Any]:
    """A cluster whose decode pod crashes, with secrets planted wherever one could stand."""
    snapshot = world.with_worker(
        world.waits("CrashLoopBackOff", "back-off", {"exitCode": 1, "reason": "Error"})
    )
    pods = [dict(pod) for pod in snapshot.pods]
    pods[-1]["spec"]["containers"][0]["env"] = [
        {"name": "HF_TOKEN", "value": HF_TOKEN},
        {"name": "MY_SETTING", "value": ENV_VALUE},
        {"name": "AWS_SECRET_ACCESS_KEY", "value": SECRET_KEY},
        {"name": "RAY_AUTH_TOKEN", "valueFrom": {"secretKeyRef": {"name": "ray-llm-x", "key": "auth_token"}}},
        {"name": "VLLM_LOGGING_LEVEL", "value": "INFO"},
    ]
    pods[-1]["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"env": ENV_VALUE})
    }
    log = f"token={RAY_TOKEN}\nAuthorization: Bearer {RAY_TOKEN}\n{AWS_KEY}\nsaid {SECRET_DATA}\nset {ENV_VALUE}\nboom"
    secret = {
        "metadata": {"name": "hf-token"},
        "type": "Opaque",
        "data": {"token": base64.b64encode(SECRET_DATA.encode()).decode()},
    }
    events = [world.event("ray-llm-decode-b", "BackOff", f"Back-off, with {HF_TOKEN}")]
    decode = f"{INSIDE}/pods/ray-llm-decode-b/log"
    return {
        "/api/v1/nodes": {"items": list(snapshot.nodes)},
        f"{INSIDE}/pods": {"items": pods},
        f"{INSIDE}/events": {"items": events},
        f"{INSIDE}/secrets": {"items": [secret]},
        f"{INSIDE}/pods/ray-llm-head/log": f"head says {SECRET_DATA}",
        f"{INSIDE}/pods/ray-llm-prefill-a/log": "prefill waits",
        decode: log,
        "/apis/ray.io/v1/namespaces/inference/rayservices/ray-llm": world.service("DEPLOYING"),
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": {
            "items": [{"metadata": {"name": "rayservices.ray.io"}}]
        },
        "/apis/apps/v1/namespaces/kube-system/daemonsets": {"items": list(snapshot.daemon_sets)},
        "/apis/apps/v1/namespaces/kuberay-system/deployments": {"items": [world.OPERATOR]},
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[FakeApiServer]:
    server = FakeApiServer(tmp_path)
    server.objects = objects()
    server.executed = lambda pod, command: (
        0,
        f"worker-1.err: RuntimeError: with {HF_TOKEN} and {SECRET_DATA}",
    )
    yield server
    server.stop()


@pytest.fixture
def account(account_here: EmulatedAws, cluster: FakeApiServer) -> EmulatedAws:
    """An account whose EKS cluster is that one, with all stacks done."""
    described = {
        "name": "kvrelay",
        "status": "ACTIVE",
        "endpoint": cluster.url,
        "createdAt": datetime(2026, 12, 1, tzinfo=UTC),
        "certificateAuthority": {"data": base64.b64encode(cluster.ca_pem.encode()).decode()},
    }
    stacks = [
        {
            "StackName": f"kvrelay-{part}",
            "StackId": part,
            "StackStatus": "CREATE_COMPLETE",
            "CreationTime": world.START,
        }
        for part in ("network", "cluster", "serving")
    ]
    happened = {
        "StackId": "x",
        "EventId": "1",
        "StackName": "x",
        "LogicalResourceId": "x",
        "ResourceType": "x",
    }
    happened |= {"ResourceStatus": "CREATE_COMPLETE", "Timestamp": world.at(3)}  # type: ignore[dict-item]
    put = account_here.account.answers.put
    put("eks", "DescribeCluster", lambda given: {"cluster": described})
    put("eks", "ListNodegroups", lambda given: {"nodegroups": []})
    put("cloudformation", "DescribeStacks", lambda given: {"Stacks": stacks})
    put("cloudformation", "DescribeStackEvents", lambda given: {"StackEvents": [happened]})
    return account_here


def diagnosed(folder: Path) -> dict[str, str]:
    """The files of the archive that `kvrelay diagnose` writes."""
    result = CliRunner().invoke(cli, ["diagnose", "--to", str(folder)])
    assert result.exit_code == 0, result.output
    (path,) = folder.glob("*.tar.gz")
    assert str(path) in result.output
    return unpacked(path)


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {
            entry.name.partition("/")[2]: file.read().decode()
            for entry in archive
            if (file := archive.extractfile(entry))
        }


def test_the_archive_tells_why_and_holds_objects_events_and_logs(
    account: EmulatedAws, tmp_path: Path
) -> None:
    files = diagnosed(tmp_path / "out")

    assert "why: decode pod ray-llm-decode-b: its container ends again and again" in files["summary.txt"]
    assert "Back-off, with" in files["events.txt"]
    assert "kvrelay-serving CREATE_COMPLETE" in files["aws.txt"]
    assert "ray-llm-prefill-a" in files["objects/pods.yaml"]
    assert "VLLM_LOGGING_LEVEL" in files["objects/pods.yaml"]
    assert "INFO" in files["objects/pods.yaml"]
    assert files["logs/inference/ray-llm-decode-b/ray-worker.previous.log"].endswith('boom"')
    assert "RuntimeError" in files["ray-logs/ray-llm-head.log"]


def test_no_planted_secret_is_in_the_archive(account: EmulatedAws, tmp_path: Path) -> None:
    files = diagnosed(tmp_path / "out")

    found = {(secret, name) for secret in PLANTED for name, text in files.items() if secret in text}
    assert found == set()
    encoded = base64.b64encode(SECRET_DATA.encode()).decode()
    assert not any(encoded in text for text in files.values())
    assert MASK in files["logs/inference/ray-llm-head/ray-head.log"]


def test_the_archive_is_readable_by_its_owner_alone(account: EmulatedAws, tmp_path: Path) -> None:
    diagnosed(tmp_path / "out")

    (path,) = (tmp_path / "out").glob("*.tar.gz")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_may_not_be_read_is_named_and_the_rest_is_there(
    account: EmulatedAws, cluster: FakeApiServer, tmp_path: Path
) -> None:
    del cluster.objects[f"{INSIDE}/secrets"]
    cluster.executed = lambda pod, command: (1, "no python3 here")

    files = diagnosed(tmp_path / "out")

    assert "secrets (known forms are masked all the same)" in files["unread.txt"]
    assert "ray-logs/ray-llm-head.log: exec in inference/ray-llm-head ended with 1" in files["unread.txt"]
    assert HF_TOKEN not in "".join(files.values())
    assert "objects/pods.yaml" in files


def test_a_folder_that_can_not_be_written_is_one_line(account: EmulatedAws, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    result = CliRunner().invoke(cli, ["diagnose", "--to", str(tmp_path / "file" / "below")])

    assert "can't be written" in str(result.exception)


def test_wait_leaves_an_archive_when_it_gives_up(account: EmulatedAws, tmp_path: Path) -> None:
    out = tmp_path / "out"

    result = CliRunner().invoke(cli, ["wait", "--timeout", "0", "--bundle", str(out)])

    assert result.exit_code == 1
    assert "why: decode pod ray-llm-decode-b: its container ends again and again" in result.output
    (path,) = out.glob("*.tar.gz")
    assert f"diagnosis: {path}" in result.output
    assert not any(secret in result.output for secret in PLANTED)


FORMS: dict[str, Callable[[str], str]] = {
    "assigned": lambda secret: f"password={secret} next",
    "json": lambda secret: json.dumps({"api_key": secret}),
    "yaml": lambda secret: f"hf_token: {secret}\n",
    "bearer": lambda secret: f"Authorization: Bearer {secret}",
    "url": lambda secret: f"https://user:{secret}@example.com/x",
    "presigned": lambda secret: f"https://s3/x?X-Amz-Signature={secret}&X-Amz-Date=1",
    "iam token": lambda secret: f"k8s-aws-v1.{secret}",
    "hub token": lambda secret: f"uses hf_{secret} here",
    "web token": lambda secret: f"eyJhbGciOiJI.{secret}.abc",
    "key": lambda secret: f"-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----",
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@given(secret=st.text("abcdefghijkmnpqrstuvwxyzABCDEFGH0123456789", min_size=20, max_size=40))
def test_a_secret_in_a_known_form_is_masked_wherever_it_stands(
    form: Callable[[str], str], secret: str
) -> None:
    assert secret not in Masker().text(f"before {form(secret)} after")


@pytest.mark.parametrize(
    "text", ["max_num_batched_tokens: 8192", "prompt_tokens=4096", "use_auth_token: null", "token: true"]
)
def test_what_only_sounds_like_a_secret_stays(text: str) -> None:
    assert Masker().text(text) == text


def test_a_value_once_seen_is_masked_in_all_that_follows() -> None:
    masker = Masker()
    masker.object({"env": [{"name": "OWN_SETTING", "value": "a-value-of-mine"}]})

    assert masker.text("it was a-value-of-mine, really") == f"it was {MASK}, really"


def test_nothing_but_time_differs_between_two_archives(account: EmulatedAws, tmp_path: Path) -> None:
    first, second = diagnosed(tmp_path / "a"), diagnosed(tmp_path / "b")

    assert set(first) == set(second)
    assert first["objects/pods.yaml"] == second["objects/pods.yaml"]
