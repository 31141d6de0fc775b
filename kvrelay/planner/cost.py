"""USD an hour of a deployment, by part; a part whose price is not known is named, not guessed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kvrelay.data import HOURS_PER_MONTH, price, price_date, service_prices


@dataclass(frozen=True, slots=True)
class Nodes:
    """A group of nodes of one type."""

    label: str
    instance_type: str
    count: int
    root_volume_gib: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a deployment runs, as far as it costs by the hour."""

    region: str
    zones: int
    nodes: tuple[Nodes, ...]
    nat_gateways: int
    interface_endpoints: int
    """Services reached privately; each costs in every zone."""
    encryption_keys: int = 1


@dataclass(frozen=True, slots=True)
class Part:
    """One line of the bill. `usd_per_hour` is None where no price is known."""

    name: str
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class Cost:
    """The bill by the hour, without what is paid by use (traffic, logs)."""

    parts: tuple[Part, ...]
    date: str | None
    """When the region's instance prices were read."""

    @property
    def usd_per_hour(self) -> float | None:
        """The sum; None when a node's price is missing from it."""
        if any(part.usd_per_hour is None for part in self.parts if part.name.startswith("nodes")):
            return None
        return sum(part.usd_per_hour or 0.0 for part in self.parts)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parts without a price."""
        return tuple(part.name for part in self.parts if part.usd_per_hour is None)


def cost(footprint: Footprint) -> Cost:
    """The bill of a footprint at on-demand prices."""
    return Cost(tuple(_parts(footprint)), price_date(footprint.region))


def _parts(footprint: Footprint) -> Iterator[Part]:
    region, services = footprint.region, service_prices(footprint.region)
    for group in footprint.nodes:
        each = price(group.instance_type, region)
        name = f"nodes, {group.label}: {group.count} x {group.instance_type}"
        yield Part(name, None if each is None else each * group.count)
    yield Part("EKS control plane", services.eks_cluster_hour)
    yield Part(
        f"NAT gateways: {footprint.nat_gateways}", _times(services.nat_gateway_hour, footprint.nat_gateways)
    )
    yield Part(
        f"public IPv4 addresses: {footprint.nat_gateways}",
        _times(services.public_ipv4_hour, footprint.nat_gateways),
    )
    if footprint.interface_endpoints:
        count = footprint.interface_endpoints * footprint.zones
        yield Part(
            f"interface endpoints: {footprint.interface_endpoints} in {footprint.zones} zones",
            _times(services.interface_endpoint_hour, count),
        )
    volumes = sum(group.count * group.root_volume_gib for group in footprint.nodes)
    yield Part(f"root volumes: {volumes} GiB", _times(services.gp3_gb_month, volumes / HOURS_PER_MONTH))
    yield Part(
        f"encryption keys: {footprint.encryption_keys}",
        _times(services.kms_key_month, footprint.encryption_keys / HOURS_PER_MONTH),
    )


def _times(each: float | None, count: float) -> float | None:
    return None if each is None else each * count
