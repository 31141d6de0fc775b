"""What is served: a plain Ray Serve config as typed objects, and that config rendered for a target.

app = load_serve_app(Path("serve_configs/qwen3.5-9b.yaml"))   # InvalidFileError: file:line: path: what, mend
app.engine(Role.PREFILL).tensor_parallel
worker_groups(app, deployment)                     # Ray worker groups on the deployment's nodes
rendered = render(app, Efa.of(app, deployment))    # or Loopback(), or Cpu(model_source="./tiny-qwen3")
rendered.text                                      # YAML for `serve run`, the same bytes each time
for addition in rendered.additions: print(addition)
"""

from kvrelay.serve_app.app import UNBOUNDED, Engine, Replicas, ServeApp
from kvrelay.serve_app.ingress import INGRESS_MODULE, INGRESS_MOUNT
from kvrelay.serve_app.loading import load_serve_app, parse_serve_app
from kvrelay.serve_app.ordinary import ordinary_replicas
from kvrelay.serve_app.rendering import Addition, Rendered, Target, render
from kvrelay.serve_app.targets import Cpu, Efa, Loopback
from kvrelay.serve_app.worker_groups import WorkerGroup, ray_resource, worker_groups

__all__ = [
    "INGRESS_MODULE",
    "INGRESS_MOUNT",
    "UNBOUNDED",
    "Addition",
    "Cpu",
    "Efa",
    "Engine",
    "Loopback",
    "Rendered",
    "Replicas",
    "ServeApp",
    "Target",
    "WorkerGroup",
    "load_serve_app",
    "ordinary_replicas",
    "parse_serve_app",
    "ray_resource",
    "render",
    "worker_groups",
]
