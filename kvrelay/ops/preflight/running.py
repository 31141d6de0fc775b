"""Runs all checks at once, each with its time limit, and turns what goes wrong into rows."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence

from kvrelay.errors import UserError
from kvrelay.ops.preflight.capacity import Capacity
from kvrelay.ops.preflight.cluster import EksVersions, NodeImages
from kvrelay.ops.preflight.credentials import Bootstrap, Credentials
from kvrelay.ops.preflight.image import ContainerImage
from kvrelay.ops.preflight.model import ModelAccess
from kvrelay.ops.preflight.network import Ranges
from kvrelay.ops.preflight.permissions import Permissions
from kvrelay.ops.preflight.quotas import Quotas
from kvrelay.ops.preflight.refusals import refusal
from kvrelay.ops.preflight.rows import Check, Row, Status, Subject
from kvrelay.ops.preflight.tools import Tools
from kvrelay.ops.preflight.zones import SpotScores, Zones

CHECKS: tuple[type[Check], ...] = (
    Credentials,
    Bootstrap,
    Permissions,
    Quotas,
    Zones,
    EksVersions,
    NodeImages,
    ContainerImage,
    Capacity,
    SpotScores,
    Ranges,
    ModelAccess,
    Tools,
)

SERVICES = ("ec2", "ecr", "eks", "iam", "s3", "secretsmanager", "service-quotas", "ssm", "sts")


def run_checks(subject: Subject, checks: Sequence[Check]) -> list[Row]:
    """Rows in the checks' order. A check that takes too long gets a row that says so."""
    for service in SERVICES:
        subject.aws.client(service)  # making one takes this machine's time, which no check's limit counts
    answers: list[queue.SimpleQueue[list[Row]]] = []
    started = time.monotonic()
    for check in checks:
        answer: queue.SimpleQueue[list[Row]] = queue.SimpleQueue()
        # Daemons: a call that hangs must hold up neither the others nor the exit.
        threading.Thread(target=lambda c=check, a=answer: a.put(_rows_of(c, subject)), daemon=True).start()
        answers.append(answer)
    rows: list[Row] = []
    for check, answer in zip(checks, answers, strict=True):
        try:
            rows += answer.get(timeout=max(0.01, check.limit_s - (time.monotonic() - started)))
        except queue.Empty:
            late = f"not checked: no answer in {check.limit_s:g} s"
            rows.append(Row(check.name, "time limit", Status.WARN, late, "check the network, and run again"))
    return rows


def _rows_of(check: Check, subject: Subject) -> list[Row]:
    from botocore.exceptions import BotoCoreError, ClientError

    rows: list[Row] = []
    try:
        for row in check.run(subject):
            rows.append(row)
    except (BotoCoreError, ClientError) as error:
        rows.append(refusal(check.name, error))
    except UserError as error:
        rows.append(Row(check.name, "input", Status.FAIL, str(error), "mend the file"))
    except Exception as error:  # a fault of ours must not hide what the other checks found
        rows.append(
            Row(check.name, type(error).__name__, Status.WARN, f"not checked: {error}", "please report this")
        )
    return rows
