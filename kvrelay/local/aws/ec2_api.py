"""The EC2 operations that moto lacks: placement groups and capacity reservations."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from kvrelay.local.aws.account import ACCOUNT_ID, PARTITION, Account
from kvrelay.local.aws.errors import AwsError

Values = dict[str, Any]
_ALIVE = ("active", "pending", "scheduled")


class Ec2Api:
    """The operations, in one region."""

    def __init__(self, account: Account, region: str) -> None:
        self._account = account
        self._region = region
        self._groups = account.placement_groups.setdefault(region, {})
        self._reservations = account.capacity_reservations.setdefault(region, {})
        self._tokens = account.reservation_tokens.setdefault(region, {})

    def operation(self, name: str) -> Callable[[Values], Values] | None:
        """The method for an operation's name; None for those that moto answers."""
        return {
            "CreatePlacementGroup": self.create_placement_group,
            "DeletePlacementGroup": self.delete_placement_group,
            "DescribePlacementGroups": self.describe_placement_groups,
            "CreateCapacityReservation": self.create_capacity_reservation,
            "CancelCapacityReservation": self.cancel_capacity_reservation,
            "DescribeCapacityReservations": self.describe_capacity_reservations,
            "ModifyCapacityReservation": self.modify_capacity_reservation,
        }.get(name)

    def create_placement_group(self, given: Values) -> Values:
        """A group of instances placed together or apart."""
        name = given["GroupName"]
        if name in self._groups:
            raise AwsError("InvalidPlacementGroup.Duplicate", f"The placement group '{name}' already exists.")
        identifier = f"pg-{secrets.token_hex(8)}1"
        self._groups[name] = {
            "GroupName": name,
            "GroupId": identifier,
            "GroupArn": f"arn:{PARTITION}:ec2:{self._region}:{ACCOUNT_ID}:placement-group/{name}",
            "State": "available",
            "Strategy": given.get("Strategy", "cluster"),
            "Tags": _tags(given, "placement-group"),
            **{key: given[key] for key in ("PartitionCount", "SpreadLevel") if key in given},
        }
        return {"PlacementGroup": self._groups[name]}

    def delete_placement_group(self, given: Values) -> Values:
        """Removes a group that no running instance is in."""
        name = given["GroupName"]
        if name not in self._groups:
            raise AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        del self._groups[name]
        return {}

    def describe_placement_groups(self, given: Values) -> Values:
        """Groups, all or by name or id."""
        rows = list(self._groups.values())
        names, ids = given.get("GroupNames"), given.get("GroupIds")
        for name in names or ():
            if name not in self._groups:
                raise AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown.")
        rows = [
            r for r in rows if (not names or r["GroupName"] in names) and (not ids or r["GroupId"] in ids)
        ]
        return {"PlacementGroups": rows}

    def create_capacity_reservation(self, given: Values) -> Values:
        """Instances held ready; the same client token gives the same reservation."""
        token = given.get("ClientToken")
        if token and token in self._tokens:
            return {"CapacityReservation": self._reservations[self._tokens[token]]}
        if message := self._account.faults.strike("AWS::EC2::CapacityReservation", "CREATE"):
            raise AwsError("InsufficientInstanceCapacity", message)
        ends = given.get("EndDate")
        if (given.get("EndDateType") == "limited") != (ends is not None):
            raise AwsError("InvalidParameterCombination", "EndDate and EndDateType limited go together")
        identifier, now = f"cr-{secrets.token_hex(8)}1", datetime.now(UTC)
        self._reservations[identifier] = {
            "CapacityReservationId": identifier,
            "OwnerId": ACCOUNT_ID,
            "CapacityReservationArn": f"arn:{PARTITION}:ec2:{self._region}:{ACCOUNT_ID}:capacity-reservation/"
            f"{identifier}",
            "InstanceType": given["InstanceType"],
            "InstancePlatform": given["InstancePlatform"],
            "AvailabilityZone": given.get("AvailabilityZone", f"{self._region}a"),
            "Tenancy": given.get("Tenancy", "default"),
            "TotalInstanceCount": given["InstanceCount"],
            "AvailableInstanceCount": given["InstanceCount"],
            "State": "active",
            "StartDate": now,
            "CreateDate": now,
            "EndDateType": given.get("EndDateType", "unlimited"),
            **({"EndDate": ends} if ends else {}),
            "InstanceMatchCriteria": given.get("InstanceMatchCriteria", "open"),
            "ReservationType": "default",
            "Tags": _tags(given, "capacity-reservation"),
        }
        if token:
            self._tokens[token] = identifier
        return {"CapacityReservation": self._reservations[identifier]}

    def _reservation(self, given: Values) -> dict[str, Any]:
        found = self._reservations.get(given["CapacityReservationId"])
        if found is None:
            raise AwsError(
                "InvalidCapacityReservationId.NotFound",
                f"The capacity reservation ID '{given['CapacityReservationId']}' does not exist",
            )
        return found

    def cancel_capacity_reservation(self, given: Values) -> Values:
        """Ends a reservation; it stays visible as cancelled."""
        found = self._reservation(given)
        found |= {"State": "cancelled", "AvailableInstanceCount": 0}
        return {"Return": True}

    def modify_capacity_reservation(self, given: Values) -> Values:
        """Changes how many instances are held."""
        found = self._reservation(given)
        if given.get("InstanceCount"):
            found |= {
                "TotalInstanceCount": given["InstanceCount"],
                "AvailableInstanceCount": given["InstanceCount"],
            }
        return {"Return": True}

    def describe_capacity_reservations(self, given: Values) -> Values:
        """Reservations, all or by id, with the filters that are asked most."""
        ids = given.get("CapacityReservationIds")
        for identifier in ids or ():
            self._reservation({"CapacityReservationId": identifier})
        names = {"instance-type": "InstanceType", "state": "State", "availability-zone": "AvailabilityZone"}
        rows = [r for r in self._reservations.values() if not ids or r["CapacityReservationId"] in ids]
        for wanted in given.get("Filters") or ():
            if wanted["Name"].startswith("tag"):
                rows = [row for row in rows if _tagged(row, wanted)]
                continue
            key = names.get(wanted["Name"])
            if key is None:
                raise AwsError("InvalidParameterValue", f"The filter '{wanted['Name']}' is not emulated")
            rows = [row for row in rows if row[key] in wanted["Values"]]
        return {"CapacityReservations": rows}


def _tags(given: Values, kind: str) -> list[dict[str, str]]:
    rows = given.get("TagSpecifications") or ()
    return [tag for row in rows if row.get("ResourceType") == kind for tag in row.get("Tags", ())]


def _tagged(row: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a filter by `tag:KEY` or `tag-key` lets the row pass."""
    key = wanted["Name"].partition(":")[2]
    return any(
        tag["Value"] in wanted["Values"]
        if key and tag["Key"] == key
        else not key and tag["Key"] in wanted["Values"]
        for tag in row["Tags"]
    )


def is_alive(reservation: dict[str, Any]) -> bool:
    """Whether a reservation still holds instances."""
    return reservation["State"] in _ALIVE
