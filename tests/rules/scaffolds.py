"""Inputs that keep every rule, for cases to break one at a time."""

from __future__ import annotations

import copy
import json
from typing import Any

import yaml

from kvrelay.rules import Finding, ServeConfig, Subject, Value, check_all
from kvrelay.rules.acknowledgements import Acknowledgement, of_comments
from kvrelay.rules.registry import RULES
from kvrelay.rules.rule import Rule
from kvrelay.settings import Deployment
from kvrelay.settings.reading import DeploymentFile
from kvrelay.yaml_source import Document, parse_documents

Tree = dict[str, Any]
DELETED = object()

DEPLOYMENT: Tree = {
    "gpu_nodes": {
        "groups": [{"name": "gpu", "roles": ["prefill", "decode"], "instance_type": "g6.8xlarge", "count": 2}]
    }
}


def _engine(role: str, backend: str) -> Tree:
    return {
        "model_loading_config": {"model_id": "tiny", "model_source": "Qwen/Qwen3-0.6B"},
        "engine_kwargs": {
            "max_model_len": 4096,
            "kv_transfer_config": {
                "kv_connector": "NixlConnector",
                "kv_role": role,
                "kv_connector_extra_config": {"backends": [backend]},
            },
        },
        "deployment_config": {"num_replicas": 1},
    }


def _serve(backend: str) -> Tree:
    return {
        "applications": [
            {
                "name": "llm",
                "route_prefix": "/",
                "import_path": "ray.serve.llm:build_pd_openai_app",
                "args": {
                    "prefill_config": _engine("kv_producer", backend),
                    "decode_config": _engine("kv_consumer", backend),
                },
            }
        ]
    }


_IMAGE = "public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda-v1.0"
_QUIET = [{"name": "RAYLLM_ENABLE_REQUEST_PROMPT_LOGS", "value": "0"}]


def _worker(role: str) -> Tree:
    apart = {
        "labelSelector": {"matchLabels": {"ray.io/node-type": "worker"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    return {
        "groupName": role,
        "replicas": 1,
        "minReplicas": 1,
        "maxReplicas": 1,
        "rayStartParams": {},
        "template": {
            "spec": {
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
                "containers": [
                    {
                        "name": "ray-worker",
                        "image": _IMAGE,
                        "env": copy.deepcopy(_QUIET),
                        "securityContext": {"privileged": True},
                        "resources": {
                            "limits": {
                                "cpu": "28",
                                "memory": "100Gi",
                                "nvidia.com/gpu": "1",
                                "vpc.amazonaws.com/efa": "1",
                            }
                        },
                    }
                ],
            }
        },
    }


SERVICE: Tree = {
    "apiVersion": "ray.io/v1",
    "kind": "RayService",
    "metadata": {"name": "ray-llm", "namespace": "inference"},
    "spec": {
        "upgradeStrategy": {"type": "None"},
        "rayClusterConfig": {
            "rayVersion": "2.58.0",
            "authOptions": {"mode": "token"},
            "headGroupSpec": {
                "rayStartParams": {"num-cpus": "0"},
                "template": {
                    "spec": {
                        "containers": [{"name": "ray-head", "image": _IMAGE, "env": copy.deepcopy(_QUIET)}]
                    }
                },
            },
            "workerGroupSpecs": [_worker("prefill"), _worker("decode")],
        },
    },
}

SCAFFOLDS: dict[str, Tree] = {
    # A Serve config as it is written by hand.
    "serve": {"serve": _serve("UCX")},
    # A RayService with its Serve config inside.
    "service": {"service": SERVICE, "embedded": _serve("LIBFABRIC")},
    # deployment.yaml and the Serve config that it names.
    "deployment": {"deployment": DEPLOYMENT, "serve": _serve("UCX")},
    # Nothing but what a case adds.
    "objects": {},
}


def patched(scaffold: str, patch: dict[str, Any]) -> Tree:
    """A scaffold with values set at paths such as `serve/applications/0/name`."""
    inputs = copy.deepcopy(SCAFFOLDS[scaffold])
    for path, value in patch.items():
        _set(
            inputs,
            [step.replace("~1", "/") for step in _expanded(path).split("/")],
            value if value is DELETED else copy.deepcopy(value),
        )
    return inputs


_SHORT = {
    "prefill": "serve/applications/0/args/prefill_config",
    "decode": "serve/applications/0/args/decode_config",
    "app": "serve/applications/0",
    "cluster": "service/spec/rayClusterConfig",
    "head": "service/spec/rayClusterConfig/headGroupSpec",
    "worker": "service/spec/rayClusterConfig/workerGroupSpecs/0",
    "group": "deployment/gpu_nodes/groups/0",
}


def _expanded(path: str) -> str:
    first, _, rest = path.partition("/")
    inside = first.removeprefix("embedded-")
    whole = _SHORT.get(inside, inside)
    if inside != first:
        whole = whole.replace("serve/", "embedded/", 1)
    return f"{whole}/{rest}" if rest else whole


def _set(tree: Any, steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        key: Any = int(step) if isinstance(tree, list) else step
        tree = tree.setdefault(key, {}) if isinstance(tree, dict) else tree[key]
    last: Any = int(steps[-1]) if isinstance(tree, list) else steps[-1]
    if value is DELETED:
        del tree[last]
    elif isinstance(tree, list) and last == len(tree):
        tree.append(value)
    else:
        tree[last] = value


def findings_in(inputs: Tree, rules: tuple[Rule[Any], ...] = RULES) -> list[Finding]:
    """What the rules find in inputs, read from the text that a user would have written."""
    deployment: DeploymentFile | None = None
    serve_configs: list[ServeConfig] = []
    manifests: list[Document] = []
    comments: list[Acknowledgement] = []
    for name, content in inputs.items():
        if name == "embedded":
            continue
        if name == "service" and "embedded" in inputs and _has_spec(content):
            content = copy.deepcopy(content)
            embedded = inputs["embedded"]
            content["spec"]["serveConfigV2"] = (
                embedded if isinstance(embedded, str) else yaml.safe_dump(embedded)
            )
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        document = parse_documents(text, f"{name}.yaml")[0]
        if name == "deployment":
            deployment = _deployment(document)
        elif name == "serve":
            serve_configs.append(ServeConfig(Value.root(document)))
            comments += of_comments(text, document)
        else:
            manifests.append(document)
    return check_all(Subject(deployment, serve_configs, manifests, comments), rules)


def _has_spec(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get("spec"), dict)


def _deployment(document: Document) -> DeploymentFile:
    return DeploymentFile(Deployment.model_validate_json(json.dumps(document.value), strict=True), document)
