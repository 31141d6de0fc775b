"""EF: pods that use EFA and GPUs, device plugins, and node configuration in manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kvrelay.rules.embedded import RayService
from kvrelay.rules.kinds import ManifestRule, PodRule, RayClusterRule, RayServiceRule, SubjectRule
from kvrelay.rules.manifests import EFA, GPU, Container, Manifest, Pod, RayCluster, RayGroup, quantity
from kvrelay.rules.nodes import known_type
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.subject import Subject
from kvrelay.rules.value import Value

_INSTANCE_TYPE = "node.kubernetes.io/instance-type"
_PARALLEL_PULL = re.compile(r"FastImagePull\W{1,4}true")
_LEAST_PULL_MIB_S = 600
_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"
_EKS_EFA = "https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html"
_EXTENDED = "https://kubernetes.io/docs/tasks/configure-pod-container/extended-resource/"


def _gpu_groups(cluster: RayCluster) -> list[RayGroup]:
    return [group for group in cluster.workers if group.pod.count(GPU)]


class EfaOnSomeGroups(RayServiceRule):
    """A transfer needs EFA at both ends: with one end without, it falls back or fails."""

    number = "EF020"
    level = Level.ERROR
    mend = 'Add the limit vpc.amazonaws.com/efa: "1" to every GPU group'
    source = _EKS_EFA

    def check(self, part: RayService) -> Iterator[Finding]:
        apps = part.serve.applications if part.serve else []
        if not part.cluster or not any(app.is_prefill_decode for app in apps):
            return
        groups = _gpu_groups(part.cluster)
        if any(group.pod.count(EFA) for group in groups):
            for group in groups:
                if not group.pod.count(EFA):
                    at = group.ray_container.value["resources"]
                    yield self.found(at, f"{group.name} has GPUs but no EFA, another group has")


class UnlockedMemory(PodRule):
    """Registering memory with the EFA device locks it: the container needs the privilege. IPC_LOCK alone was not
    enough for CUDA memory when AWS built its sample."""

    number = "EF021"
    level = Level.WARNING
    mend = "Set securityContext: {privileged: true}, or try capabilities: {add: [IPC_LOCK]}"
    source = "aws-samples/sample-aws-deep-learning-containers, ray-serve-multi-node"

    def check(self, part: Pod) -> Iterator[Finding]:
        for container in part.containers:
            added = container.value.at("securityContext", "capabilities", "add").items()
            if (
                container.count(EFA)
                and not container.is_privileged
                and not any(each.text in {"IPC_LOCK", "ALL"} for each in added)
            ):
                yield self.found(
                    container.value["securityContext"], "uses EFA without the right to lock memory"
                )


class RolesMayShareNode(RayServiceRule):
    """Prefill and decode on one node talk over EFA's loopback, which stalls with EAGAIN. One GPU on each node is
    no guarantee: the next instance type has eight."""

    number = "EF022"
    level = Level.WARNING
    mend = "Add a required podAntiAffinity on kubernetes.io/hostname between the two roles"
    source = "https://github.com/ai-dynamo/dynamo/issues/7764"

    def check(self, part: RayService) -> Iterator[Finding]:
        apps = part.serve.applications if part.serve else []
        if not part.cluster or not any(app.is_prefill_decode for app in apps):
            return
        groups = [group for group in _gpu_groups(part.cluster) if group.pod.count(EFA)]
        if groups and not any(_keeps_apart(group) for group in groups) and not _on_unlike_nodes(groups):
            at = part.cluster.spec["workerGroupSpecs"]
            yield self.found(at, "nothing keeps prefill and decode on distinct nodes")


def _keeps_apart(group: RayGroup) -> bool:
    affinity = group.pod.spec.at(
        "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"
    )
    spread = group.pod.spec["topologySpreadConstraints"]
    fills_node = any(
        kind and kind.gpu and kind.gpu.count == group.pod.count(GPU)
        for kind in (known_type(each.text or "") for each in group.pod.required_node_values(_INSTANCE_TYPE))
    )
    return (
        fills_node
        or any(each["topologyKey"].text == _HOST for each in affinity.items())
        or any(
            each["topologyKey"].text == _HOST and each["whenUnsatisfiable"].text == "DoNotSchedule"
            for each in spread.items()
        )
    )


def _on_unlike_nodes(groups: list[RayGroup]) -> bool:
    selectors = [
        frozenset((key, value.scalar_text) for key, value in group.pod.spec["nodeSelector"].entries())
        for group in groups
    ]
    return len(groups) > 1 and len(set(selectors)) == len(selectors)


class PluginLeavesTypeOut(SubjectRule):
    """The EFA plugin runs only on instance types of its list: on any other it starts nowhere, says nothing, and
    pods that want EFA wait for ever."""

    number = "EF023"
    level = Level.ERROR
    mend = "Add the type to the DaemonSet's node affinity (chart v0.5.30 added g6.8xlarge)"
    source = "https://github.com/aws/eks-charts/tree/master/stable/aws-efa-k8s-device-plugin"

    def check(self, part: Subject) -> Iterator[Finding]:
        wanted = {
            value.text
            for cluster in part.ray_clusters
            for group in cluster.workers
            if group.pod.count(EFA)
            for value in group.pod.required_node_values(_INSTANCE_TYPE)
            if value.text
        }
        for deployment in part.deployments:
            wanted |= {group.instance_type for group in deployment.settings.gpu_nodes.groups}
        for manifest in part.manifests:
            if manifest.kind != "DaemonSet" or "efa" not in (manifest.name.text or ""):
                continue
            for pod in manifest.pods():
                listed = pod.required_node_values(_INSTANCE_TYPE)
                missing = sorted(wanted - {value.text for value in listed if value.text}) if listed else []
                if missing:
                    yield self.found(listed[0], f"the EFA plugin's list lacks {', '.join(missing)[:100]}")


class MofedWithEfa(ManifestRule):
    """With MOFED on, the NVIDIA plugin hands out /dev/infiniband too and fights the EFA plugin over it."""

    number = "EF024"
    level = Level.WARNING
    mend = 'Set MOFED_ENABLED to "false": on AWS the EFA plugin hands out the devices'
    source = "https://github.com/NVIDIA/k8s-device-plugin#configuration-option-details"

    def check(self, part: Manifest) -> Iterator[Finding]:
        if part.kind != "DaemonSet":
            return
        for pod in part.pods():
            for container in pod.containers:
                value = container.environment("MOFED_ENABLED")
                if (value.scalar_text or "").lower() in {"true", "1"}:
                    yield self.found(value, "the NVIDIA device plugin runs with MOFED on")


class GroupsInUnlikeZones(RayClusterRule):
    """EFA traffic does not leave its zone: engines in two zones can't hand over by EFA."""

    number = "EF025"
    level = Level.ERROR
    mend = "Keep all GPU groups in one zone"
    source = _EKS_EFA

    def check(self, part: RayCluster) -> Iterator[Finding]:
        zones: dict[str, Value] = {}
        for group in part.workers:
            values = group.pod.required_node_values(_ZONE)
            if group.pod.count(EFA) and len(values) == 1 and values[0].text:
                zones.setdefault(values[0].text, values[0])
        if len(zones) > 1:
            yield self.found(
                list(zones.values())[-1], f"GPU groups stand in the zones {', '.join(sorted(zones))}"
            )


class ProviderNotEfa(PodRule):
    """libfabric takes the provider named here: any but `efa` moves the cache over TCP or not at all."""

    number = "EF026"
    level = Level.ERROR
    mend = "Remove FI_PROVIDER: the image sets it to efa"
    source = "https://ofiwg.github.io/libfabric/main/man/fabric.7.html"

    def check(self, part: Pod) -> Iterator[Finding]:
        for container in part.containers:
            value = container.environment("FI_PROVIDER")
            if container.count(EFA) and value.text and "efa" not in value.text:
                yield self.found(value, f"FI_PROVIDER is {value.shown} in a pod with EFA")


class SocketInterfaceSet(PodRule):
    """AWS's container presets NCCL_SOCKET_IFNAME for its own interfaces: another value can leave NCCL without one."""

    number = "EF027"
    level = Level.WARNING
    mend = "Remove NCCL_SOCKET_IFNAME"
    source = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start-nccl.html"

    def check(self, part: Pod) -> Iterator[Finding]:
        for container in part.containers:
            value = container.environment("NCCL_SOCKET_IFNAME")
            if container.count(EFA) and value.exists and not (value.text or "").startswith("^"):
                yield self.found(value, f"NCCL_SOCKET_IFNAME is {value.shown}")


class DeviceRequestDiffers(PodRule):
    """Devices can't be shared: Kubernetes refuses a request without the same limit."""

    number = "EF028"
    level = Level.ERROR
    mend = "Write the limit alone: the request follows it"
    source = _EXTENDED

    def check(self, part: Pod) -> Iterator[Finding]:
        for container in part.all_containers:
            for resource in (GPU, EFA):
                request = container.request(resource)
                if request.exists and quantity(request) != quantity(container.limit(resource)):
                    limit = container.limit(resource)
                    yield self.found(request, f"requests {request.shown} {resource}, limit {limit.shown}")


class LooseHugepages(PodRule):
    """Huge pages are set aside for one pod: Kubernetes refuses a request unlike the limit, and huge pages without
    CPU or memory."""

    number = "EF029"
    level = Level.ERROR
    mend = "Write the same limit and request, and a memory limit beside it"
    source = "https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/"

    def check(self, part: Pod) -> Iterator[Finding]:
        for container in part.all_containers:
            resources = container.value["resources"]
            names = {
                name
                for kind in ("limits", "requests")
                for name, _ in resources[kind].entries()
                if name.startswith("hugepages-")
            }
            for name in sorted(names):
                limit, request = container.limit(name), container.request(name)
                if not limit.exists or (request.exists and quantity(request) != quantity(limit)):
                    yield self.found(request, f"requests {request.shown} {name}, limit {limit.shown}")
                elif not _has_compute(container):
                    yield self.found(limit, f"has {name} without CPU or memory")


def _has_compute(container: Container) -> bool:
    return any(container.limit(name).exists or container.request(name).exists for name in ("cpu", "memory"))


class HeadSeesGpus(RayClusterRule):
    """On a node whose default runtime is NVIDIA's, a pod without a GPU limit sees all GPUs: a head there takes
    part in them and their engines run out of memory."""

    number = "EF030"
    level = Level.WARNING
    mend = "Set NVIDIA_VISIBLE_DEVICES=void for the head, or keep it off GPU nodes"
    source = "https://github.com/NVIDIA/k8s-device-plugin#quick-start"

    def check(self, part: RayCluster) -> Iterator[Finding]:
        head = part.head
        tolerated = {each["key"].text for each in head.pod.spec["tolerations"].items()}
        selected = head.pod.node_selector("nvidia.com/gpu.present").exists
        visible = head.ray_container.environment("NVIDIA_VISIBLE_DEVICES").text
        if head.pod.containers and not head.pod.count(GPU) and visible not in {"void", "none"}:
            if selected:
                at = head.pod.node_selector("nvidia.com/gpu.present")
                yield self.found(at, "the head, without a GPU of its own, runs on a GPU node")
            elif GPU in tolerated and not head.pod.spec["nodeSelector"].exists:
                yield self.found(
                    head.pod.spec["tolerations"], "the head, without a GPU of its own, goes on GPU nodes"
                )


class UnusedInstanceStore(SubjectRule):
    """The disks of an instance store stay unused unless the node is told to join them: images and weights go to
    the slower root volume, which they fill."""

    number = "EF031"
    level = Level.WARNING
    mend = "Set instanceStorePolicy: RAID0 in the EC2NodeClass"
    source = "https://karpenter.sh/docs/concepts/nodeclasses/#specinstancestorepolicy"

    def check(self, part: Subject) -> Iterator[Finding]:
        with_disks = {
            pool.spec.at("template", "spec", "nodeClassRef", "name").text
            for pool in part.manifests
            if pool.kind == "NodePool" and pool.group == "karpenter.sh" and _only_types_with_disks(pool)
        }
        for manifest in part.manifests:
            if manifest.kind == "EC2NodeClass" and manifest.name.text in with_disks:
                told = manifest.spec["instanceStorePolicy"].exists or "localStorage" in (
                    manifest.spec["userData"].text or ""
                )
                if not told:
                    yield self.found(manifest.spec, "leaves the instance store of its GPU nodes unused")


def _only_types_with_disks(pool: Manifest) -> bool:
    for requirement in pool.spec.at("template", "spec", "requirements").items():
        if requirement["key"].text == _INSTANCE_TYPE and requirement["operator"].text == "In":
            kinds = [known_type(value.text or "") for value in requirement["values"].items()]
            return bool(kinds) and all(kind is not None and kind.gpu and kind.nvme for kind in kinds)
    return False


class ParallelPullOnSlowDisk(ManifestRule):
    """Layers that are fetched and unpacked side by side all write at once: on a volume slower than 600 MiB/s the
    pull takes longer than layer by layer. A gp3 volume has 125 unless told otherwise."""

    number = "EF033"
    level = Level.WARNING
    mend = "Set instanceStorePolicy: RAID0 where the type has NVMe, or the volume's throughput to 600 or more"
    source = (
        "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/examples/#enabling-fast-image-pull-experimental"
    )

    def check(self, part: Manifest) -> Iterator[Finding]:
        told = part.spec["userData"]
        if part.kind != "EC2NodeClass" or not _PARALLEL_PULL.search(told.text or ""):
            return
        if part.spec["instanceStorePolicy"].exists or "localStorage" in (told.text or ""):
            return
        speeds = [
            each.at("ebs", "throughput").whole or 0 for each in part.spec["blockDeviceMappings"].items()
        ]
        if max(speeds, default=0) < _LEAST_PULL_MIB_S:
            yield self.found(told, "pulls images in parallel onto a volume slower than 600 MiB/s")


class EksctlZones(ManifestRule):
    """EFA traffic stays in one zone and eksctl wants one zone for a node group with EFA."""

    number = "EF032"
    level = Level.ERROR
    mend = "Write one zone: availabilityZones: [us-east-2a]"
    source = "https://docs.aws.amazon.com/eks/latest/eksctl/elastic-fabric-adapter.html"

    def check(self, part: Manifest) -> Iterator[Finding]:
        if part.kind != "ClusterConfig" or part.group != "eksctl.io":
            return
        for kind in ("nodeGroups", "managedNodeGroups"):
            for group in part.value[kind].items():
                zones = group["availabilityZones"]
                if group["efaEnabled"].is_true and len(list(zones.items())) > 1:
                    yield self.found(zones, f"a node group with EFA stands in {zones.shown.split()[0]} zones")


RULES: tuple[Rule[Any], ...] = (
    EfaOnSomeGroups(),
    UnlockedMemory(),
    RolesMayShareNode(),
    PluginLeavesTypeOut(),
    MofedWithEfa(),
    GroupsInUnlikeZones(),
    ProviderNotEfa(),
    SocketInterfaceSet(),
    DeviceRequestDiffers(),
    LooseHugepages(),
    HeadSeesGpus(),
    UnusedInstanceStore(),
    ParallelPullOnSlowDisk(),
    EksctlZones(),
)
