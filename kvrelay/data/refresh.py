"""Rewrites the instance types and prices from what AWS's own APIs answer, in a stable order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from kvrelay.data.reading import load

INSTANCE_SOURCE = "EC2 DescribeInstanceTypes"
PRICE_SOURCE = "AWS Price List API, on demand, Linux, shared tenancy"
_LINUX_ON_DEMAND = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
}


def wanted_types() -> tuple[str, ...]:
    """The instance types that kvrelay keeps, as `wanted.yaml` lists them."""
    return tuple(
        f"{family}.{size}" for family, sizes in load("wanted.yaml")["types"].items() for size in sizes
    )


def describe(ec2: Any, names: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """DescribeInstanceTypes by name. A type that the region does not offer is left out."""
    pages = ec2.get_paginator("describe_instance_types").paginate(
        Filters=[{"Name": "instance-type", "Values": list(names)}]
    )
    return {entry["InstanceType"]: entry for page in pages for entry in page["InstanceTypes"]}


def entry(described: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of `instance_types/<family>.yaml` from DescribeInstanceTypes."""
    network = described["NetworkInfo"]
    result: dict[str, Any] = {
        "vcpus": described["VCpuInfo"]["DefaultVCpus"],
        "memory_mib": described["MemoryInfo"]["SizeInMiB"],
    }
    if gpus := described.get("GpuInfo", {}).get("Gpus"):
        (gpu,) = gpus
        result["gpu"] = {
            "kind": gpu["Name"],
            "count": gpu["Count"],
            "memory_mib": gpu["MemoryInfo"]["SizeInMiB"],
        }
    efa = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) if network.get("EfaSupported") else 0
    result["efa_interfaces"] = efa
    result["efa_rdma"] = _listed(described["InstanceType"], "efa_rdma") or "none"
    result["gpudirect_rdma"] = bool(_listed(described["InstanceType"], "gpudirect_rdma"))
    result["network_gbps"] = _network_gbps(network)
    result["network_cards"] = list(_card_groups(network, efa))
    result["ipv4_per_interface"] = network["Ipv4AddressesPerInterface"]
    if disks := described.get("InstanceStorageInfo", {}).get("Disks"):
        (disk,) = disks
        result["nvme"] = {"count": disk["Count"], "size_gb": disk["SizeInGB"]}
    return result


def _listed(name: str, field: str) -> Any:
    """What `wanted.yaml` says of the type, or of its family, where the API is silent."""
    listed = load("wanted.yaml")[field]
    return listed.get(name, listed.get(name.partition(".")[0]))


def _network_gbps(network: Mapping[str, Any]) -> float:
    """`4x 100 Gigabit` is 400; for `Up to 10 Gigabit` the baseline counts, which is what lasts.

    The cards' own figures are no substitute: on p6-b200 they count IP traffic only, half of what EFA reaches.
    """
    stated = re.fullmatch(r"(?:(\d+)x )?([\d.]+) Gigabit", network["NetworkPerformance"].strip())
    if stated:
        return float(stated[2]) * int(stated[1] or 1)
    return float(sum(card["BaselineBandwidthInGbps"] for card in network["NetworkCards"]))


def _card_groups(network: Mapping[str, Any], efa: int) -> Iterator[dict[str, Any]]:
    """Neighbouring cards that are alike become one line, so that 32 of them stay readable."""
    described = sorted(network["NetworkCards"], key=lambda card: card["NetworkCardIndex"])
    cards = [
        {
            "max_interfaces": card["MaximumNetworkInterfaces"],
            "gbps": card["BaselineBandwidthInGbps"],
            "efa": "efa" in card["InterfaceTypes"] if "InterfaceTypes" in card else efa > 0,
        }
        for card in described
    ]
    for card, alike in groupby(cards):
        yield {"count": len(list(alike)), **card}


def write_instance_types(described: Mapping[str, Mapping[str, Any]], folder: Path, date: str) -> list[Path]:
    """Writes one file a family into `folder`, types in the order of `wanted.yaml`; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for family, sizes in load("wanted.yaml")["types"].items():
        types = {name: entry(described[name]) for size in sizes if (name := f"{family}.{size}") in described}
        if types:
            path = folder / f"{family}.yaml"
            path.write_text(_text({"source": INSTANCE_SOURCE, "date": date, "types": types}))
            written.append(path)
    return written


def on_demand_price(pricing: Any, region: str, name: str) -> float | None:
    """USD an hour of one instance type, or None where the price list has none."""
    filters = {"regionCode": region, "instanceType": name, **_LINUX_ON_DEMAND}
    answer = pricing.get_products(
        ServiceCode="AmazonEC2",
        Filters=[{"Type": "TERM_MATCH", "Field": field, "Value": value} for field, value in filters.items()],
    )
    prices = {
        float(dimension["pricePerUnit"]["USD"])
        for product in map(json.loads, answer["PriceList"])
        for term in product.get("terms", {}).get("OnDemand", {}).values()
        for dimension in term["priceDimensions"].values()
        if dimension["unit"] == "Hrs"
    } - {0.0}
    return min(prices, default=None)


def write_prices(region: str, found: Mapping[str, float], folder: Path, date: str) -> Path:
    """Writes the region's instance prices; its other prices stay as they are."""
    path = folder / f"{region}.yaml"
    kept = yaml.safe_load(path.read_text()) if path.exists() else {}
    prices = {name: found[name] for name in wanted_types() if name in found}
    path.write_text(
        _text(
            {
                "instances": {"source": PRICE_SOURCE, "date": date, "usd_per_hour": prices},
                **{key: value for key, value in kept.items() if key != "instances"},
            }
        )
    )
    return path


class _Dumper(yaml.SafeDumper):
    """Innermost mappings on one line, everything else in blocks: diffs stay one line a change."""

    def represent_mapping(self, tag: str, mapping: Any, flow_style: bool | None = None) -> yaml.MappingNode:
        innermost = not any(isinstance(value, dict | list) for value in mapping.values())
        short = innermost and 0 < len(mapping) <= 4 and all(isinstance(key, str) for key in mapping)
        return super().represent_mapping(tag, mapping, flow_style=short)


def _text(content: Mapping[str, Any]) -> str:
    note = "# `kvrelay data refresh` rewrites this file from AWS's API.\n"
    return note + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=110, allow_unicode=True)
