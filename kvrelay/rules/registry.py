"""Every rule there is, by plain listing."""

from __future__ import annotations

from typing import Any

from kvrelay.rules import (
    acknowledged_rules,
    application,
    efa_pods,
    engine,
    likeness,
    network,
    nodes,
    ray_cluster,
    ray_service,
    security,
    transfer,
    upgrade,
)
from kvrelay.rules.rule import Rule

FAMILIES = {
    "KV": "Transfer of the KV cache",
    "EN": "Engines and their Serve config",
    "RS": "Ray on Kubernetes",
    "EF": "EFA, GPUs and nodes",
    "NW": "Network",
    "SC": "Security",
    "UP": "Upgrade and deletion",
    "AK": "Acknowledgements",
}

RULES: tuple[Rule[Any], ...] = (
    *transfer.RULES,
    *likeness.RULES,
    *engine.RULES,
    *application.RULES,
    *ray_cluster.RULES,
    *ray_service.RULES,
    *nodes.RULES,
    *efa_pods.RULES,
    *network.RULES,
    *security.RULES,
    *upgrade.RULES,
    *acknowledged_rules.RULES,
)

NUMBERS = frozenset(rule.number for rule in RULES)
