"""Which instance types a region offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kvrelay.data.reading import load


def offered(instance_type: str, region: str) -> bool | None:
    """Whether the region offered the type when the data was read; None for a region or type not in the data.

    A "no" may be out of date: tell it as a warning, `kvrelay preflight` asks AWS.
    """
    regions: Mapping[str, Mapping[str, Sequence[str]]] = load("regions.yaml")["regions"]
    family, _, size = instance_type.partition(".")
    if region not in regions or size not in load("wanted.yaml")["types"].get(family, ()):
        return None
    return size in regions[region].get(family, ())


def regions_offering(instance_type: str) -> tuple[str, ...]:
    """The regions that offered the type, in alphabetical order."""
    return tuple(region for region in known_regions() if offered(instance_type, region))


def known_regions() -> tuple[str, ...]:
    """The regions whose offerings are known."""
    return tuple(sorted(load("regions.yaml")["regions"]))
