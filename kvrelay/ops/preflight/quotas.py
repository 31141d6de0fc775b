"""Quotas: the limit, what is in use, what the deployment adds, and the command that asks for more."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kvrelay.data import Quota, instance_type, quotas, vcpu_quota
from kvrelay.ops.preflight.aws import Aws, tag
from kvrelay.ops.preflight.refusals import refusal
from kvrelay.ops.preflight.rows import Row, Status, Subject
from kvrelay.settings import Deployment
from kvrelay.settings.scheduling import DEPLOYMENT_TAG

_STANDARD = {"a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z"}
_G_AND_VT = {"g", "gr", "vt"}


@dataclass(frozen=True)
class Need:
    """What a deployment adds to a quota's use."""

    quota: Quota
    amount: int


def needs(deployment: Deployment) -> list[Need]:
    """Everything the deployment counts against. Reserved capacity counts already, or not at all."""
    amounts: Counter[str] = Counter()
    system = instance_type(deployment.system_nodes.instance_type)
    amounts[vcpu_quota(system).key] += system.vcpus * deployment.system_nodes.count
    for group in deployment.gpu_nodes.groups:
        if group.capacity.type in ("on-demand", "spot"):
            kind = instance_type(group.instance_type)
            purchase = vcpu_quota(kind, "spot" if group.capacity.type == "spot" else "on-demand")
            amounts[purchase.key] += kind.vcpus * group.largest_count
    gateways = len(deployment.zones) if deployment.network.nat_gateways == "one-per-zone" else 1
    amounts |= Counter({"vpcs": 1, "elastic-ips": gateways, "nat-gateways-per-zone": 1, "eks-clusters": 1})
    return [Need(quotas()[key], amount) for key, amount in amounts.items()]


class Quotas:
    """A row for each quota."""

    name = "quotas"
    limit_s = 15.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """Each quota alone, so that one denied call hides no other."""
        from botocore.exceptions import BotoCoreError, ClientError

        for need in needs(subject.source.deployment):
            try:
                yield self._row(subject, need)
            except (BotoCoreError, ClientError) as error:
                row = refusal(self.name, error)
                yield Row(self.name, need.quota.name, row.status, f"{row.found} ({row.subject})", row.mend)

    def _row(self, subject: Subject, need: Need) -> Row:
        limit, used = _limit(subject.aws, need.quota), _used(subject.aws, subject.source.deployment, need)
        unit = need.quota.unit
        found = f"limit {limit} {unit}, {used} in use by others, {need.amount} needed"
        if used + need.amount <= limit:
            return Row(self.name, need.quota.name, Status.PASS, found)
        mend = (
            f"aws service-quotas request-service-quota-increase --service-code {need.quota.service} "
            f"--quota-code {need.quota.code} --desired-value {used + need.amount} --region {subject.aws.region}"
        )
        return Row(self.name, need.quota.name, Status.FAIL, found, mend)


def _limit(aws: Aws, quota: Quota) -> int:
    client = aws.client("service-quotas")
    try:
        value = client.get_service_quota(ServiceCode=quota.service, QuotaCode=quota.code)["Quota"]["Value"]
    except client.exceptions.NoSuchResourceException:
        return quota.default  # nobody ever asked for more in this account
    return int(value)


def _used(aws: Aws, deployment: Deployment, need: Need) -> int:
    """What others use: the deployment's own is counted in its need."""

    def others(rows: Iterator[Any]) -> list[Any]:
        return [row for row in rows if tag(row, DEPLOYMENT_TAG) != deployment.name]

    key = need.quota.key
    if key == "vpcs":
        return len(others(aws.pages("ec2", "describe_vpcs", "Vpcs")))
    if key == "elastic-ips":
        return len(others(aws.pages("ec2", "describe_addresses", "Addresses")))
    if key == "eks-clusters":
        return sum(name != deployment.name for name in aws.pages("eks", "list_clusters", "clusters"))
    if key == "nat-gateways-per-zone":
        zones = {
            subnet["SubnetId"]: subnet["AvailabilityZone"]
            for subnet in aws.pages("ec2", "describe_subnets", "Subnets")
        }
        alive = (
            row
            for row in aws.pages("ec2", "describe_nat_gateways", "NatGateways")
            if row["State"] in ("pending", "available")
        )
        by_zone = Counter(zones.get(row["SubnetId"]) for row in others(alive))
        return max((by_zone[zone] for zone in deployment.zones), default=0)
    reservations = aws.pages(
        "ec2",
        "describe_instances",
        "Reservations",
        Filters=[{"Name": "instance-state-name", "Values": ["pending", "running"]}],
    )
    running = others(instance for row in reservations for instance in row["Instances"])
    spot = key.endswith("-spot")
    family = key.removesuffix("-spot").removesuffix("-on-demand")
    counted = Counter(
        row["InstanceType"]
        for row in running
        if quota_family(row["InstanceType"]) == family and (row.get("InstanceLifecycle") == "spot") == spot
    )
    if not spot:
        counted += _held(aws, family)
    return _vcpus(aws, counted)


def _held(aws: Aws, family: str) -> Counter[str]:
    """Reserved instances count against the on-demand quota while nothing runs in them too."""
    counted: Counter[str] = Counter()
    for row in aws.pages("ec2", "describe_capacity_reservations", "CapacityReservations"):
        held = row["State"] == "active" and row.get("ReservationType", "default") == "default"
        if held and quota_family(row["InstanceType"]) == family:
            counted[row["InstanceType"]] += row["AvailableInstanceCount"]
    return counted


def _vcpus(aws: Aws, counted: Counter[str]) -> int:
    if not counted:
        return 0
    kinds = aws.pages("ec2", "describe_instance_types", "InstanceTypes", InstanceTypes=sorted(counted))
    return sum(counted[kind["InstanceType"]] * kind["VCpuInfo"]["DefaultVCpus"] for kind in kinds)


def quota_family(name: str) -> str:
    """Which vCPU quota any type counts against, also one that kvrelay does not keep; empty for other kinds."""
    found = re.match(r"[a-z]+", name)
    letters = found[0] if found else ""
    if letters == "p":
        return "p"
    return "g-and-vt" if letters in _G_AND_VT else "standard" if letters in _STANDARD else ""
