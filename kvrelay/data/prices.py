"""Prices, USD, on demand, with where and when they were read. Where no price is known, None is returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kvrelay.data.reading import load, names

HOURS_PER_MONTH = 730
"""What AWS's own calculator takes."""


@dataclass(frozen=True, slots=True)
class ServicePrices:
    """What a region asks for everything beside instances; None where not known."""

    eks_cluster_hour: float | None
    eks_extended_support_hour: float | None
    """A cluster whose Kubernetes version has left standard support, all in."""
    nat_gateway_hour: float | None
    nat_gateway_gb: float | None
    interface_endpoint_hour: float | None
    """Of one endpoint in one zone."""
    interface_endpoint_gb: float | None
    public_ipv4_hour: float | None
    network_load_balancer_hour: float | None
    gp3_gb_month: float | None
    snapshot_gb_month: float | None
    """Of the standard tier."""
    kms_key_month: float | None
    secret_month: float | None
    logs_gb: float | None
    """Taken in, once."""
    logs_gb_month: float | None
    """Kept."""
    cross_zone_gb: float | None
    """In each direction."""


def price(instance_type: str, region: str) -> float | None:
    """USD an hour for a running Linux instance on demand; None where no price is known."""
    usd: float | None = _instances(region).get(instance_type)
    return usd


def price_date(region: str) -> str | None:
    """When the region's instance prices were read; None for an unknown region."""
    if region not in names("prices"):
        return None
    return str(load(f"prices/{region}.yaml")["instances"]["date"])


def service_prices(region: str) -> ServicePrices:
    """The region's other prices. A region without a file has those that are the same everywhere."""
    everywhere: Mapping[str, float] = load("service_prices.yaml")["everywhere"]
    here: Mapping[str, float] = load("service_prices.yaml")["regions"].get(region, {})
    return ServicePrices(**{name: here.get(name, everywhere.get(name)) for name in ServicePrices.__slots__})


def priced_regions() -> tuple[str, ...]:
    """The regions whose instance prices are known."""
    return names("prices")


def _instances(region: str) -> Mapping[str, float]:
    if region not in names("prices"):
        return {}
    prices: Mapping[str, float] = load(f"prices/{region}.yaml")["instances"]["usd_per_hour"]
    return prices
