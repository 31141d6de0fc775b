"""Which zones offer the instance types, by name and by id; and their ranking for `--zones`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.preflight.rows import Row, Status, Subject
from kvrelay.settings import Deployment

# EKS takes no subnets for its control plane there.
# https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
_WITHOUT_EKS = {"use1-az3", "usw1-az2", "cac1-az3"}


def zone_ids(aws: Aws) -> dict[str, str]:
    """Zone name to zone id: names differ between accounts, ids don't."""
    rows = aws.client("ec2").describe_availability_zones(
        Filters=[{"Name": "zone-type", "Values": ["availability-zone"]}]
    )["AvailabilityZones"]
    return {row["ZoneName"]: row["ZoneId"] for row in rows if row["State"] == "available"}


def offers(aws: Aws, types: list[str]) -> dict[str, set[str]]:
    """Instance type to the zones that offer it."""
    found: dict[str, set[str]] = {name: set() for name in types}
    for row in aws.pages(
        "ec2",
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType="availability-zone",
        Filters=[{"Name": "instance-type", "Values": types}],
    ):
        found[row["InstanceType"]].add(row["Location"])
    return found


def wanted_types(deployment: Deployment) -> list[str]:
    """Every instance type of the deployment, once."""
    groups = (group.instance_type for group in deployment.gpu_nodes.groups)
    return list(dict.fromkeys([*groups, deployment.system_nodes.instance_type]))


class Zones:
    """The zones of the file, and the types that must run in the GPU zone."""

    name = "zones"
    limit_s = 15.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """A row for each zone and each type."""
        deployment, ids = subject.source.deployment, zone_ids(subject.aws)
        for zone in deployment.zones:
            yield self._zone(zone, ids)
        types = wanted_types(deployment)
        offered = offers(subject.aws, types)
        place = deployment.gpu_nodes.zone
        for name in types:
            where = ", ".join(f"{zone} ({ids.get(zone, 'not yours')})" for zone in sorted(offered[name]))
            if place in offered[name]:
                yield Row(self.name, name, Status.PASS, f"offered in {where}")
            elif where:
                yield Row(
                    self.name,
                    name,
                    Status.FAIL,
                    f"not offered in {place}; offered in {where}",
                    "change gpu_nodes.zone; kvrelay preflight --zones prints the line",
                )
            else:
                yield Row(
                    self.name,
                    name,
                    Status.FAIL,
                    f"not offered anywhere in {subject.aws.region}",
                    "choose another instance_type or region",
                )

    def _zone(self, zone: str, ids: Mapping[str, str]) -> Row:
        if zone not in ids:
            mend = f"name zones out of {', '.join(sorted(ids))}"
            return Row(self.name, zone, Status.FAIL, "this account has no such zone", mend)
        if ids[zone] in _WITHOUT_EKS:
            return Row(
                self.name, zone, Status.FAIL, f"EKS takes no subnets in {ids[zone]}", "name another zone"
            )
        return Row(self.name, zone, Status.PASS, f"zone id {ids[zone]}")


class SpotScores:
    """AWS's own guess how likely spot capacity is. A hint only."""

    name = "spot"
    limit_s = 10.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """A row for each group on spot."""
        deployment = subject.source.deployment
        for group in deployment.gpu_nodes.groups:
            if group.capacity.type != "spot":
                continue
            place = zone_ids(subject.aws).get(deployment.gpu_nodes.zone, "")
            scores = subject.aws.client("ec2").get_spot_placement_scores(
                InstanceTypes=[group.instance_type],
                TargetCapacity=group.count,
                SingleAvailabilityZone=True,
                RegionNames=[subject.aws.region],
            )["SpotPlacementScores"]
            by_zone = {row["AvailabilityZoneId"]: row["Score"] for row in scores}
            score = by_zone.get(place, 0)
            found = (
                f"{group.count} x {group.instance_type} in {deployment.gpu_nodes.zone}: score {score} of 10"
            )
            mend = "use on-demand or a reservation, or another zone" if score < 5 else ""
            yield Row(self.name, group.name, Status.WARN if mend else Status.PASS, found, mend)


@dataclass(frozen=True)
class RankedZone:
    """One zone: how many of the types it offers."""

    zone: str
    zone_id: str
    offered: tuple[str, ...]
    missing: tuple[str, ...]


def ranked_zones(subject: Subject) -> list[RankedZone]:
    """Best first: most types offered, then the file's own zones, then by name."""
    deployment = subject.source.deployment
    ids, types = zone_ids(subject.aws), wanted_types(deployment)
    offered = offers(subject.aws, types)
    rows = [
        RankedZone(
            zone,
            identifier,
            tuple(name for name in types if zone in offered[name]),
            tuple(name for name in types if zone not in offered[name]),
        )
        for zone, identifier in ids.items()
        if identifier not in _WITHOUT_EKS
    ]
    return sorted(rows, key=lambda row: (len(row.missing), row.zone not in deployment.zones, row.zone))
