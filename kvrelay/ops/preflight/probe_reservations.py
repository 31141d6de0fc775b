"""The reservations that probes hold in the account: found by their tag, and cancelled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.preflight.probe_journal import JOURNAL, entries
from kvrelay.settings.scheduling import DEPLOYMENT_TAG

PROBE_TAG = "kvrelay:probe"

# A reservation that was asked for shows in a list some seconds later at most.
_SETTLED = timedelta(minutes=10)
_HELD = ("active", "pending", "scheduled", "assessing", "delayed")
_ENDED = ("InvalidCapacityReservationState", "InvalidCapacityReservationId.NotFound")


def forgotten(aws: Aws, deployment: str, journal: Path = JOURNAL) -> list[str]:
    """Cancels every reservation that a probe of the deployment left, of this machine or another; their ids.

    Raises botocore's errors; the journal then stays as it is.
    """
    client = aws.client("ec2")
    ids = held_by(client, deployment=deployment)
    for each in ids:
        cancel(client, each)
    for path, entry in entries(journal):
        ours = entry.region == aws.region and entry.deployment == deployment
        if ours and datetime.now(UTC) - datetime.fromisoformat(entry.began) > _SETTLED:
            path.unlink(missing_ok=True)
    return ids


def held_by(client: Any, *, token: str = "", deployment: str = "") -> list[str]:
    """Ids of what probes hold: of one question, or of all of a deployment."""
    chosen = (
        [{"Name": f"tag:{PROBE_TAG}", "Values": [token]}]
        if token
        else [
            {"Name": "tag-key", "Values": [PROBE_TAG]},
            {"Name": f"tag:{DEPLOYMENT_TAG}", "Values": [deployment]},
        ]
    )
    pages = client.get_paginator("describe_capacity_reservations").paginate(Filters=chosen)
    rows = [row for page in pages for row in page["CapacityReservations"]]
    return [str(row["CapacityReservationId"]) for row in rows if row["State"] in _HELD]


def cancel(client: Any, identifier: str) -> None:
    from botocore.exceptions import ClientError

    try:
        client.cancel_capacity_reservation(CapacityReservationId=identifier)
    except ClientError as error:
        # Another run may have been quicker.
        if error.response["Error"]["Code"] not in _ENDED:
            raise
