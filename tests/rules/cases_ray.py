"""RS and UP: Ray clusters and services, their upgrades and their end."""

from tests.rules.case import Case
from tests.rules.scaffolds import DELETED

POD = "template/spec"
C = f"{POD}/containers/0"
CLUSTER_OBJECT = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "c"},
    "spec": {
        "authOptions": {"mode": "token"},
        "rayVersion": "2.58.0",
        "headGroupSpec": {"template": {"spec": {"containers": [{"image": "rayproject/ray:2.58.0"}]}}},
    },
}
OPERATOR = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kuberay-operator", "namespace": "inference"},
    "spec": {"template": {"spec": {"containers": [{"image": "quay.io/kuberay/operator:v1.7.0"}]}}},
}


def env(name: str, value: str = "1") -> dict[str, str]:
    return {"name": name, "value": value}


def late(parameters: dict[str, str]) -> dict[str, object]:
    """A worker group for GPU nodes that starts at nothing."""
    container = {"image": "a/b:1", "env": [env("RAYLLM_ENABLE_REQUEST_PROMPT_LOGS", "0")]}
    return {
        "groupName": "late",
        "minReplicas": 0,
        "maxReplicas": 2,
        "rayStartParams": parameters,
        "template": {"spec": {"tolerations": [{"key": "nvidia.com/gpu"}], "containers": [container]}},
    }


CASES = (
    Case("RS001", "service", {"service/metadata/name": "a" * 48}, ({"service/metadata/name": "a" * 47},)),
    Case("RS001", "service", {"service/metadata/name": "2ray"}),
    Case(
        "RS001",
        "objects",
        {"cluster-object": CLUSTER_OBJECT | {"metadata": {"name": "a" * 54}}},
        ({"cluster-object": CLUSTER_OBJECT | {"metadata": {"name": "a" * 53}}},),
    ),
    Case(
        "RS002",
        "service",
        {"service/spec/serveConfigv2": "x"},
        ({"service/spec/fieldOfSomeLaterRelease": 1},),
    ),
    Case("RS002", "service", {"cluster/rayversion": "2.58.0"}),
    Case("RS002", "service", {"head/rayStartParam": {}}),
    Case("RS002", "service", {"worker/replica": 1}),
    Case("RS002", "service", {"cluster/autoscalerOptions": {"idleTimeoutSecond": 60}}),
    Case("RS003", "service", {"service/apiVersion": "ray.io/v1alpha1"}),
    Case("RS004", "service", {"cluster/rayVersion": "2.52.0"}, ({"cluster/rayVersion": "2.58.0"},)),
    Case(
        "RS004",
        "service",
        {f"head/{C}/image": "mirror:5000/hub/rayproject/ray:2.57.0-gpu"},
        also=frozenset({"RS005"}),
    ),
    Case(
        "RS005",
        "service",
        {f"worker/{C}/image": "rayproject/ray-llm:2.57.0"},
        ({f"worker/{C}/image": "rayproject/ray-llm:2.58.0-py311-cu128"},),
        also=frozenset({"RS004"}),
    ),
    Case(
        "RS006",
        "service",
        {"worker/rayStartParams/num-gpus": "2"},
        ({"worker/rayStartParams/num-gpus": "1"},),
    ),
    Case("RS006", "service", {"head/rayStartParams/num-gpus": "1"}, ({"head/rayStartParams/num-gpus": "0"},)),
    Case(
        "RS007",
        "service",
        {"cluster/enableInTreeAutoscaling": True, "cluster/workerGroupSpecs/2": late({})},
        (
            {
                "cluster/enableInTreeAutoscaling": True,
                "cluster/workerGroupSpecs/2": late({"resources": '{"accelerator_type:L4": 1}'}),
            },
        ),
    ),
    Case(
        "RS008",
        "service",
        {f"head/{C}/ports": [{"name": "serve", "containerPort": 8000}]},
        (
            {
                f"head/{C}/ports": [
                    {"name": "serve", "containerPort": 8000},
                    {"name": "dashboard", "containerPort": 8265},
                ]
            },
        ),
    ),
    Case("RS009", "service", {"head/resources": {"cpu": "2"}}, ({"head/resources": {}},)),
    Case("RS010", "service", {"head/rayStartParams/num-cpus": 0}, ({"head/rayStartParams/num-cpus": "0"},)),
    Case(
        "RS011",
        "service",
        {"worker/rayStartParams/resources": "prefill: 1"},
        (
            {"worker/rayStartParams/resources": '"{\\"prefill\\": 1}"'},
            {"worker/rayStartParams/resources": "'{\"prefill\": 1}'"},
            {"worker/rayStartParams/resources": '{"prefill": 1}'},
        ),
    ),
    Case("RS012", "service", {"worker/minReplicas": 2, "worker/replicas": 2}, ({"worker/minReplicas": 0},)),
    Case("RS012", "service", {"worker/replicas": 2}, ({"worker/replicas": 2, "worker/maxReplicas": 2},)),
    Case("RS012", "service", {"worker/minReplicas": -1}),
    Case(
        "RS013",
        "service",
        {"worker/replicas": DELETED, "worker/minReplicas": DELETED},
        ({"worker/replicas": DELETED, "worker/minReplicas": 1},),
        also=frozenset({"RS038"}),
    ),
    Case("RS014", "service", {"worker/groupName": "decode"}),
    Case(
        "RS015",
        "service",
        {
            f"worker/{C}/resources/limits/nvidia.com~1gpu": DELETED,
            f"worker/{POD}/containers/1": {"name": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}},
        },
        also=frozenset({"RS038"}),
    ),
    Case("RS016", "service", {f"head/{POD}/containers": []}, also=frozenset({"SC008"})),
    Case(
        "RS017",
        "service",
        {f"head/{C}/env/1": env("RAY_enable_autoscaler_v2")},
        ({f"head/{C}/env/1": env("RAY_enable_autoscaler_v2"), "cluster/enableInTreeAutoscaling": True},),
    ),
    Case(
        "RS017",
        "service",
        {
            f"head/{C}/env/1": env("RAY_enable_autoscaler_v2"),
            "cluster/enableInTreeAutoscaling": True,
            "cluster/autoscalerOptions": {"version": "v2"},
        },
    ),
    Case(
        "RS017",
        "service",
        {
            "cluster/enableInTreeAutoscaling": True,
            "cluster/autoscalerOptions": {"version": "v2"},
            f"worker/{POD}/restartPolicy": "Always",
        },
        (
            {
                "cluster/enableInTreeAutoscaling": True,
                "cluster/autoscalerOptions": {"version": "v2"},
                f"worker/{POD}/restartPolicy": "Never",
            },
        ),
    ),
    Case("RS017", "service", {"cluster/enableInTreeAutoscaling": True, "worker/suspend": True}),
    Case(
        "RS018",
        "service",
        {f"head/{C}/env/1": env("RAY_REDIS_ADDRESS", "redis:6379")},
        (
            {
                f"head/{C}/env/1": env("RAY_REDIS_ADDRESS", "redis:6379"),
                "service/metadata/annotations": {"ray.io/ft-enabled": "true"},
            },
        ),
    ),
    Case(
        "RS018",
        "service",
        {
            "cluster/gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
            "service/metadata/annotations": {"ray.io/ft-enabled": "true"},
        },
        ({"cluster/gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},),
    ),
    Case(
        "RS018",
        "service",
        {
            "cluster/gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
            f"head/{C}/env/1": env("REDIS_PASSWORD"),
        },
    ),
    Case("RS019", "service", {"cluster/tlsOptions": {}}),
    Case("RS019", "service", {"cluster/historyServerOptions": {}}),
    Case("RS020", "service", {"worker/rayStartParams/labels": "a=b"}, ({"worker/labels": {"a": "b"}},)),
    # RayServices and the Serve config inside.
    Case("RS030", "service", {"service/spec/serviceUnhealthySecondThreshold": 900}),
    Case("RS030", "service", {"service/spec/deploymentUnhealthySecondThreshold": 300}),
    Case(
        "RS031",
        "service",
        {"head/headService": {"metadata": {"name": "x"}}},
        ({"head/headService": {"metadata": {"labels": {"a": "b"}}}},),
    ),
    Case("RS032", "service", {"embedded": "applications: ["}),
    Case("RS032", "service", {"embedded": "just text"}),
    Case("RS032", "service", {"embedded": "import_path: a:b"}, ({"embedded": "applications: []"},)),
    Case(
        "RS033",
        "service",
        {"service/metadata/annotations": {"ray.io/initializing-timeout": "soon"}},
        (
            {"service/metadata/annotations": {"ray.io/initializing-timeout": "45m"}},
            {"service/metadata/annotations": {"ray.io/initializing-timeout": "1h30m"}},
            {"service/metadata/annotations": {"ray.io/initializing-timeout": "2700"}},
        ),
    ),
    Case("RS033", "service", {"service/metadata/annotations": {"ray.io/initializing-timeout": "0s"}}),
    Case(
        "RS034",
        "service",
        {"service/metadata/annotations": {"ray.io/initializing-timeout": "5m"}},
        ({"service/metadata/annotations": {"ray.io/initializing-timeout": "10m"}},),
    ),
    Case(
        "RS035",
        "service",
        {"embedded/proxy_location": "HeadOnly"},
        ({"embedded/proxy_location": "EveryNode"},),
    ),
    Case(
        "RS036",
        "service",
        {"embedded/http_options": {"port": 9000}},
        ({"embedded/http_options": {"port": 8000}},),
    ),
    Case("RS036", "service", {f"worker/{C}/ports": [{"name": "serve", "containerPort": 9000}]}),
    Case(
        "RS037",
        "service",
        {"embedded/http_options": {"host": "127.0.0.1"}},
        ({"embedded/http_options": {"host": "0.0.0.0"}},),
    ),
    Case(
        "RS038",
        "service",
        {"embedded-decode/deployment_config/num_replicas": 2},
        (
            {
                "embedded-decode/deployment_config/num_replicas": 2,
                "worker/replicas": 2,
                "worker/maxReplicas": 2,
            },
            {
                "embedded-decode/deployment_config/num_replicas": 2,
                "worker/maxReplicas": 2,
                "cluster/enableInTreeAutoscaling": True,
            },
            {"embedded-decode/engine_kwargs/data_parallel_size": 1},
        ),
    ),
    Case(
        "RS038",
        "service",
        {
            "embedded-decode/engine_kwargs/tensor_parallel_size": 2,
        },
    ),
    Case("RS038", "service", {"embedded-decode/engine_kwargs/data_parallel_size": 2}),
    # Upgrades and the end.
    Case("UP001", "service", {"service/spec/upgradeStrategy": DELETED}),
    Case("UP001", "service", {"service/spec/upgradeStrategy/type": "NewCluster"}),
    Case(
        "UP002",
        "deployment",
        {"deployment/serving": {"upgrade": "surge"}},
        ({"deployment/serving": {"upgrade": "surge"}, "group/max_count": 4},),
    ),
    Case(
        "UP003",
        "service",
        {
            "service/spec/upgradeStrategy": {
                "type": "NewClusterWithIncrementalUpgrade",
                "clusterUpgradeOptions": {
                    "gatewayClassName": "g",
                    "stepSizePercent": 10,
                    "intervalSeconds": 10,
                },
            }
        },
        (
            {
                "cluster/enableInTreeAutoscaling": True,
                "service/spec/upgradeStrategy": {
                    "type": "NewClusterWithIncrementalUpgrade",
                    "clusterUpgradeOptions": {
                        "gatewayClassName": "g",
                        "stepSizePercent": 10,
                        "intervalSeconds": 10,
                    },
                },
            },
        ),
    ),
    Case(
        "UP003",
        "service",
        {
            "cluster/enableInTreeAutoscaling": True,
            "service/spec/upgradeStrategy": {"type": "NewClusterWithIncrementalUpgrade"},
        },
    ),
    Case(
        "UP003",
        "service",
        {
            "cluster/enableInTreeAutoscaling": True,
            "service/spec/upgradeStrategy": {
                "type": "NewClusterWithIncrementalUpgrade",
                "clusterUpgradeOptions": {
                    "gatewayClassName": "g",
                    "stepSizePercent": 30,
                    "maxSurgePercent": 20,
                    "intervalSeconds": 10,
                },
            },
        },
    ),
    Case("UP004", "service", {"cluster/upgradeStrategy": {"type": "Recreate"}}),
    Case(
        "UP005",
        "service",
        {f"worker/{C}/image": "rayproject/ray:latest"},
        ({f"worker/{C}/image": "rayproject/ray@sha256:" + "0" * 64},),
    ),
    Case("UP005", "service", {f"worker/{C}/image": "my/ray"}),
    Case(
        "UP005",
        "service",
        {
            f"worker/{C}/image": "public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda",
        },
    ),
    Case(
        "UP006",
        "objects",
        {
            "crd": {
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": "x"},
                "spec": {"description": "x" * 262_144},
            }
        },
        (
            {
                "crd": {
                    "apiVersion": "apiextensions.k8s.io/v1",
                    "kind": "CustomResourceDefinition",
                    "metadata": {"name": "x"},
                    "spec": {"description": "x" * 200_000},
                }
            },
        ),
    ),
    Case("UP007", "service", {"service/spec/upgradeStrategy/type": "RollingUpdate"}),
    Case(
        "UP008",
        "service",
        {"operator": OPERATOR},
        ({"operator": OPERATOR | {"metadata": {"name": "kuberay-operator", "namespace": "kuberay"}}},),
    ),
    Case(
        "UP009",
        "objects",
        {"object": {"api_version": "v1", "kind": "ConfigMap"}},
        ({"object": {"apiVersion": "v1", "kind": "ConfigMap"}},),
    ),
    Case(
        "UP010",
        "service",
        {"service/spec/rayClusterDeletionDelaySeconds": -1},
        ({"service/spec/rayClusterDeletionDelaySeconds": 0},),
    ),
)
