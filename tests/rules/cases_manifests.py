"""NW, SC and AK: network, security, acknowledgements."""

from collections.abc import Mapping, Sequence

from tests.rules.case import Case
from tests.rules.scaffolds import DELETED

C = "template/spec/containers/0"
INTERNAL = {"annotations": {"service.beta.kubernetes.io/aws-load-balancer-scheme": "internal"}}
TOKEN = "hf_" + "a" * 34
RAY = {"matchLabels": {"ray.io/node-type": "worker"}}


def ingress(port: int, annotations: dict[str, str] | None = None, kind: str = "alb") -> dict[str, object]:
    backend = {"service": {"name": "ray-llm-serve-svc", "port": {"number": port}}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "i", "namespace": "inference", "annotations": annotations or {}},
        "spec": {
            "ingressClassName": kind,
            "rules": [{"http": {"paths": [{"path": "/", "backend": backend}]}}],
        },
    }


def idle(seconds: int) -> dict[str, str]:
    name = "alb.ingress.kubernetes.io/load-balancer-attributes"
    return {name: f"a.b=true,idle_timeout.timeout_seconds={seconds}"}


def policy(
    ingress_rules: Sequence[object], selector: Mapping[str, object] | None = None
) -> dict[str, object]:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "p", "namespace": "inference"},
        "spec": {
            "podSelector": RAY if selector is None else selector,
            "policyTypes": ["Ingress"],
            "ingress": ingress_rules,
        },
    }


def service(port: int, kind: str, metadata: Mapping[str, object] | None = None) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", **(metadata or {})},
        "spec": {"type": kind, "selector": {"ray.io/serve": "true"}, "ports": [{"port": port}]},
    }


def binding(role: str, account: str) -> dict[str, object]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "b"},
        "roleRef": {"kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "inference"}],
    }


ONLY_PORTS = [{"from": [{"podSelector": RAY}], "ports": [{"port": 8000}]}]
BETWEEN_RAY = [{"from": [{"podSelector": RAY}]}, {"ports": [{"port": 8000}]}]
GATED = {
    "prefill/model_loading_config/model_source": "meta-llama/Llama-3.1-8B-Instruct",
    "decode/model_loading_config/model_source": "meta-llama/Llama-3.1-8B-Instruct",
}

CASES = (
    Case(
        "NW001",
        "deployment",
        {"deployment/network": {"interface_endpoints": ["ecr-api"]}},
        ({"deployment/network": {"interface_endpoints": ["ecr-api", "ecr-docker"]}},),
    ),
    Case(
        "NW002",
        "objects",
        {"ingress": ingress(8000)},
        (
            {"ingress": ingress(8000, idle(600))},
            {"ingress": ingress(80)},
            {"ingress": ingress(8000, kind="nginx")},
        ),
    ),
    Case("NW002", "objects", {"ingress": ingress(8000, idle(60))}),
    Case(
        "NW003",
        "serve",
        {"serve/http_options": {"request_timeout_s": 30}},
        ({"serve/http_options": {"request_timeout_s": 600}},),
    ),
    Case(
        "NW004",
        "objects",
        {"policy": policy(ONLY_PORTS)},
        (
            {"policy": policy(BETWEEN_RAY)},
            {"policy": policy(ONLY_PORTS, {"matchLabels": {"app": "x"}})},
            {"policy": policy(ONLY_PORTS), "other": policy(BETWEEN_RAY)},
        ),
    ),
    Case(
        "SC001",
        "deployment",
        {"deployment/cluster": {"public_access_cidrs": ["0.0.0.0/0"]}},
        ({"deployment/cluster": {"public_access_cidrs": ["203.0.113.7/32"]}},),
    ),
    Case(
        "SC002",
        "service",
        {"cluster/authOptions": DELETED},
        ({"cluster/authOptions": DELETED, "policy": policy(BETWEEN_RAY)},),
    ),
    Case(
        "SC003",
        "objects",
        {"service-object": service(8265, "LoadBalancer")},
        (
            {"service-object": service(8265, "ClusterIP")},
            {"service-object": service(8265, "LoadBalancer", INTERNAL)},
        ),
    ),
    Case(
        "SC004",
        "service",
        {"head/serviceType": "LoadBalancer"},
        (
            {"head/serviceType": "ClusterIP"},
            {"head/serviceType": "LoadBalancer", "cluster/headServiceAnnotations": INTERNAL["annotations"]},
        ),
    ),
    Case("SC004", "service", {"head/enableIngress": True}),
    Case(
        "SC005",
        "service",
        {"service/spec/serveService": {"spec": {"type": "LoadBalancer"}}},
        (
            {"service/spec/serveService": {"metadata": INTERNAL, "spec": {"type": "LoadBalancer"}}},
            {"service/spec/serveService": {"spec": {"type": "ClusterIP"}}},
        ),
    ),
    Case(
        "SC005",
        "objects",
        {"service-object": service(8000, "LoadBalancer")},
        ({"service-object": service(8000, "LoadBalancer", INTERNAL)},),
    ),
    Case(
        "SC006",
        "service",
        {f"worker/{C}/env/1": {"name": "HF_TOKEN", "value": TOKEN}},
        (
            {
                f"worker/{C}/env/1": {
                    "name": "HF_TOKEN",
                    "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}},
                }
            },
            {f"worker/{C}/env/1": {"name": "HF_TOKEN", "value": "<your token>"}},
        ),
    ),
    Case("SC006", "serve", {"decode/runtime_env/env_vars/HF_TOKEN": TOKEN}),
    Case("SC006", "serve", {"app/runtime_env/env_vars/AWS_SECRET_ACCESS_KEY": "a" * 40}),
    Case("SC006", "serve", {"decode/engine_kwargs/hf_token": TOKEN}),
    Case(
        "SC007",
        "serve",
        {"decode/engine_kwargs/trust_remote_code": True},
        (
            {"decode/engine_kwargs/trust_remote_code": True, "decode/engine_kwargs/revision": "0" * 40},
            {"decode/engine_kwargs/trust_remote_code": False},
        ),
    ),
    Case(
        "SC008",
        "service",
        {f"worker/{C}/env": []},
        (
            {
                f"worker/{C}/env": [],
                "embedded/applications/0/runtime_env/env_vars": {"RAYLLM_ENABLE_REQUEST_PROMPT_LOGS": "0"},
            },
        ),
    ),
    Case("SC009", "service", {f"head/{C}/securityContext": {"privileged": True}}),
    Case(
        "SC010",
        "service",
        {"worker/template/spec/volumes": [{"name": "v", "hostPath": {"path": "/"}}]},
        ({"worker/template/spec/volumes": [{"name": "v", "hostPath": {"path": "/mnt/k8s-disks/0/models"}}]},),
    ),
    Case(
        "SC010",
        "service",
        {
            "head/template/spec/volumes": [
                {"name": "v", "hostPath": {"path": "/run/containerd/containerd.sock"}},
            ]
        },
    ),
    Case(
        "SC011",
        "service",
        {"binding": binding("cluster-admin", "default")},
        (
            {"binding": binding("view", "default")},
            {"binding": binding("cluster-admin", "someone-else")},
        ),
    ),
    Case(
        "SC012",
        "deployment",
        GATED,
        (
            GATED
            | {"deployment/serving": {"weights": {"source": "hugging-face", "token_secret_name": "hf"}}},
            GATED
            | {"deployment/serving": {"weights": {"source": "s3", "bucket": "weights", "prefix": "llama"}}},
        ),
    ),
    Case(
        "SC013",
        "serve",
        {"app/runtime_env/working_dir": "https://github.com/a/b/archive/refs/heads/main.zip"},
        ({"app/runtime_env/working_dir": "https://github.com/a/b/archive/0123456789abcdef.zip"},),
    ),
    Case("SC013", "serve", {"app/runtime_env/working_dir": "http://files.example/code.zip"}),
    Case("SC014", "service", {"cluster/rayVersion": DELETED}),
    Case("SC014", "service", {"cluster/rayVersion": "2.51.0"}, also=frozenset({"RS004"})),
    Case("SC014", "service", {"cluster/authOptions": {"mode": "token", "enableK8sTokenAuth": True}}),
    Case("SC015", "service", {"worker/template/spec/hostNetwork": True}),
    Case("SC016", "objects", {"ingress": ingress(8265)}),
    Case(
        "AK001",
        "deployment",
        {"deployment/acknowledge": {"KV999": "we know better"}},
        ({"deployment/acknowledge": {"KV001": "we know better"}},),
    ),
    Case(
        "AK001", "service", {"service/metadata/annotations": {"kvrelay.io/acknowledge-XX1": "we know better"}}
    ),
    Case(
        "AK002",
        "service",
        {"service/metadata/annotations": {"kvrelay.io/acknowledge-KV001": "because"}},
        ({"service/metadata/annotations": {"kvrelay.io/acknowledge-KV001": "tested on our own nodes"}},),
    ),
)
