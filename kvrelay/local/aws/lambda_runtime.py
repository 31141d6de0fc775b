"""Runs a Lambda function's own published code in a child process, as Lambda would."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import uuid
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from kvrelay.local.aws.account import ACCOUNT_ID, Account

_CHILDREN = Path(__file__).parent / "lambda_children"
_NODE_MODULES = Path(__file__).parents[3] / "node_modules"
_TAIL_LINES = 8


@dataclass(frozen=True)
class Outcome:
    """How an invocation ended: its payload, and what went wrong, if anything did."""

    payload: Any
    error: str = ""
    log_tail: str = ""


class FunctionRuntime:
    """Invokes the functions of one region."""

    def __init__(self, account: Account, region: str) -> None:
        self._account = account
        self._region = region

    def invoke(self, name_or_arn: str, event: Any) -> Outcome:
        """Runs the function once and waits for it."""
        from moto.awslambda.models import lambda_backends

        name = name_or_arn.split(":function:")[-1].split(":")[0]
        try:
            function = lambda_backends[ACCOUNT_ID][self._region].get_function(name)
        except Exception:
            message = f"Function not found: {name_or_arn}"
            return Outcome({"errorType": "ResourceNotFoundException", "errorMessage": message}, message)
        layers = [unpacked(self._layer(layer["Arn"])) for layer in function.layers]
        with tempfile.TemporaryDirectory(dir=self._account.work_folder) as scratch:
            return self._run(function, layers, event, Path(scratch))

    def _layer(self, arn: str) -> bytes:
        from moto.awslambda.models import lambda_backends

        _, _, layer, version = arn.rsplit(":", 3)
        found = lambda_backends[ACCOUNT_ID][self._region].get_layer_version(layer, version)
        return bytes(found.code_bytes)

    def _run(self, function: Any, layers: list[Path], event: Any, scratch: Path) -> Outcome:
        log_group = self._account.function_log_groups.get((self._region, function.function_name))
        log_group = log_group or f"/aws/lambda/{function.function_name}"
        request_id = str(uuid.uuid4())
        stream = f"{time.strftime('%Y/%m/%d')}/[$LATEST]{request_id.replace('-', '')}"
        result_file = scratch / "result.json"
        environment = {
            **_inherited(),
            **self._account.child_environment(self._region),
            **function.environment_vars,
            "PATH": self._path(layers),
            "HOME": str(scratch),
            "TMPDIR": str(scratch),
            # CDK's kubectl handler keeps its kubeconfig and manifests here instead of /tmp.
            "TEST_OUTDIR": str(scratch),
            "_HANDLER": function.handler,
            "LAMBDA_TASK_ROOT": str(unpacked(function.code_bytes)),
            "AWS_LAMBDA_FUNCTION_NAME": function.function_name,
            "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(function.memory_size),
            "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
            "AWS_LAMBDA_LOG_GROUP_NAME": log_group,
            "AWS_LAMBDA_LOG_STREAM_NAME": stream,
            "AWS_EXECUTION_ENV": f"AWS_Lambda_{function.run_time}",
            "KVRELAY_FUNCTION_ARN": function.function_arn,
            "KVRELAY_PORT": self._account.endpoint.rsplit(":", 1)[1],
            "KVRELAY_PYTHON_LAYERS": os.pathsep.join(str(layer / "python") for layer in layers),
            "KVRELAY_REQUEST_ID": request_id,
            "KVRELAY_RESULT": str(result_file),
            "KVRELAY_TIMEOUT": str(function.timeout),
            "NODE_PATH": os.pathsep.join(
                [*(str(layer / "nodejs" / "node_modules") for layer in layers), str(_NODE_MODULES)]
            ),
        }
        child = subprocess.Popen(
            _command(function.run_time),
            cwd=scratch,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        timed_out = False
        try:
            output, _ = child.communicate(json.dumps(event).encode(), timeout=float(function.timeout))
        except subprocess.TimeoutExpired:
            timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            output, _ = child.communicate()
        text = output.decode(errors="replace")
        self._log(log_group, stream, text)
        tail = "\n".join(text.strip().splitlines()[-_TAIL_LINES:])
        if timed_out:
            message = f"{request_id} Task timed out after {float(function.timeout):.2f} seconds"
            return Outcome({"errorMessage": message}, message, tail)
        if not result_file.exists():
            message = (
                f"RequestId: {request_id} Error: Runtime exited with error: exit status {child.returncode}"
            )
            return Outcome({"errorType": "Runtime.ExitError", "errorMessage": message}, message, tail)
        result = json.loads(result_file.read_text())
        if "error" in result:
            return Outcome(result["error"], result["error"]["errorMessage"] or "the handler raised", tail)
        return Outcome(result["payload"], log_tail=tail)

    def _path(self, layers: list[Path]) -> str:
        stand_ins = self._account.work_folder / "bin"
        aws = stand_ins / "aws"
        if not aws.exists():
            stand_ins.mkdir(exist_ok=True)
            fresh = stand_ins / f"aws.{uuid.uuid4().hex}"
            fresh.write_text(
                f'#!/bin/sh\nexec "{sys.executable}" -S -E "{_CHILDREN / "aws_stand_in.py"}" "$@"\n'
            )
            fresh.chmod(0o755)
            fresh.rename(aws)
        # What a function finds under /opt, it finds here by PATH: no privilege is needed for that.
        tools = [str(folder) for layer in layers for folder in sorted(layer.iterdir()) if folder.is_dir()]
        return os.pathsep.join([str(stand_ins), *tools, os.environ.get("PATH", os.defpath)])

    def _log(self, group: str, stream: str, text: str) -> None:
        client = self._account.client("logs", self._region)
        lines = [line for line in text.splitlines() if line.strip()]
        now = int(time.time() * 1000)
        try:
            if group.startswith("/aws/lambda/"):
                with contextlib.suppress(client.exceptions.ResourceAlreadyExistsException):
                    client.create_log_group(logGroupName=group)
            client.create_log_stream(logGroupName=group, logStreamName=stream)
            if lines:
                client.put_log_events(
                    logGroupName=group,
                    logStreamName=stream,
                    logEvents=[{"timestamp": now, "message": line[:200_000]} for line in lines],
                )
        except ClientError:
            # A group that was deleted is not made anew: the function's output has nowhere to go, as on AWS.
            return


def _inherited() -> dict[str, str]:
    kept = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
    return {key: os.environ[key] for key in kept if key in os.environ}


def _command(runtime: str) -> list[str]:
    if runtime.startswith("python"):
        return [sys.executable, "-B", str(_CHILDREN / "python_entry.py")]
    if runtime.startswith("nodejs"):
        beside = Path(sys.executable).parent / "node"
        node = str(beside) if beside.exists() else shutil.which("node") or "node"
        return [node, str(_CHILDREN / "node_entry.cjs")]
    return [sys.executable, "-c", f"raise SystemExit('the emulated AWS has no runtime {runtime}')"]


def unpacked(archive: bytes) -> Path:
    """The folder with an archive's files, kept by content in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvrelay" / "functions"
    folder = cache / hashlib.sha256(archive).hexdigest()[:32]
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=cache))
    with zipfile.ZipFile(io.BytesIO(archive)) as zipped:
        for entry in zipped.infolist():
            path = Path(zipped.extract(entry, fresh))
            mode = stat.S_IMODE(entry.external_attr >> 16)
            if mode and not entry.is_dir():
                path.chmod(mode | stat.S_IRUSR)
    fresh.chmod(0o755)
    try:
        fresh.rename(folder)
    except OSError:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder
