"""Draws docs/architecture.svg from the synthesized app: what it holds is read from the templates and charts.

python docs/architecture.py
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "constructs")]

from app import build, new_app  # noqa: E402
from kvrelay.serve_app import load_serve_app  # noqa: E402
from kvrelay.serve_app.worker_groups import worker_groups  # noqa: E402
from kvrelay.settings import read_deployment  # noqa: E402
from kvrelay_k8s import charts  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.axes import Axes

STACK_COLOURS = {"Network": "#e8f0fa", "Cluster": "#eaf5ea", "Serving": "#fdf1e0"}
INK, LINE, KV = "#1d2733", "#7b8794", "#c2410c"


@dataclass(frozen=True)
class Facts:
    """What the picture says, all of it read from the app."""

    templates: dict[str, dict[str, Any]]
    charts: tuple[str, ...]
    deployment: Any
    app: Any

    def count(self, stack: str, kind: str) -> int:
        """Resources of one type in a stack's template."""
        return Counter(each["Type"] for each in self.templates[stack]["Resources"].values())[kind]

    def resources(self, stack: str) -> int:
        """All resources of a stack."""
        return len(self.templates[stack]["Resources"])


def facts(output: Path) -> Facts:
    """Synthesizes the reference deployment."""
    source = read_deployment(ROOT / "deployment.yaml")
    app = new_app(outdir=str(output))
    build(app, source)
    stacks = app.synth().stacks
    serve_app = load_serve_app(source.serve_config_path)
    return Facts(
        {stack.id.rpartition("-")[2]: stack.template for stack in stacks},
        tuple(each.name for each in charts(source.deployment, serve_app)),
        source.deployment,
        serve_app,
    )


def draw(found: Facts) -> str:
    """The picture as SVG; the same app gives the same bytes."""
    import matplotlib as mpl

    mpl.use("svg")
    # Nothing that was drawn before in this process has a say.
    settings = {**mpl.rcParamsDefault, "svg.hashsalt": "kvrelay", "svg.fonttype": "none"}
    with mpl.rc_context(settings):
        return _draw(found)


def _draw(found: Facts) -> str:
    from matplotlib import pyplot

    figure = pyplot.figure(figsize=(11, 6.6))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, 110), ylim=(0, 66))
    axes.axis("off")
    _network(axes, found)
    _cluster(axes, found)
    _serving(axes, found)
    _requests(axes, found)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "docs/architecture.py"})
    pyplot.close(figure)
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _network(axes: Axes, found: Facts) -> None:
    deployment = found.deployment
    _box(axes, 1, 1, 108, 57, STACK_COLOURS["Network"])
    nat = found.count("Network", "AWS::EC2::NatGateway")
    _title(axes, 2.5, 55.6, f"Network stack · {found.resources('Network')} resources")
    _text(
        axes,
        67.5,
        55.6,
        f"VPC {deployment.network.cidr} in {deployment.region} · {nat} NAT gateway{'s' if nat > 1 else ''}"
        f" · {found.count('Network', 'AWS::EC2::VPCEndpoint')} VPC endpoint",
    )


def _cluster(axes: Axes, found: Facts) -> None:
    deployment = found.deployment
    _box(axes, 3, 3, 77, 50, STACK_COLOURS["Cluster"])
    _title(axes, 4.5, 50.6, f"Cluster stack · {found.resources('Cluster')} resources")
    _text(
        axes,
        62.5,
        50.6,
        f"EKS {deployment.cluster.kubernetes_version} · {found.count('Cluster', 'AWS::EKS::Addon')} add-ons · "
        f"{found.count('Cluster', 'AWS::EKS::Nodegroup')} node groups",
        align="right",
    )
    _box(axes, 5, 36, 73, 12.4, "white")
    system = deployment.system_nodes
    _text(axes, 6.5, 46, f"system nodes · {system.count} x {system.instance_type}", bold=True)
    _pod(axes, 8, 37.5, 22, "KubeRay operator", "RayCluster, RayService")
    _pod(axes, 33, 37.5, 22, "Ray head", "Serve controller, no GPU")

    _box(axes, 5, 5, 73, 27, "white", dashed=True)
    _text(axes, 6.5, 29.6, f"GPU nodes · one zone, {deployment.gpu_nodes.zone} · private subnet", bold=True)
    left = 8.0
    for worker in worker_groups(found.app, deployment):
        instance = worker.instance
        _box(axes, left, 7, 26, 20, "#f7f7f7")
        _text(axes, left + 1.3, 24.6, f"{worker.pods} pod · {instance.name}")
        _pod(
            axes,
            left + 2,
            13.5,
            22,
            worker.engine.name,
            f"vLLM, {worker.gpus} x {instance.gpu.kind}" if instance.gpu else "vLLM",
            strong=True,
        )
        _text(axes, left + 13, 10.2, f"{worker.efa_interfaces} EFA interface · NVMe cache", align="center")
        left += 41


def _serving(axes: Axes, found: Facts) -> None:
    _box(axes, 82, 3, 25, 50, STACK_COLOURS["Serving"])
    _title(axes, 83.5, 50.6, f"Serving stack · {len(found.charts)} charts")
    _text(axes, 83.5, 47.4, "applied in this order,")
    _text(axes, 83.5, 45.2, "removed in the reverse:")
    for index, name in enumerate(found.charts):
        top = 42.6 - index * 4.2
        _box(axes, 83.5, top - 2.9, 22, 3.3, "white")
        _text(axes, 94.5, top - 1.3, name, align="center")


def _requests(axes: Axes, found: Facts) -> None:
    _box(axes, 36, 60, 38, 4.6, "white")
    _text(axes, 55, 62.3, f"OpenAI client · POST /v1/chat/completions · {found.app.model_id}", align="center")
    port = found.app.http.port
    _arrow(axes, (66, 60), (66, 22.8), INK)
    _text(axes, 62.8, 34, f"port {port}, Serve's proxy", align="right")
    _arrow(axes, (51, 21), (32, 21), INK)
    _text(axes, 41.5, 22.2, "prompt", align="center")
    _arrow(axes, (32, 16), (51, 16), KV, width=3)
    _text(axes, 41.5, 17.6, "KV cache", align="center", colour=KV, bold=True)
    _text(axes, 41.5, 13.2, "EFA · NIXL", align="center", colour=KV)


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, colour: str, *, dashed: bool = False
) -> None:
    from matplotlib.patches import FancyBboxPatch

    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.8",
            facecolor=colour,
            edgecolor=LINE,
            linewidth=0.9,
            linestyle="--" if dashed else "-",
        )
    )


def _pod(
    axes: Axes, x: float, y: float, width: float, name: str, detail: str, *, strong: bool = False
) -> None:
    _box(axes, x, y, width, 7.2 if not strong else 9.2, "#fff7ed" if strong else "#f7f7f7")
    top = y + (4.9 if not strong else 6.2)
    _text(axes, x + width / 2, top, name, align="center", bold=True)
    _text(axes, x + width / 2, top - 2.8, detail, align="center")


def _arrow(
    axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str, width: float = 1.4
) -> None:
    axes.annotate(
        "",
        end,
        start,
        arrowprops={"arrowstyle": "-|>", "color": colour, "lw": width, "shrinkA": 0, "shrinkB": 0},
    )


def _title(axes: Axes, x: float, y: float, text: str) -> None:
    axes.text(x, y, text, fontsize=10.5, fontweight="bold", color=INK, va="center")


def _text(
    axes: Axes,
    x: float,
    y: float,
    text: str,
    *,
    align: str = "left",
    bold: bool = False,
    small: bool = False,
    colour: str = INK,
) -> None:
    axes.text(
        x,
        y,
        text,
        fontsize=8 if small else 8.8,
        ha=align,
        va="center",
        color=colour,
        fontweight="bold" if bold else "normal",
    )


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        (ROOT / "docs/architecture.svg").write_text(draw(facts(Path(folder))))
