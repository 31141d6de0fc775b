"""EF: nodes of deployment.yaml, and pods, plugins and nodes in manifests."""

from tests.rules.case import Case
from tests.rules.scaffolds import DELETED

C = "template/spec/containers/0"
LIMITS = f"{C}/resources/limits"
CAPACITY = "group/capacity"
RESERVED = {"type": "reservation", "reservation_id": "cr-0123456789abcdef0"}
PREFILL_ONLY = {"name": "p", "roles": ["prefill"], "instance_type": "g6.8xlarge", "count": 1}
DECODE_ONLY = {"name": "d", "roles": ["decode"], "instance_type": "g6.8xlarge", "count": 1}
TWO_GROUPS = {"deployment/gpu_nodes/groups": [PREFILL_ONLY, DECODE_ONLY]}
TYPE = "node.kubernetes.io/instance-type"


def plugin(name: str, container: dict[str, object], types: tuple[str, ...] = ()) -> dict[str, object]:
    """A device plugin's DaemonSet, on the instance types of its list."""
    terms = [{"matchExpressions": [{"key": TYPE, "operator": "In", "values": list(types)}]}]
    affinity = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"template": {"spec": {"affinity": affinity if types else {}, "containers": [container]}}},
    }


def env(name: str, value: str) -> dict[str, str]:
    return {"name": name, "value": value}


def pool(types: list[str]) -> dict[str, object]:
    requirements = [{"key": TYPE, "operator": "In", "values": types}]
    spec = {"nodeClassRef": {"name": "gpu"}, "requirements": requirements}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "gpu"},
        "spec": {"template": {"spec": spec}},
    }


def node_class(spec: dict[str, object]) -> dict[str, object]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "gpu"},
        "spec": spec,
    }


PARALLEL = (
    "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {featureGates: {FastImagePull: true}}\n"
)


def volume(throughput: int) -> dict[str, object]:
    return {"blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"throughput": throughput}}]}


def eksctl(zones: list[str]) -> dict[str, object]:
    group = {"name": "gpu", "efaEnabled": True, "availabilityZones": zones}
    return {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "managedNodeGroups": [group]}


ANTI = "template/spec/affinity"
NO_ANTI = {
    "cluster/workerGroupSpecs/0/template/spec/affinity": DELETED,
    "cluster/workerGroupSpecs/1/template/spec/affinity": DELETED,
}

CASES = (
    Case("EF001", "deployment", {"group/count": 1}, (TWO_GROUPS,), also=frozenset({"EF005"})),
    Case(
        "EF002",
        "deployment",
        {CAPACITY: RESERVED, "deployment/gpu_nodes/placement_group": True},
        ({CAPACITY: RESERVED}, {"deployment/gpu_nodes/placement_group": True}),
    ),
    Case("EF003", "deployment", {CAPACITY: {"type": "spot"}}, ({CAPACITY: {"type": "on-demand"}},)),
    Case("EF004", "deployment", {"deployment/system_nodes": {"instance_type": "m7i.large"}}),
    Case(
        "EF005",
        "deployment",
        {"decode/deployment_config/num_replicas": 2},
        (
            {"decode/deployment_config/num_replicas": 2, "group/count": 3},
            {"decode/deployment_config/num_replicas": 2, "group/max_count": 3},
        ),
    ),
    Case("EF005", "deployment", TWO_GROUPS | {"prefill/deployment_config/num_replicas": 2}),
    Case("EF006", "deployment", {"decode/accelerator_type": "L40S"}, ({"decode/accelerator_type": "L4"},)),
    Case(
        "EF007",
        "deployment",
        {"decode/engine_kwargs/tensor_parallel_size": 2, "group/count": 3},
        ({"decode/engine_kwargs/tensor_parallel_size": 4, "group/instance_type": "g6.12xlarge"},),
    ),
    # Manifests.
    Case("EF020", "service", {f"worker/{LIMITS}/vpc.amazonaws.com~1efa": DELETED}),
    Case(
        "EF021",
        "service",
        {f"worker/{C}/securityContext": DELETED},
        ({f"worker/{C}/securityContext": {"capabilities": {"add": ["IPC_LOCK"]}}},),
    ),
    Case(
        "EF022",
        "service",
        NO_ANTI,
        (
            NO_ANTI
            | {
                "cluster/workerGroupSpecs/0/template/spec/nodeSelector": {"group": "p"},
                "cluster/workerGroupSpecs/1/template/spec/nodeSelector": {"group": "d"},
            },
            NO_ANTI | {"cluster/workerGroupSpecs/0/template/spec/nodeSelector": {TYPE: "g6.8xlarge"}},
            NO_ANTI
            | {
                "cluster/workerGroupSpecs/0/template/spec/topologySpreadConstraints": [
                    {
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "maxSkew": 1,
                    },
                ]
            },
        ),
    ),
    Case(
        "EF022",
        "service",
        NO_ANTI
        | {
            "cluster/workerGroupSpecs/0/template/spec/nodeSelector": {TYPE: "g6.12xlarge"},
            "cluster/workerGroupSpecs/1/template/spec/nodeSelector": {TYPE: "g6.12xlarge"},
        },
    ),
    Case(
        "EF023",
        "deployment",
        {"plugin": plugin("aws-efa-k8s-device-plugin", {}, ("g6.12xlarge",))},
        (
            {"plugin": plugin("aws-efa-k8s-device-plugin", {}, ("g6.12xlarge", "g6.8xlarge"))},
            {"plugin": plugin("aws-efa-k8s-device-plugin", {})},
            {"plugin": plugin("something-else", {}, ("g6.12xlarge",))},
        ),
    ),
    Case(
        "EF023",
        "service",
        {
            "worker/template/spec/nodeSelector": {TYPE: "g6.8xlarge"},
            "plugin": plugin("aws-efa-k8s-device-plugin", {}, ("p5.48xlarge",)),
        },
    ),
    Case(
        "EF024",
        "objects",
        {"plugin": plugin("nvidia-device-plugin", {"env": [env("MOFED_ENABLED", "true")]})},
        ({"plugin": plugin("nvidia-device-plugin", {"env": [env("MOFED_ENABLED", "false")]})},),
    ),
    Case(
        "EF025",
        "service",
        {
            "cluster/workerGroupSpecs/0/template/spec/nodeSelector": {
                "topology.kubernetes.io/zone": "us-east-2a"
            },
            "cluster/workerGroupSpecs/1/template/spec/nodeSelector": {
                "topology.kubernetes.io/zone": "us-east-2b"
            },
        },
        (
            {
                "cluster/workerGroupSpecs/0/template/spec/nodeSelector": {
                    "topology.kubernetes.io/zone": "us-east-2a"
                },
                "cluster/workerGroupSpecs/1/template/spec/nodeSelector": {
                    "topology.kubernetes.io/zone": "us-east-2a"
                },
            },
        ),
    ),
    Case(
        "EF026",
        "service",
        {f"worker/{C}/env/1": env("FI_PROVIDER", "tcp")},
        ({f"worker/{C}/env/1": env("FI_PROVIDER", "efa")},),
    ),
    Case(
        "EF027",
        "service",
        {f"worker/{C}/env/1": env("NCCL_SOCKET_IFNAME", "eth0")},
        ({f"worker/{C}/env/1": env("NCCL_SOCKET_IFNAME", "^docker0,lo")},),
    ),
    Case(
        "EF028",
        "service",
        {f"worker/{C}/resources/requests": {"nvidia.com/gpu": "2"}},
        ({f"worker/{C}/resources/requests": {"nvidia.com/gpu": 1, "vpc.amazonaws.com/efa": "1"}},),
    ),
    Case(
        "EF029",
        "service",
        {
            f"worker/{LIMITS}/hugepages-2Mi": "5120Mi",
            f"worker/{C}/resources/requests": {"hugepages-2Mi": "1Gi"},
        },
        (
            {
                f"worker/{LIMITS}/hugepages-2Mi": "5120Mi",
                f"worker/{C}/resources/requests": {"hugepages-2Mi": "5Gi"},
            },
            {f"worker/{LIMITS}/hugepages-2Mi": "5120Mi"},
        ),
    ),
    Case(
        "EF029",
        "objects",
        {
            "pod": {
                "apiVersion": "v1",
                "kind": "Pod",
                "spec": {"containers": [{"resources": {"limits": {"hugepages-2Mi": "1Gi"}}}]},
            }
        },
        (
            {
                "pod": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "spec": {
                        "containers": [{"resources": {"limits": {"hugepages-2Mi": "1Gi", "memory": "1Gi"}}}]
                    },
                }
            },
        ),
    ),
    Case(
        "EF030",
        "service",
        {"head/template/spec/tolerations": [{"key": "nvidia.com/gpu"}]},
        (
            {
                "head/template/spec/tolerations": [{"key": "nvidia.com/gpu"}],
                "head/template/spec/nodeSelector": {"role": "system"},
            },
            {
                "head/template/spec/tolerations": [{"key": "nvidia.com/gpu"}],
                f"head/{C}/env/1": env("NVIDIA_VISIBLE_DEVICES", "void"),
            },
        ),
    ),
    Case("EF030", "service", {"head/template/spec/nodeSelector": {"nvidia.com/gpu.present": "true"}}),
    Case(
        "EF031",
        "objects",
        {"pool": pool(["g6.8xlarge"]), "class": node_class({})},
        (
            {"pool": pool(["g6.8xlarge"]), "class": node_class({"instanceStorePolicy": "RAID0"})},
            {"pool": pool(["m7i.xlarge"]), "class": node_class({})},
            {"class": node_class({})},
        ),
    ),
    Case(
        "EF033",
        "objects",
        {"class": node_class({"userData": PARALLEL})},
        (
            {"class": node_class({"userData": PARALLEL, "instanceStorePolicy": "RAID0"})},
            {"class": node_class({"userData": PARALLEL, **volume(600)})},
            {"class": node_class(volume(125))},
        ),
    ),
    Case(
        "EF032",
        "objects",
        {"eksctl": eksctl(["us-east-2a", "us-east-2b"])},
        ({"eksctl": eksctl(["us-east-2a"])},),
    ),
)
