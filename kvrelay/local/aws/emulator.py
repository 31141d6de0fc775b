"""The emulated AWS's lifecycle: start it, point programs at it, make it fail, ask what is left in it."""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from kvrelay.local.aws import faults
from kvrelay.local.aws.account import Account, KubernetesEndpoint, cdk_environment
from kvrelay.local.aws.moto_state import reset_moto

if TYPE_CHECKING:
    from kvrelay.local.aws.leftovers import Leftover

DEFAULT_REGION = "us-east-2"


class EmulatedAws:
    """An AWS account on loopback, in this process.

    `port` 0 takes any free one. `kubernetes` is what emulated EKS clusters answer with; by default each cluster gets
    a small API server of its own that stores whatever is applied.
    """

    def __init__(
        self, *, port: int = 0, region: str = DEFAULT_REGION, kubernetes: KubernetesEndpoint | None = None
    ) -> None:
        self._port = port
        self.region = region
        self._kubernetes = kubernetes
        self._work_folder: Path | None = None
        self.endpoint = ""

    def __enter__(self) -> EmulatedAws:
        from moto.core.config import default_user_config

        from kvrelay.local.aws.server import Server

        default_user_config["iam"] = {"load_aws_managed_policies": True}
        reset_moto()
        self._work_folder = Path(tempfile.mkdtemp(prefix="kvrelay-aws-"))
        self.account = Account(region=self.region, work_folder=self._work_folder, kubernetes=self._kubernetes)
        self._server = Server(self.account, self._port)
        self.port = self._server.port
        self.endpoint = self.account.endpoint = f"http://localhost:{self.port}"
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for region in self.account.eks_regions().values():
            region.stop()
        self._server.stop()
        reset_moto()
        if self._work_folder:
            shutil.rmtree(self._work_folder, ignore_errors=True)

    def environment(self) -> dict[str, str]:
        """Environment variables that make the AWS CLI, CDK and SDKs talk to this emulator, and to nothing else."""
        return cdk_environment(self.endpoint, self.region)

    def client(self, service: str, region: str | None = None) -> Any:
        """A boto3 client of this emulator."""
        return self.account.client(service, region or self.region)

    def fail(
        self,
        resource_type: str,
        *,
        message: str = faults.INSUFFICIENT_CAPACITY,
        times: int | Literal["always"] = 1,
        action: Literal["CREATE", "UPDATE", "DELETE"] = "CREATE",
    ) -> None:
        """Makes resources of a type fail with AWS's `message`, the next `times` times or always."""
        self.account.faults.add(
            faults.Fault(resource_type, message, None if times == "always" else times, action)
        )

    def leftovers(self, *, bootstrap: bool = True) -> list[Leftover]:
        """Every resource a fresh account wouldn't have; `bootstrap=False` leaves the CDK bootstrap's out."""
        from kvrelay.local.aws.leftovers import leftovers

        return leftovers(self.account, region=self.region, bootstrap=bootstrap)


def plan_fault(endpoint: str, fault: faults.Fault) -> None:
    """Plans a failure in an emulator of another process."""
    body = json.dumps(vars(fault)).encode()
    urllib.request.urlopen(
        urllib.request.Request(f"{endpoint}/_kvrelay/faults", data=body), timeout=10
    ).close()
