"""The script of the init containers against S3 and Secrets Manager on loopback."""

from __future__ import annotations

import json
import os
import runpy
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from tests.serve_app.examples import PROJECT

SCRIPT = PROJECT / "constructs" / "kvrelay_k8s" / "scripts" / "fetch.py"
PART = 64 * 1024
FILES = {
    "config.json": b"{}",
    "nested/tokenizer.json": b"[1]",
    "model.safetensors": os.urandom(3 * PART + 1000),
}


@pytest.fixture(scope="module")
def account() -> Iterator[dict[str, str]]:
    """The environment of a pod with an identity."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_REGION": "us-east-2",
        "AWS_DEFAULT_REGION": "us-east-2",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }
    server.stop()


def client(account: dict[str, str], service: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=account["AWS_ENDPOINT_URL"],
        region_name="us-east-2",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )


@pytest.fixture
def bucket(account: dict[str, str], request: pytest.FixtureRequest) -> str:
    """A bucket of the test's own with a model in the folder `m`."""
    name = f"b{abs(hash(request.node.name))}"
    s3 = client(account, "s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": "us-east-2"})
    for key, content in FILES.items():
        s3.put_object(Bucket=name, Key=f"m/{key}", Body=content)
    s3.put_object(Bucket=name, Key="m2/other", Body=b"not ours")
    return name


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    returncode: int
    stdout: str
    stderr: str


class Script:
    """The script in this process, as its command line: boto3 takes longer to import than most tests take."""

    def __init__(self, capture: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capture = capture
        self._monkeypatch = monkeypatch

    def run(self, account: dict[str, str], *arguments: str) -> Result:
        self._monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
        self._monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
        for name, value in account.items():
            self._monkeypatch.setenv(name, value)
        code: object = None
        try:
            runpy.run_path(str(SCRIPT), run_name="__main__")
        except SystemExit as end:
            code = end.code
        captured = self._capture.readouterr()
        # Python writes a text that a program exits with to stderr.
        failure = f"{code}\n" if isinstance(code, str) else ""
        return Result(int(code is not None), captured.out, captured.err + failure)

    def fetch(self, account: dict[str, str], bucket: str, to: Path) -> Result:
        return self.run(account, *_weights(bucket, to))


def _weights(bucket: str, to: Path) -> list[str]:
    return ["weights", "--bucket", bucket, "--prefix", "m", "--to", str(to), "--part-bytes", str(PART)]


@pytest.fixture
def script(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(capsys, monkeypatch)


def model_in(folder: Path) -> dict[str, bytes]:
    paths = [each for each in folder.rglob("*") if each.is_file() and not each.name.startswith(".kvrelay")]
    return {str(each.relative_to(folder)): each.read_bytes() for each in paths}


def test_it_copies_the_folder_and_nothing_beside_it(
    account: dict[str, str], bucket: str, tmp_path: Path
) -> None:
    result = subprocess.run(
        [sys.executable, SCRIPT, *_weights(bucket, tmp_path)],
        env=account,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert model_in(tmp_path) == FILES


def test_a_second_pod_on_the_node_copies_nothing(
    account: dict[str, str], bucket: str, script: Script, tmp_path: Path
) -> None:
    script.fetch(account, bucket, tmp_path)
    again = script.fetch(account, bucket, tmp_path)
    assert again.returncode == 0
    assert again.stdout == f"3 objects of s3://{bucket}/m are here already\n"


def test_a_copy_that_was_cut_goes_on_where_it_stopped(
    account: dict[str, str], bucket: str, script: Script, tmp_path: Path
) -> None:
    etag = client(account, "s3").head_object(Bucket=bucket, Key="m/model.safetensors")["ETag"]
    content = bytearray(FILES["model.safetensors"])
    content[PART:] = bytes(len(content) - PART)
    (tmp_path / "model.safetensors.partial").write_bytes(content)
    progress = tmp_path / "model.safetensors.progress.json"
    progress.write_text(json.dumps({etag: [0]}))
    assert script.fetch(account, bucket, tmp_path).returncode == 0
    assert model_in(tmp_path) == FILES


def test_bytes_that_are_wrong_are_told_and_fetched_anew(
    account: dict[str, str], bucket: str, script: Script, tmp_path: Path
) -> None:
    etag = client(account, "s3").head_object(Bucket=bucket, Key="m/model.safetensors")["ETag"]
    (tmp_path / "model.safetensors.partial").write_bytes(bytes(len(FILES["model.safetensors"])))
    (tmp_path / "model.safetensors.progress.json").write_text(json.dumps({etag: [0]}))
    wrong = script.fetch(account, bucket, tmp_path)
    assert wrong.returncode == 1
    assert wrong.stderr.count("\n") == 1
    assert "m/model.safetensors: its " in wrong.stderr
    assert script.fetch(account, bucket, tmp_path).returncode == 0
    assert model_in(tmp_path) == FILES


def test_an_object_that_would_leave_its_folder_is_refused(
    account: dict[str, str], bucket: str, script: Script, tmp_path: Path
) -> None:
    client(account, "s3").put_object(Bucket=bucket, Key="m/../../outside", Body=b"x")
    result = script.fetch(account, bucket, tmp_path / "a" / "b")
    assert result.returncode == 1
    assert "outside" in result.stderr
    assert not (tmp_path / "outside").exists()


def test_an_empty_folder_and_a_missing_bucket_are_one_line(
    account: dict[str, str], script: Script, tmp_path: Path
) -> None:
    result = script.fetch(account, "no-such-bucket", tmp_path)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["hf_planted\n", '{"token": "hf_planted"}'])
def test_a_token_is_written_for_its_owner_and_printed_nowhere(
    account: dict[str, str], text: str, script: Script, tmp_path: Path
) -> None:
    name = f"secret{abs(hash(text))}"
    client(account, "secretsmanager").create_secret(Name=name, SecretString=text)
    file = tmp_path / "hf-token"
    result = script.run(account, "token", "--secret", name, "--to", str(file))
    assert result.returncode == 0, result.stderr
    assert file.read_text() == "hf_planted"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "hf_planted" not in result.stdout + result.stderr


def test_a_secret_without_a_token_is_one_line(
    account: dict[str, str], script: Script, tmp_path: Path
) -> None:
    client(account, "secretsmanager").create_secret(Name="odd", SecretString='{"password": "hunter2"}')
    result = script.run(account, "token", "--secret", "odd", "--to", str(tmp_path / "t"))
    assert result.returncode == 1
    assert "without the key token" in result.stderr
    assert "hunter2" not in result.stderr
