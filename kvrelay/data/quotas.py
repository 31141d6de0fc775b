"""Service quotas that a deployment counts against, with the codes that Service Quotas knows them by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from kvrelay.data.instances import InstanceType
from kvrelay.data.reading import load

Purchase = Literal["on-demand", "spot"]


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota. `default` is what a new account has; requests raise it."""

    key: str
    service: str
    code: str
    name: str
    unit: str
    default: int


@cache
def quotas() -> Mapping[str, Quota]:
    """Every quota by its key, such as `g-and-vt-on-demand`, `vpcs`, `eks-clusters`."""
    return {key: Quota(key=key, **entry) for key, entry in load("quotas.yaml").items()}


def vcpu_quota(instance_type: InstanceType, purchase: Purchase = "on-demand") -> Quota:
    """The vCPU quota that running the type counts against."""
    return quotas()[f"{instance_type.quota_family}-{purchase}"]
