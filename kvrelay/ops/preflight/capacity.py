"""Reserved capacity that the file names: whether it exists, fits, and when a block runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from kvrelay.ops.preflight.rows import Row, Status, Subject
from kvrelay.settings import CapacityBlock, GpuNodeGroup, Reservation

_SHORT = timedelta(hours=24)


class Capacity:
    """Each group's reservation or capacity block."""

    name = "capacity"
    limit_s = 10.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """A row for each group; on-demand has nothing to ask without making something."""
        from botocore.exceptions import ClientError

        zone = subject.source.deployment.gpu_nodes.zone
        for group in subject.source.deployment.gpu_nodes.groups:
            if not isinstance(group.capacity, Reservation | CapacityBlock):
                continue
            identifier = group.capacity.reservation_id
            try:
                found = subject.aws.client("ec2").describe_capacity_reservations(
                    CapacityReservationIds=[identifier]
                )["CapacityReservations"][0]
            except ClientError as error:
                if "NotFound" not in error.response["Error"]["Code"]:
                    raise
                yield Row(
                    self.name,
                    identifier,
                    Status.FAIL,
                    f"is not in this account and {subject.aws.region}",
                    f"correct gpu_nodes.groups ({group.name}) capacity.reservation_id",
                )
                continue
            yield from self._rows(group, found, zone)

    def _rows(self, group: GpuNodeGroup, found: dict[str, Any], zone: str) -> Iterator[Row]:
        identifier = found["CapacityReservationId"]
        faults = list(_faults(group, found, zone))
        for problem, mend in faults:
            yield Row(self.name, identifier, Status.FAIL, problem, mend)
        if faults:
            return
        end = found.get("EndDate")
        if end and end - datetime.now(UTC) < _SHORT:
            yield Row(
                self.name,
                identifier,
                Status.WARN,
                f"ends at {end:%Y-%m-%d %H:%M} UTC, within a day",
                "AWS takes the nodes back before that; extend it or expect to end by then",
            )
            return
        until = f" until {end:%Y-%m-%d %H:%M} UTC" if end else ""
        yield Row(
            self.name,
            identifier,
            Status.PASS,
            f"{found['AvailableInstanceCount']} x {found['InstanceType']} free in {zone}{until}",
        )


def _faults(group: GpuNodeGroup, found: dict[str, Any], zone: str) -> Iterator[tuple[str, str]]:
    is_block = found.get("ReservationType") == "capacity-block"
    if is_block != isinstance(group.capacity, CapacityBlock):
        right = "capacity-block" if is_block else "reservation"
        yield f"is a {right}, the file says {group.capacity.type}", f"write capacity.type: {right}"
    if found["InstanceType"] != group.instance_type:
        yield (
            f"holds {found['InstanceType']}, the group {group.name} runs {group.instance_type}",
            f"write instance_type: {found['InstanceType']}, or name another reservation",
        )
    if found["AvailabilityZone"] != zone:
        yield (
            f"is in {found['AvailabilityZone']}, not {zone}",
            f"write gpu_nodes.zone: {found['AvailabilityZone']}",
        )
    start = found.get("StartDate")
    if found["State"] in ("scheduled", "payment-pending", "pending") and start:
        yield f"starts at {start:%Y-%m-%d %H:%M} UTC", "deploy after that"
    elif found["State"] != "active":
        yield f"is {found['State']}", "make a new one and name it"
    elif found["AvailableInstanceCount"] < group.count:
        yield (
            f"has room for {found['AvailableInstanceCount']} of {found['TotalInstanceCount']}, "
            f"{group.count} needed",
            f"free or add room: aws ec2 modify-capacity-reservation --instance-count N "
            f"--capacity-reservation-id {found['CapacityReservationId']}",
        )
    if not is_block and found.get("InstanceMatchCriteria") == "open":
        yield (
            "is open: any instance of the account may take its room",
            "make one with --instance-match-criteria targeted",
        )
