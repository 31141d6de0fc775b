"""What a change of one Kubernetes object means."""

from __future__ import annotations

import json
from typing import Any

from kvrelay.change.effect import Effect
from kvrelay.change.objects import object_changes
from kvrelay.change.resources import KUBERNETES, Resources


def _resources(*objects: dict[str, Any]) -> Resources:
    return {"Manifest": {"Type": KUBERNETES, "Properties": {"Manifest": json.dumps(objects)}}}


def test_a_changed_file_in_pods_is_said_to_wait_for_a_restart() -> None:
    def holding(text: str) -> Resources:
        metadata = {"name": "kvrelay-ingress", "namespace": "inference"}
        return _resources({"kind": "ConfigMap", "metadata": metadata, "data": {"ingress.py": text}})

    (change,) = object_changes("Serving", holding("old"), holding("new"))
    assert change.effect is Effect.IN_PLACE
    assert "until it restarts" in str(change)
