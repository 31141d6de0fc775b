"""Every kind of resource that outlives its stack: how it is found, priced and removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kvrelay.data import price, service_prices
from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.residue.leftover import Leftover, monthly
from kvrelay.ops.residue.ownership import Owner, tags_of

Kind = Callable[[Aws, Owner], Iterator[Leftover]]
_GONE = {"deleted", "deleting", "cancelled", "expired", "failed"}


def stacks(aws: Aws, owner: Owner) -> Iterator[Leftover]:
    """Stacks whose deletion failed."""
    client = aws.client("cloudformation")
    failed = aws.pages("cloudformation", "list_stacks", "StackSummaries", StackStatusFilter=["DELETE_FAILED"])
    for row in failed:
        if row["StackName"] in owner.stacks:
            yield Leftover(
                "stack",
                row["StackName"],
                "DELETE_FAILED",
                0.0,
                partial(client.delete_stack, StackName=row["StackName"]),
            )


def load_balancers(aws: Aws, owner: Owner) -> Iterator[Leftover]:
    """Load balancers that a controller in the cluster made."""
    client, hourly = aws.client("elbv2"), service_prices(aws.region).network_load_balancer_hour
    for row in _tagged(aws, "describe_load_balancers", "LoadBalancers", "LoadBalancerArn"):
        if owner.owns(row["tags"], row["LoadBalancerName"]):
            arn = row["LoadBalancerArn"]
            delete = partial(client.delete_load_balancer, LoadBalancerArn=arn)
            yield Leftover("load balancer", arn, row["LoadBalancerName"], monthly(hourly), delete)


def target_groups(aws: Aws, owner: Owner) -> Iterator[Leftover]:
    """Their target groups."""
    client = aws.client("elbv2")
    for row in _tagged(aws, "describe_target_groups", "TargetGroups", "TargetGroupArn"):
        if owner.owns(row["tags"], row["TargetGroupName"]):
            arn = row["TargetGroupArn"]
            delete = partial(client.delete_target_group, TargetGroupArn=arn)
            yield Leftover("target group", arn, row["TargetGroupName"], 0.0, delete)


def _tagged(aws: Aws, operation: str, key: str, identifier: str) -> Iterator[dict[str, Any]]:
    rows = list(aws.pages("elbv2", operation, key))
    for start in range(0, len(rows), 20):  # as many as one call takes
        part = rows[start : start + 20]
        found = aws.client("elbv2").describe_tags(ResourceArns=[row[identifier] for row in part])
        tags = {each["ResourceArn"]: tags_of(each["Tags"]) for each in found["TagDescriptions"]}
        yield from ({**row, "tags": tags.get(row[identifier], {})} for row in part)


def _ec2(
    kind: str,
    operation: str,
    key: str,
    identifier: str,
    remove: str,
    usd: Callable[[Aws, dict[str, Any]], float | None] = lambda aws, row: 0.0,
    **given: Any,
) -> Kind:
    def find(aws: Aws, owner: Owner) -> Iterator[Leftover]:
        for row in aws.pages("ec2", operation, key, **given):
            tags = tags_of(row.get("Tags") or row.get("TagSet"))
            name = tags.get("Name") or row.get("GroupName") or row.get("LaunchTemplateName") or ""
            state = str(row.get("State", "")).lower()
            if state in _GONE or row.get("GroupName") == "default" or not owner.owns(tags, name):
                continue
            delete = partial(getattr(aws.client("ec2"), remove), **{identifier: row[identifier]})
            yield Leftover(kind, row[identifier], name, usd(aws, row), delete)

    return find


def _volume(aws: Aws, row: dict[str, Any]) -> float | None:
    by_gb = service_prices(aws.region).gp3_gb_month
    known = by_gb is not None and row.get("VolumeType") in ("gp3", None)
    return round(by_gb * row["Size"], 2) if known and by_gb is not None else None


def _snapshot(aws: Aws, row: dict[str, Any]) -> float | None:
    """At most: what it shares with an older snapshot of the same volume is billed once."""
    whole = row.get("FullSnapshotSizeInBytes")
    return _stored(service_prices(aws.region).snapshot_gb_month, whole or row["VolumeSize"] * 2**30)


def _stored(usd_per_gb: float | None, size: int) -> float | None:
    """A month of so many bytes."""
    return None if usd_per_gb is None else round(usd_per_gb * size / 2**30, 2)


def _reservation(aws: Aws, row: dict[str, Any]) -> float | None:
    return monthly(price(row["InstanceType"], aws.region), row["TotalInstanceCount"])


def log_groups(aws: Aws, owner: Owner) -> Iterator[Leftover]:
    """Logs of the control plane and of handlers."""
    client = aws.client("logs")
    for row in aws.pages("logs", "describe_log_groups", "logGroups"):
        name = row["logGroupName"]
        tags = client.list_tags_log_group(logGroupName=name).get("tags", {})
        if owner.owns(tags, name):
            usd = _stored(service_prices(aws.region).logs_gb_month, row.get("storedBytes", 0))
            yield Leftover("log group", name, name, usd, partial(client.delete_log_group, logGroupName=name))


def secrets(aws: Aws, owner: Owner) -> Iterator[Leftover]:
    """Secrets that carry the deployment's tag; the token you made yourself does not."""
    client = aws.client("secretsmanager")
    for row in aws.pages("secretsmanager", "list_secrets", "SecretList"):
        if owner.owns(tags_of(row.get("Tags"))):
            delete = partial(client.delete_secret, SecretId=row["ARN"], RecoveryWindowInDays=7)
            yield Leftover("secret", row["ARN"], row["Name"], service_prices(aws.region).secret_month, delete)


def kms_keys(aws: Aws, owner: Owner) -> Iterator[Leftover]:
    """Keys; one that waits for its deletion costs nothing and goes by itself."""
    client = aws.client("kms")
    for row in aws.pages("kms", "list_keys", "Keys"):
        about = client.describe_key(KeyId=row["KeyId"])["KeyMetadata"]
        if about.get("KeyManager") == "AWS":
            continue
        if not owner.owns(tags_of(client.list_resource_tags(KeyId=row["KeyId"]).get("Tags"))):
            continue
        if about["KeyState"] == "PendingDeletion":
            yield Leftover(
                "kms key", row["KeyId"], f"goes by itself on {about['DeletionDate']:%Y-%m-%d}", 0.0, None
            )
        else:
            delete = partial(client.schedule_key_deletion, KeyId=row["KeyId"], PendingWindowInDays=7)
            yield Leftover(
                "kms key", row["KeyId"], about["KeyState"], service_prices(aws.region).kms_key_month, delete
            )


def oidc_providers(aws: Aws, owner: Owner) -> Iterator[Leftover]:
    """OpenID Connect providers of clusters."""
    client = aws.client("iam")
    for row in client.list_open_id_connect_providers()["OpenIDConnectProviderList"]:
        arn = row["Arn"]
        about = client.get_open_id_connect_provider(OpenIDConnectProviderArn=arn)
        if owner.owns(tags_of(about.get("Tags"))):
            delete = partial(client.delete_open_id_connect_provider, OpenIDConnectProviderArn=arn)
            yield Leftover("oidc provider", arn, about.get("Url", ""), 0.0, delete)


# In the order in which they may be deleted: what uses others goes before them.
KINDS: dict[str, Kind] = {
    "stack": stacks,
    "load balancer": load_balancers,
    "target group": target_groups,
    "network interface": _ec2(
        "network interface",
        "describe_network_interfaces",
        "NetworkInterfaces",
        "NetworkInterfaceId",
        "delete_network_interface",
    ),
    "security group": _ec2(
        "security group", "describe_security_groups", "SecurityGroups", "GroupId", "delete_security_group"
    ),
    "volume": _ec2("volume", "describe_volumes", "Volumes", "VolumeId", "delete_volume", _volume),
    "snapshot": _ec2(
        "snapshot",
        "describe_snapshots",
        "Snapshots",
        "SnapshotId",
        "delete_snapshot",
        _snapshot,
        OwnerIds=["self"],
    ),
    "elastic ip": _ec2(
        "elastic ip",
        "describe_addresses",
        "Addresses",
        "AllocationId",
        "release_address",
        lambda aws, row: monthly(service_prices(aws.region).public_ipv4_hour),
    ),
    "log group": log_groups,
    "launch template": _ec2(
        "launch template",
        "describe_launch_templates",
        "LaunchTemplates",
        "LaunchTemplateId",
        "delete_launch_template",
    ),
    "capacity reservation": _ec2(
        "capacity reservation",
        "describe_capacity_reservations",
        "CapacityReservations",
        "CapacityReservationId",
        "cancel_capacity_reservation",
        _reservation,
    ),
    "secret": secrets,
    "kms key": kms_keys,
    "oidc provider": oidc_providers,
}
