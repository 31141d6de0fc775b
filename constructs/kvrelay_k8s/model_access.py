"""How workers get at the weights: a token for the Hugging Face hub, or a copy from a bucket of yours."""

from __future__ import annotations

from dataclasses import dataclass, field

from kvrelay.settings import Deployment, HuggingFaceWeights, S3Weights
from kvrelay_k8s.node_cache import CACHE_PATH, MODELS_PATH, cache_mount
from kvrelay_k8s.ray_container import SCRIPTS_PATH, Object, environment

_TOKEN_DIRECTORY = "/run/kvrelay"
_TOKEN_FILE = f"{_TOKEN_DIRECTORY}/hf-token"


@dataclass(frozen=True)
class ModelAccess:
    """What a worker's pod needs for it. No token stands in any manifest."""

    model_source: str | None = None
    """Where the weights lie on the node; None when the serve config's own source is read."""
    init_containers: list[Object] = field(default_factory=list)
    volumes: list[Object] = field(default_factory=list)
    mounts: list[Object] = field(default_factory=list)
    env: list[Object] = field(default_factory=list)

    @classmethod
    def of(cls, deployment: Deployment) -> ModelAccess:
        """The access that `serving.weights` asks for."""
        weights = deployment.serving.weights
        if isinstance(weights, S3Weights):
            return _from_bucket(deployment, weights)
        if weights.token_secret_name:
            return _token_from_secrets_manager(deployment, weights.token_secret_name)
        return _token_from_kubernetes(weights)


def _from_bucket(deployment: Deployment, weights: S3Weights) -> ModelAccess:
    path = f"{MODELS_PATH}/{weights.bucket}/{weights.prefix}"
    command = ["weights", "--bucket", weights.bucket, "--prefix", weights.prefix, "--to", path]
    return ModelAccess(
        model_source=path,
        init_containers=[_fetch(deployment, "fetch-weights", command, cache_mount())],
        env=[{"name": "HF_HUB_OFFLINE", "value": "1"}],
    )


def _token_from_secrets_manager(deployment: Deployment, secret: str) -> ModelAccess:
    mount: Object = {"name": "hf-token", "mountPath": _TOKEN_DIRECTORY}
    command = ["token", "--secret", secret, "--to", _TOKEN_FILE]
    return ModelAccess(
        init_containers=[_fetch(deployment, "fetch-token", command, mount)],
        # In memory: the token is on no disk and goes with the pod.
        volumes=[{"name": "hf-token", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
        mounts=[{**mount, "readOnly": True}],
        env=[{"name": "HF_TOKEN_PATH", "value": _TOKEN_FILE}],
    )


def _token_from_kubernetes(weights: HuggingFaceWeights) -> ModelAccess:
    if not weights.token_kubernetes_secret:
        return ModelAccess()
    reference = {"secretKeyRef": {"name": weights.token_kubernetes_secret, "key": "token"}}
    return ModelAccess(env=[{"name": "HF_TOKEN", "valueFrom": reference}])


def _fetch(deployment: Deployment, name: str, arguments: list[str], mount: Object) -> Object:
    """An init container in the workers' own image, which has boto3; credentials come from the pod's identity."""
    return {
        "name": name,
        "image": deployment.serving.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", f"{SCRIPTS_PATH}/fetch.py", *arguments],
        "env": environment(
            {"AWS_REGION": deployment.region, "HOME": CACHE_PATH if name == "fetch-weights" else "/tmp"}
        ),
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}},
        # The cache directory on the node is root's.
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [mount, {"name": "scripts", "mountPath": SCRIPTS_PATH, "readOnly": True}],
    }
