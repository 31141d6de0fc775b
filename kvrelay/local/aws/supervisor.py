"""`kvrelay local aws up` in the background: one process that holds an emulated account until it is told to end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import urllib.parse
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from kvrelay.errors import UserError
from kvrelay.local.aws.account import KubernetesEndpoint, cdk_environment
from kvrelay.local.background import end, started_at, wait_until_up

DEFAULT_FOLDER = Path(__file__).parents[3] / ".kvrelay" / "aws"


class EmulatorError(UserError):
    """The emulator didn't start or doesn't answer."""

    exit_code = 1


@dataclass(frozen=True)
class Running:
    """An emulated account that runs: who holds it, and where it answers."""

    pid: int
    started: int
    """The kernel's start time of `pid`, so that another process with the same id is never taken for it."""
    endpoint: str
    region: str
    real_kubernetes: bool
    """Whether its EKS clusters are the local Kubernetes, not stores of objects."""

    def environment(self) -> dict[str, str]:
        """What makes the AWS CLI, CDK and SDKs talk to this account, and to nothing else."""
        return cdk_environment(self.endpoint, self.region)

    def client(self, service: str) -> Any:
        """A boto3 client of this account."""
        import boto3

        return boto3.client(
            service,
            region_name=self.region,
            endpoint_url=self.endpoint,
            aws_access_key_id="emulated",
            aws_secret_access_key="emulated",
        )

    def leftovers(self, *, bootstrap: bool = True) -> list[str]:
        """A line for every resource that a fresh account wouldn't have; `bootstrap=False` leaves CDK's own out."""
        query = urllib.parse.urlencode(
            {"region": self.region, "bootstrap": "count" if bootstrap else "ignore"}
        )
        with urllib.request.urlopen(f"{self.endpoint}/_kvrelay/leftovers?{query}", timeout=60) as answer:
            rows = json.load(answer)
        return [
            f"{row['type']} {row['id']}" + (f" ({row['name']})" if row["name"] not in ("", row["id"]) else "")
            for row in rows
        ]


def running(folder: Path = DEFAULT_FOLDER) -> Running | None:
    """The account of that folder, or None where none runs."""
    try:
        found = Running(**json.loads((folder / "state.json").read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return found if started_at(found.pid) == found.started else None


def up(
    region: str,
    *,
    port: int = 0,
    kubernetes: KubernetesEndpoint | None = None,
    folder: Path = DEFAULT_FOLDER,
    seconds: float = 60,
) -> Running:
    """Starts an empty account; the one that runs already is returned as it is. Raises EmulatorError."""
    if found := running(folder):
        return found
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "state.json").unlink(missing_ok=True)
    log = folder / "supervisor.log"
    request = {
        "folder": str(folder),
        "region": region,
        "port": port,
        "kubernetes": asdict(kubernetes) if kubernetes else None,
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "kvrelay.local.aws.supervisor"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    assert process.stdin is not None
    # Through a pipe, not arguments: the Kubernetes token is nobody else's business.
    process.stdin.write(json.dumps(request).encode())
    process.stdin.close()
    found, said = wait_until_up(process, lambda: running(folder), log, seconds)
    if found is None:
        raise EmulatorError(f"the emulated AWS did not start: {said}")
    return found


def down(folder: Path = DEFAULT_FOLDER, seconds: float = 30) -> bool:
    """Ends the account of that folder, with all it holds; False where none ran."""
    found = running(folder)
    if not found:
        return False
    end(found.pid, found.started, seconds)
    (folder / "state.json").unlink(missing_ok=True)
    return True


def main() -> None:
    """Holds the account that standard input describes."""
    from kvrelay.local.aws.emulator import EmulatedAws

    request = json.load(sys.stdin)
    folder, kubernetes = Path(request["folder"]), request["kubernetes"]
    ended = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, frame: ended.set())
    endpoint = KubernetesEndpoint(**kubernetes) if kubernetes else None
    try:
        with EmulatedAws(port=request["port"], region=request["region"], kubernetes=endpoint) as aws:
            state = Running(
                os.getpid(), started_at(os.getpid()) or 0, aws.endpoint, aws.region, kubernetes is not None
            )
            unfinished = folder / "state.json.new"
            unfinished.write_text(json.dumps(asdict(state), indent=1))
            unfinished.rename(folder / "state.json")
            ended.wait()
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
