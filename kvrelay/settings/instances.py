"""Instance types as settings name them: a wrong one is a fault in the file."""

from __future__ import annotations

from kvrelay.data import InstanceType, instance_type, instance_types
from kvrelay.data.unknown import UnknownNameError


def known_instance_type(name: str) -> InstanceType:
    """The type of that name. Raises ValueError, worded to follow the value found, when there is none."""
    try:
        return instance_type(name)
    except UnknownNameError as error:
        raise ValueError(str(error).partition(f"{name!r} ")[2]) from None


def smallest_with_efa(kind: InstanceType) -> str:
    """Which size of the type's own family to use instead."""
    family = [each for each in instance_types() if each.family == kind.family and each.efa]
    if not family:
        return "use a GPU type with EFA such as g6.8xlarge"
    smallest = min(family, key=lambda each: (each.vcpus, each.name))
    return f"the smallest of its family with EFA is {smallest.name}"
