"""What all parts of one emulated account share: its clients, its stacks, its EKS clusters, its planned faults."""

from __future__ import annotations

import os
import secrets
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvrelay.local.aws.answers import Answers
from kvrelay.local.aws.faults import Faults

if TYPE_CHECKING:
    from kvrelay.local.aws.cloudformation.stacks import StackStore
    from kvrelay.local.aws.eks.state import EksRegion

ACCOUNT_ID = "123456789012"
PARTITION = "aws"
ACCESS_KEY = "AKIAIOSFODNN7EXAMPLE"
SECRET_KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


@dataclass(frozen=True)
class KubernetesEndpoint:
    """A Kubernetes API server that emulated clusters point to; `ca_pem` is its certificate authority, PEM."""

    url: str
    ca_pem: str
    token: str


class Account:
    """One emulated AWS account, all regions."""

    def __init__(self, *, region: str, work_folder: Path, kubernetes: KubernetesEndpoint | None) -> None:
        from kvrelay.local.aws.cloudformation.stacks import StackStore
        from kvrelay.local.aws.eks.state import EksRegion

        self.region = region
        self.work_folder = work_folder
        self.kubernetes = kubernetes
        self.faults = Faults()
        self.answers = Answers()
        self.endpoint = ""
        # moto's backends are plain dictionaries: one resource is changed at a time.
        self.lock = threading.RLock()
        self.responses = CustomResourceResponses()
        # Where a function logs when its LoggingConfig says so, by region and name.
        self.function_log_groups: dict[tuple[str, str], str] = {}
        # What moto's EC2 lacks, by region and name or id.
        self.placement_groups: dict[str, dict[str, dict[str, Any]]] = {}
        self.capacity_reservations: dict[str, dict[str, dict[str, Any]]] = {}
        self.reservation_tokens: dict[str, dict[str, str]] = {}
        # What moto's ECR lacks, by region and prefix.
        self.pull_through_rules: dict[str, dict[str, dict[str, Any]]] = {}
        self._session: Any = None
        self._clients: dict[tuple[str, str], Any] = {}
        self._stacks: dict[str, StackStore] = defaultdict(StackStore)
        self._eks: dict[str, EksRegion] = {}
        self._eks_class = EksRegion

    def stacks(self, region: str) -> StackStore:
        """The CloudFormation stacks of `region`."""
        return self._stacks[region]

    def stack_stores(self) -> dict[str, StackStore]:
        """Every region's stacks."""
        return dict(self._stacks)

    def eks(self, region: str) -> EksRegion:
        """The EKS clusters of `region`."""
        with self.lock:
            if region not in self._eks:
                self._eks[region] = self._eks_class(self, region)
            return self._eks[region]

    def eks_regions(self) -> dict[str, EksRegion]:
        """Every region's EKS state."""
        return dict(self._eks)

    def child_environment(self, region: str) -> dict[str, str]:
        """What makes a child process's SDK talk to this account."""
        return environment(self.endpoint, region)

    def client(self, service: str, region: str) -> Any:
        """A boto3 client of this emulator."""
        import boto3
        from botocore.config import Config

        key = (service, region)
        with self.lock:
            if self._session is None:
                # One for all: each new session reads botocore's endpoints anew, which takes longer than a client.
                self._session = boto3.Session(
                    aws_access_key_id=ACCESS_KEY, aws_secret_access_key=SECRET_KEY, region_name=self.region
                )
            if key not in self._clients:
                self._clients[key] = self._session.client(
                    service,
                    region_name=region,
                    endpoint_url=self.endpoint,
                    config=Config(
                        retries={"max_attempts": 1},
                        max_pool_connections=32,
                        s3={"addressing_style": "path"},
                        parameter_validation=False,
                    ),
                )
            return self._clients[key]


def environment(endpoint: str, region: str) -> dict[str, str]:
    """What a child process needs to talk to the emulator at `endpoint`, and to nothing else."""
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }


def cdk_environment(endpoint: str, region: str) -> dict[str, str]:
    """`environment`, and what the cdk CLI asks for beside it."""
    return {
        **environment(endpoint, region),
        "CDK_DEFAULT_ACCOUNT": ACCOUNT_ID,
        "CDK_DEFAULT_REGION": region,
        "CDK_DISABLE_CLI_TELEMETRY": "true",
    }


class CustomResourceResponses:
    """Where custom resources' answers arrive: a mailbox for each request."""

    def __init__(self) -> None:
        self._boxes: dict[str, tuple[threading.Event, dict[str, Any]]] = {}

    def open(self) -> str:
        """A fresh mailbox's name."""
        token = secrets.token_hex(16)
        self._boxes[token] = (threading.Event(), {})
        return token

    def put(self, token: str, answer: dict[str, Any]) -> bool:
        """Delivers an answer; False when nobody waits for it."""
        box = self._boxes.get(token)
        if box is None:
            return False
        box[1].update(answer)
        box[0].set()
        return True

    def take(self, token: str, timeout: float) -> dict[str, Any] | None:
        """Waits `timeout` seconds at most for the answer."""
        event, answer = self._boxes[token]
        arrived = event.wait(timeout)
        del self._boxes[token]
        return answer if arrived else None
