"""Asks a zone for capacity as AWS can only be asked: a reservation is made and at once cancelled.

Nothing of it may stay, whenever this machine fails: what is about to be made stands in a journal first, the reservation
carries a tag from its first moment and ends by itself, and the next look cancels what carries that tag.
"""

from __future__ import annotations

import contextlib
import secrets
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kvrelay.data import price
from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.preflight.probe_journal import JOURNAL, Entry, write
from kvrelay.ops.preflight.probe_reservations import PROBE_TAG, cancel, held_by
from kvrelay.ops.preflight.refusals import refusal
from kvrelay.ops.preflight.rows import Row, Status, Subject
from kvrelay.ops.preflight.zones import offers, zone_ids
from kvrelay.settings.scheduling import DEPLOYMENT_TAG

# AWS ends a reservation within an hour after its end date.
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCapacityReservation.html
_ENDS_AFTER = timedelta(hours=1)
LONGEST_HOURS = 2
"""What a reservation that nobody cancels costs at most, in hours of its instances."""
_LOOKS = 5
_NONE_FREE = ("InsufficientInstanceCapacity", "InsufficientCapacity")
_OVER_QUOTA = ("InstanceLimitExceeded", "VcpuLimitExceeded")


@dataclass(frozen=True)
class Wanted:
    """One question: so many instances in one zone. `group` is the node group's name."""

    group: str
    instance_type: str
    count: int
    zone: str

    def __str__(self) -> str:
        """For people."""
        return f"{self.count} x {self.instance_type} in {self.zone}"


def wanted(subject: Subject) -> list[Wanted]:
    """The questions of a deployment: each on-demand group, in its own zone first and in the others that offer it.

    Raises botocore's errors.
    """
    nodes = subject.source.deployment.gpu_nodes
    groups = [group for group in nodes.groups if group.capacity.type == "on-demand"]
    if not groups:
        return []
    zones = zone_ids(subject.aws)
    offered = offers(subject.aws, sorted({group.instance_type for group in groups}))
    return [
        Wanted(group.name, group.instance_type, group.count, zone)
        for group in groups
        for zone in sorted(
            offered[group.instance_type] & set(zones), key=lambda zone: (zone != nodes.zone, zone)
        )
    ]


def bill(questions: list[Wanted], region: str) -> str:
    """What the questions cost, for people: each is held for seconds, and billed by the second."""
    hourly = [price(each.instance_type, region) for each in questions]
    known = [usd * each.count for usd, each in zip(hourly, questions, strict=True) if usd is not None]
    if len(known) < len(questions):
        return "its price is not known here: the on-demand price of so many instances, for seconds"
    return (
        f"about {sum(known) / 60:.2f} USD, if each is held for a minute; {max(known) * LONGEST_HOURS:.2f} USD at most "
        f"if nobody can cancel the last one: AWS then ends it within {LONGEST_HOURS} hours"
    )


class StillHeldError(Exception):
    """A reservation was made, or may have been, and could not be cancelled; `identifier` is empty if not known."""

    def __init__(self, identifier: str, error: Exception) -> None:
        super().__init__(" ".join(str(error).split())[:300])
        self.identifier = identifier


class Prober:
    """Asks for one deployment. `journal` is a folder of this machine."""

    def __init__(self, aws: Aws, deployment: str, zone: str, journal: Path = JOURNAL) -> None:
        self._client = aws.client("ec2")
        self._region = aws.region
        self._deployment = deployment
        self._zone = zone
        self._journal = journal

    def rows(self, questions: list[Wanted]) -> Iterator[Row]:
        """One question after the other, so that the quota need hold one only."""
        for each in questions:
            yield self._row(each)

    def _row(self, question: Wanted) -> Row:
        from botocore.exceptions import BotoCoreError, ClientError
        from botocore.parsers import ResponseParserError

        try:
            self._hold(question)
        except StillHeldError as error:
            return self._still_held(question, error)
        except ClientError as error:
            return self._refused(question, error)
        except (BotoCoreError, ResponseParserError) as error:
            return refusal("probe", error)
        at = datetime.now(UTC)
        return Row("probe", str(question), Status.PASS, f"could be had at {at:%H:%M} UTC; that is no promise")

    def _hold(self, question: Wanted) -> None:
        """Raises botocore's errors where AWS gave none, StillHeldError where it did not take it back."""
        from botocore.exceptions import ClientError

        now = datetime.now(UTC)
        entry = Entry(
            f"kvrelay-probe-{secrets.token_hex(12)}",
            self._region,
            self._deployment,
            question.instance_type,
            question.zone,
            question.count,
            now.isoformat(),
        )
        identifier, refused = "", False
        with _terminable():
            write(self._journal, entry)
            try:
                identifier = self._ask(entry, now + _ENDS_AFTER)
            except ClientError as error:
                # AWS's own no; after a fault of its servers it may have been made all the same.
                refused = error.response["ResponseMetadata"].get("HTTPStatusCode", 500) < 500
                raise
            finally:
                if refused or self._let_go(entry, identifier):
                    entry.file(self._journal).unlink(missing_ok=True)

    def _ask(self, entry: Entry, end: datetime) -> str:
        tags = [
            {"Key": DEPLOYMENT_TAG, "Value": self._deployment},
            {"Key": PROBE_TAG, "Value": entry.token},
            {"Key": "Name", "Value": f"{self._deployment} preflight probe"},
        ]
        made = self._client.create_capacity_reservation(
            ClientToken=entry.token,
            InstanceType=entry.instance_type,
            InstancePlatform="Linux/UNIX",
            InstanceCount=entry.count,
            AvailabilityZone=entry.zone,
            # Instances that run already must not take its room.
            InstanceMatchCriteria="targeted",
            EndDateType="limited",
            EndDate=end,
            TagSpecifications=[{"ResourceType": "capacity-reservation", "Tags": tags}],
        )
        return str(made["CapacityReservation"]["CapacityReservationId"])

    def _let_go(self, entry: Entry, identifier: str) -> bool:
        """Cancels it; one that was asked for without an answer is looked for by its tag. False: none was found yet."""
        from botocore.exceptions import BotoCoreError, ClientError

        for attempt in range(_LOOKS):
            time.sleep(0.5 * attempt)
            try:
                held = [identifier] if identifier else held_by(self._client, token=entry.token)
                for each in held:
                    cancel(self._client, each)
            except (BotoCoreError, ClientError) as error:
                if attempt == _LOOKS - 1:
                    raise StillHeldError(identifier, error) from None
            else:
                if held:
                    return True
        return False

    def _still_held(self, question: Wanted, error: StillHeldError) -> Row:
        command = f"aws ec2 cancel-capacity-reservation --region {self._region} --capacity-reservation-id"
        by_hand = (
            f"{command} {error.identifier}" if error.identifier else "kvrelay preflight, which looks for it"
        )
        mend = f"run {by_hand}; it ends by itself within {LONGEST_HOURS} hours"
        what = error.identifier or "what was asked for without an answer"
        return Row("probe", str(question), Status.FAIL, f"{what} is not cancelled: {error}", mend)

    def _refused(self, question: Wanted, error: Any) -> Row:
        code = error.response["Error"]["Code"]
        here = question.zone == self._zone
        status = Status.FAIL if here else Status.WARN
        if code in _NONE_FREE:
            mend = "change gpu_nodes.zone to one that passes here, reserve capacity, or try again later"
            return Row("probe", str(question), status, "AWS has none free there now", mend if here else "")
        if code in _OVER_QUOTA:
            found = (
                f"the account's quota is too small: {' '.join(error.response['Error']['Message'].split())}"
            )
            return Row(
                "probe", str(question), status, found, "the row of the quota above says how to ask for more"
            )
        row = refusal("probe", error)
        return Row("probe", str(question), row.status, row.found, row.mend)


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """A SIGTERM cancels what is held, as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
