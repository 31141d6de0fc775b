"""Stand-ins for EKS's add-ons, so that what is left for our pods is what a real node has left."""

from __future__ import annotations

from importlib.resources import files

import yaml

from kvrelay.local.kubernetes.api import Object

_NAMESPACE = "kube-system"


def add_on_objects() -> list[Object]:
    """The workloads of the add-ons that the Cluster stack installs, with the requests that EKS gives them."""
    text = files("kvrelay.local.kubernetes").joinpath("add_ons.yaml").read_text()
    return [_workload(entry) for entry in yaml.safe_load(text)["add_ons"]]


def _workload(entry: Object) -> Object:
    labels = {"k8s-app": entry["name"]}
    pod: Object = {
        "containers": [
            {"name": name, "image": f"eks/{name}:simulated", "resources": {"requests": requests}}
            for name, requests in entry["containers"].items()
        ],
        "priorityClassName": "system-node-critical" if entry.get("everywhere") else "system-cluster-critical",
        # What EKS's own manifests say: node add-ons run on every node, the others on any untainted one.
        "tolerations": [{"operator": "Exists"}] if entry.get("everywhere") else [],
    }
    spec: Object = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    if entry["kind"] == "Deployment":
        spec["replicas"] = entry["replicas"]
    return {
        "apiVersion": "apps/v1",
        "kind": entry["kind"],
        "metadata": {"name": entry["name"], "namespace": _NAMESPACE, "labels": labels},
        "spec": spec,
    }
