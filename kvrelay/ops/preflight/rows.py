"""What a check says: one row each, with what was found and what mends it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Protocol

from kvrelay.ops.preflight.aws import Aws
from kvrelay.settings import DeploymentFile


class Status(StrEnum):
    """`warn`: it could not be told, or may hurt later; only `fail` stops a deployment."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    check: str
    subject: str
    status: Status
    found: str
    mend: str = ""

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Subject:
    """What is checked: the file, and the account it would go to."""

    source: DeploymentFile
    aws: Aws
    model_source: str
    """What the serve config loads: a model of the hub."""


class Check(Protocol):
    """One question about the account, the machine or the model."""

    name: str
    limit_s: float

    def run(self, subject: Subject) -> Iterable[Row]:
        """Its rows; may raise botocore's errors, which become a row of their own."""
        ...
