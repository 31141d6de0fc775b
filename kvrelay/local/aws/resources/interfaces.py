"""Network interfaces in use: what keeps subnets, security groups and VPCs from going."""

from typing import Any


def interfaces(client: Any, name: str, value: str) -> list[dict[str, Any]]:
    """Network interfaces by a filter, those of terminated instances left out."""
    found = client.describe_network_interfaces(Filters=[{"Name": name, "Values": [value]}])[
        "NetworkInterfaces"
    ]
    gone = _terminated(client, {i["Attachment"]["InstanceId"] for i in found if _instance(i)})
    return [i for i in found if _instance(i) not in gone or not _instance(i)]


def _instance(interface: dict[str, Any]) -> str:
    return str((interface.get("Attachment") or {}).get("InstanceId") or "")


def _terminated(client: Any, ids: set[str]) -> set[str]:
    if not ids:
        return set()
    reservations = client.describe_instances(Filters=[{"Name": "instance-id", "Values": sorted(ids)}])[
        "Reservations"
    ]
    alive = {
        i["InstanceId"]
        for r in reservations
        for i in r["Instances"]
        if i["State"]["Name"] not in ("terminated", "shutting-down")
    }
    return ids - alive
