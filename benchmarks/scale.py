"""Deploys for 1, 16, 64 and 256 simulated GPU nodes, each in a real Kubernetes under the real KubeRay operator.

    python benchmarks/scale.py [--nodes 1,16,64,256] [--json FILE]

Bound: seconds from the first object of the product until every pod on every node runs; of these, "Ray" from the
RayService on. Memory is resident, at the end. Kubelet is the simulated one, for all nodes together, in this process.
Synth is a whole warm `cdk synth` of the same deployment, and the bytes of its templates.
Needs `make tools`, and Linux with root for the operator.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from kvrelay.local.kubernetes import LocalCluster, apply_all, nodes_of, wait_for
from kvrelay.local.kubernetes.add_ons import add_on_objects
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.processes import memory_mib
from kvrelay.local.kubernetes.programs import OPERATOR, kuberay_operator
from kvrelay.serve_app import load_serve_app
from kvrelay.settings import read_deployment

REPOSITORY = Path(__file__).parents[1]
PREFILL_DECODE, PLAIN = "qwen3-8b.yaml", "qwen3.5-9b-plain.yaml"
PATIENCE_SECONDS = 1800


@dataclass(frozen=True)
class Figures:
    """What one size came to; seconds, MiB, bytes."""

    nodes: int
    pods: int
    bound_s: float
    ray_s: float
    memory_mib: dict[str, int]
    synth_s: float
    template_bytes: dict[str, int]


def main() -> None:
    """Prints one row for each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", default="1,16,64,256", help="GPU nodes of each run")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    arguments = parser.parse_args()
    found = []
    for count in map(int, arguments.nodes.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            found.append(measure(count, Path(folder)))
        Console().print(table(found))
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")


def measure(count: int, folder: Path) -> Figures:
    """Deploys for `count` GPU nodes, each of them taken by one replica."""
    path = write_deployment(count, folder)
    synth_s, templates = synth(path, folder)
    # The second is the first with jsii's packages unpacked.
    synth_s, templates = synth(path, folder)
    source = read_deployment(path)
    from kvrelay_k8s import charts

    sets = charts(source.deployment, load_serve_app(source.serve_config_path))
    objects = [item for each in sets for item in each.objects]
    (service,) = [item for item in objects if item["kind"] == "RayService"]
    with LocalCluster(
        folder / "cluster", nodes=nodes_of(source.deployment), programs=[kuberay_operator()]
    ) as cluster:
        apply_all(cluster.api, add_on_objects())
        began = time.monotonic()
        apply_all(cluster.api, [item for item in objects if item is not service])
        wait_for("the operator", lambda: running(cluster, "kuberay-system") == 1, 300)
        asked = time.monotonic()
        cluster.api.apply(service)
        namespace = service["metadata"]["namespace"]
        wait_for("all of Ray", lambda: running(cluster, namespace) == count + 1, PATIENCE_SECONDS, 0.5)
        wait_for("all pods", lambda: waiting(cluster) == 0, PATIENCE_SECONDS, 0.5)
        ended = time.monotonic()
        pods = len(cluster.api.list("v1", "Pod"))
        memory = memory_of(cluster)
    return Figures(count, pods, ended - began, ended - asked, memory, synth_s, templates)


def write_deployment(count: int, folder: Path) -> Path:
    """A deployment of `count` reference GPU nodes with half as many prefill as decode replicas; one alone is plain."""
    config: Any = yaml.safe_load(
        (REPOSITORY / "serve_configs" / (PREFILL_DECODE if count > 1 else PLAIN)).read_text()
    )
    args = config["applications"][0]["args"]
    if count > 1:
        prefill = max(1, count // 3)
        for name, replicas in (("prefill_config", prefill), ("decode_config", count - prefill)):
            engine = args[name]
            args[name] = engine | {
                "deployment_config": engine["deployment_config"] | {"num_replicas": replicas}
            }
    else:
        args["llm_configs"][0]["deployment_config"]["num_replicas"] = 1
    (folder / "serve.yaml").write_text(yaml.safe_dump(config))
    groups = [{"count": count}]
    settings = {"serving": {"serve_config": "serve.yaml"}, "gpu_nodes": {"groups": groups}}
    path = folder / "deployment.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def synth(deployment: Path, folder: Path) -> tuple[float, dict[str, int]]:
    """Wall seconds of one `cdk synth`, and the bytes of each template."""
    output = folder / "cdk.out"
    environment = {
        **os.environ,
        "PATH": f"{REPOSITORY}/.venv/bin:{os.environ['PATH']}",
        "CDK_VALIDATION": "false",
    }
    command = [str(REPOSITORY / "node_modules/.bin/cdk"), "synth", "--quiet", "--no-notices"]
    command += ["--output", str(output), "-c", f"deployment={deployment}"]
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=REPOSITORY, env=environment, check=False, capture_output=True, text=True
    )
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(f"cdk synth: {done.stderr.strip()}")
    return seconds, {
        path.name.removesuffix(".template.json"): path.stat().st_size
        for path in sorted(output.glob("*.template.json"))
    }


def running(cluster: LocalCluster, namespace: str) -> int:
    """Ready pods of a namespace."""
    return sum(is_ready(pod) for pod in cluster.api.list("v1", "Pod", namespace))


def waiting(cluster: LocalCluster) -> int:
    """Pods of the whole cluster that are not ready."""
    return sum(not is_ready(pod) for pod in cluster.api.list("v1", "Pod"))


def is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def memory_of(cluster: LocalCluster) -> dict[str, int]:
    """Resident MiB of each part."""
    parts = cluster.plane.memory_mib()
    for _, operator in cluster.kubelet.programs.running(OPERATOR):
        parts[OPERATOR] = operator.memory_mib()
    parts["kubelet"] = memory_mib(os.getpid())
    return {name: round(mib) for name, mib in parts.items()}


def table(found: list[Figures]) -> Table:
    """One row a size."""
    parts = list(found[0].memory_mib)
    shown = Table(
        "GPU nodes", "pods", "bound s", "Ray s", *(f"{part} MiB" for part in parts), "synth s", "templates kB"
    )
    for each in found:
        shown.add_row(
            str(each.nodes),
            str(each.pods),
            f"{each.bound_s:.1f}",
            f"{each.ray_s:.1f}",
            *(str(each.memory_mib[part]) for part in parts),
            f"{each.synth_s:.1f}",
            ", ".join(str(round(size / 1000)) for size in each.template_bytes.values()),
        )
    return shown


if __name__ == "__main__":
    main()
