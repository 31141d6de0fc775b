"""kvrelay wait names the cause of whatever does not come up, in plain words, and what mends it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from kvrelay.local.aws import faults
from kvrelay.ops.wait.causes import Cause, cause, known_causes
from kvrelay.ops.wait.judging import judge
from kvrelay.ops.wait.phases import Phase, State
from kvrelay.ops.wait.snapshot import Answer, Event, NodeGroup, Snapshot
from tests.ops.recorded import world
from tests.ops.recorded.world import WANTED, at, by_name


def phase(snapshot: Snapshot, name: str) -> Phase:
    return by_name(judge(snapshot, WANTED))[name]


def why(snapshot: Snapshot, name: str) -> Cause:
    found = phase(snapshot, name)
    assert found.cause is not None, found
    assert found.state is (State.FAILED if found.cause.final else State.LATE)
    return found.cause


TAINT = "1 node(s) had untolerated taint {nvidia.com/gpu: present}"
SELECTOR = "1 node(s) didn't match Pod's node affinity/selector"
# What kube-scheduler 1.36 says, and the cause that it tells.
SCHEDULING = {
    f"0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 Insufficient vpc.amazonaws.com/efa, {SELECTOR}.": "GPU",
    f"0/3 nodes are available: 2 Insufficient vpc.amazonaws.com/efa, {SELECTOR}.": "EFA",
    f"0/3 nodes are available: 2 Insufficient hugepages-2Mi, {SELECTOR}.": "huge pages",
    f"0/3 nodes are available: 2 Insufficient memory, {SELECTOR}.": "memory",
    f"0/3 nodes are available: 1 Insufficient cpu, 2 {TAINT[2:]}.": "CPU",
    f"0/3 nodes are available: 2 Insufficient ephemeral-storage, {SELECTOR}.": "disk",
    f"0/3 nodes are available: 1 Too many pods, {TAINT}.": "pods",
    f"0/2 nodes are available: 1 node(s) didn't match pod anti-affinity rules, {SELECTOR}.": "own node",
    f"0/2 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules, {SELECTOR}.": "own node",
    "0/3 nodes are available: 3 node(s) were unschedulable.": "cordoned",
    "0/3 nodes are available: 3 node(s) had untolerated taint {node.kubernetes.io/not-ready: }.": "not ready",
    "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.": "selector",
    "0/3 nodes are available: 3 node(s) had untolerated taint {team: blue}.": "taint",
    "no nodes available to schedule pods": "no nodes",
    '0/3 nodes are available: persistentvolumeclaim "weights" not found.': "claim",
    "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.": "unbound claim",
}


@pytest.mark.parametrize(("message", "name"), SCHEDULING.items(), ids=lambda value: value[:60])
def test_a_pending_pod_says_why_by_the_schedulers_message(message: str, name: str) -> None:
    found = why(world.with_worker(world.unscheduled(message)), "workers placed")

    assert found.name == name
    assert found.said.startswith("decode pod ray-llm-decode-b")
    assert found.mend


def test_a_message_that_no_row_knows_is_shown_as_it_is() -> None:
    snapshot = world.with_worker(world.unscheduled("0/3 nodes are available: 3 node(s) had a novel trouble."))

    assert "had a novel trouble" in why(snapshot, "workers placed").said


PULL = 'Back-off pulling image "x": ErrImagePull: rpc error: code = Unknown desc = failed to pull and unpack image: '
WAITING = [
    (("ImagePullBackOff", PULL + "public.ecr.aws/x: not found"), {}, "no such image", True),
    (
        ("ErrImagePull", PULL + "failed to authorize: unexpected status: 401 Unauthorized"),
        {},
        "image refused",
        True,
    ),
    (
        ("ImagePullBackOff", PULL + "write /var/lib/containerd/x: no space left on device"),
        {},
        "no room for the image",
        True,
    ),
    (
        ("ImagePullBackOff", PULL + "dial tcp 75.2.101.78:443: i/o timeout"),
        {},
        "registry out of reach",
        False,
    ),
    (("ImagePullBackOff", PULL + "429 toomanyrequests: Rate exceeded"), {}, "rate limit", False),
    (("ImagePullBackOff", 'Back-off pulling image "x"'), {}, "image", False),
    (("InvalidImageName", "couldn't parse image name"), {}, "no such image", True),
    (
        ("CrashLoopBackOff", "back-off 40s restarting failed container"),
        {"reason": "OOMKilled", "exitCode": 137},
        "out of memory",
        False,
    ),
    (
        ("CrashLoopBackOff", "back-off 40s restarting failed container"),
        {"reason": "Error", "exitCode": 1},
        "crash",
        False,
    ),
    (("CreateContainerConfigError", 'secret "hf-token" not found'), {}, "secret missing", False),
    (
        ("CreateContainerConfigError", "couldn't find key token in Secret inference/hf-token"),
        {},
        "key missing",
        False,
    ),
    (("CreateContainerConfigError", 'configmap "kvrelay-scripts" not found'), {}, "config missing", False),
]


@pytest.mark.parametrize(
    ("waiting", "last", "name", "final"), WAITING, ids=[f"{row[2]}-{row[0][0]}" for row in WAITING]
)
def test_a_container_that_does_not_start_says_why(
    waiting: tuple[str, str], last: dict[str, Any], name: str, final: bool
) -> None:
    found = why(world.with_worker(world.waits(*waiting, last)), "image")

    assert (found.name, found.final) == (name, final)
    assert "ray-llm-decode-b" in found.said


def test_a_container_killed_for_memory_is_named_while_it_starts_again() -> None:
    status = world.running(ready=False)
    status["containerStatuses"][0] |= {
        "ready": False,
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
    }

    assert why(world.with_worker(status, world.warming()), "engines").name == "out of memory"


def test_an_init_container_that_fails_says_its_last_words() -> None:
    status = world.waits("PodInitializing")
    last = {"exitCode": 1, "reason": "Error", "message": "s3://b/m/ holds no object; check serving.weights\n"}
    status["initContainerStatuses"] = [
        {
            "name": "fetch-weights",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": last},
        }
    ]

    found = why(world.with_worker(status), "image")

    assert (found.name, "s3://b/m/ holds no object" in found.said) == ("weights", True)


EVENTS = [
    (
        "FailedMount",
        'MountVolume.SetUp failed for volume "x" : secret "hf-token" not found',
        "secret missing",
    ),
    ("FailedMount", 'persistentvolumeclaim "weights" not found', "claim missing"),
    (
        "FailedCreatePodSandBox",
        "plugin type aws-cni: failed to assign an IP address to container",
        "no address",
    ),
]


@pytest.mark.parametrize(("reason", "message", "name"), EVENTS, ids=[row[2] for row in EVENTS])
def test_a_pod_that_only_its_events_explain(reason: str, message: str, name: str) -> None:
    snapshot = replace(world.pulling(), events=(world.event("ray-llm-decode-b", reason, message),))

    assert why(snapshot, "image").name == name


def test_an_evicted_pod_says_so() -> None:
    status = {**world.waits("ContainerCreating"), "reason": "Evicted", "message": "low on ephemeral-storage"}

    assert why(world.with_worker(status), "image").name == "evicted"


STACK_FAULTS = {
    faults.INSUFFICIENT_CAPACITY: ("no capacity", "AWS has no free g6.8xlarge in us-east-2a now"),
    faults.VCPU_LIMIT_EXCEEDED: ("quota", "vCPU quota is too small for 2 x g6.8xlarge"),
    faults.ADDRESS_LIMIT_EXCEEDED: ("limit", "maximum number of addresses"),
    faults.VPC_LIMIT_EXCEEDED: ("limit", "maximum number of VPCs"),
    faults.ACCESS_DENIED: ("permission", "AWS refuses"),
    "ReservationCapacityExceeded: Capacity Reservation cr-0 is full": (
        "reservation",
        "reservation can't hold",
    ),
    "NodeCreationFailure: Instances failed to join the kubernetes cluster": (
        "nodes do not join",
        "do not join",
    ),
    "Received response status [FAILED] from custom resource. Message returned: Error: b'error: unable to \"x\"'": (
        "manifest",
        "refused a manifest",
    ),
    "Resource of type 'AWS::EKS::Cluster' with identifier 'kvrelay' already exists.": ("exists", "already"),
    "Something that nobody has seen": ("stack", "Something that nobody has seen"),
}


@pytest.mark.parametrize(
    ("reason", "expected"), STACK_FAULTS.items(), ids=[v[0] for v in STACK_FAULTS.values()]
)
def test_a_stack_that_failed_says_why_and_ends_the_waiting(reason: str, expected: tuple[str, str]) -> None:
    cancelled = Event(at(12), "Other", "AWS::EKS::Addon", "Resource creation cancelled")
    failures = (cancelled, Event(at(11), "GpuNodes", "AWS::EKS::Nodegroup", reason))
    broken = world.stack("network", "ROLLBACK_COMPLETE", failures=failures)

    found = why(replace(world.making_network(), stacks=(broken,)), "network")

    assert (found.name, found.final) == (expected[0], True)
    assert expected[1] in found.said
    assert "ROLLBACK_COMPLETE" in found.said


@pytest.mark.parametrize(
    ("issue", "name"),
    [(faults.INSUFFICIENT_CAPACITY, "no capacity"), (faults.VCPU_LIMIT_EXCEEDED, "quota")],
    ids=["capacity", "quota"],
)
def test_a_node_group_tells_of_capacity_and_quota_while_its_stack_still_waits(issue: str, name: str) -> None:
    group = NodeGroup("gpu", "CREATING", 2, at(14), (issue,))

    assert why(replace(world.starting_nodes(), node_groups=(group,)), "GPU nodes").name == name


def test_a_node_that_is_not_ready_is_named_with_its_reason() -> None:
    found = why(replace(world.applied(), nodes=world.nodes(ready="Unknown")), "GPU nodes")

    assert re.match(r"node ip-[\d-]+\.us-east-2\S+ is not ready: container runtime network", found.said)


def test_a_plugin_that_offers_nothing_is_named_with_its_node() -> None:
    found = why(replace(world.operating(), at=at(21), nodes=world.nodes(plugged=False)), "device plugins")

    assert found.name == "plugin at zero"
    assert re.search(r"ip-\S+ offers 0 nvidia.com/gpu", found.said)


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "vpc.amazonaws.com/efa"])
def test_a_plugin_without_a_node_to_run_on_is_named(resource: str) -> None:
    nodes = world.nodes()
    for node in nodes:
        node["status"]["allocatable"].pop(resource, None)
    plugins = tuple(
        world.daemon_set(name, 0) for name in ("nvidia-device-plugin", "aws-efa-k8s-device-plugin")
    )

    found = why(replace(world.operating(), at=at(21), nodes=nodes, daemon_sets=plugins), "device plugins")

    assert found.name == "plugin selects no node"


def test_a_missing_plugin_is_named() -> None:
    snapshot = replace(world.operating(), at=at(21), nodes=world.nodes(plugged=False), daemon_sets=())

    assert why(snapshot, "device plugins").name == "plugin missing"


def test_a_missing_crd_is_named() -> None:
    found = why(replace(world.applied(), definitions=frozenset()), "serving stack")

    assert found.name == "CRD missing"
    assert "rayservices.ray.io" in found.said


def test_a_missing_ray_service_is_named() -> None:
    assert why(replace(world.applied(), ray_service=None), "serving stack").name == "RayService missing"


ADMISSION = [
    (
        "FailedToCreateWorkerPod",
        'Internal error occurred: failed calling webhook "vpod.example.com": timeout',
        "webhook",
        False,
    ),
    (
        "FailedToCreateWorkerPod",
        'admission webhook "policy.example.com" denied the request: no privileged pods',
        "denied by a webhook",
        True,
    ),
    (
        "FailedToCreateWorkerPod",
        'pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged',
        "pod security",
        True,
    ),
    (
        "FailedToCreateWorkerPod",
        'pods "x" is forbidden: exceeded quota: inference, requested: requests.nvidia.com/gpu=1',
        "resource quota",
        True,
    ),
    (
        "FailedToCreateWorkerPod",
        'pods is forbidden: User "kuberay" cannot create resource "pods"',
        "forbidden",
        False,
    ),
    ("InvalidRayServiceSpec", "The RayService spec inference/ray-llm is invalid", "invalid", True),
]


@pytest.mark.parametrize(("reason", "message", "name", "final"), ADMISSION, ids=[row[2] for row in ADMISSION])
@pytest.mark.parametrize("about", ["ray-llm", "ray-llm-x"], ids=["service", "cluster"])
def test_pods_that_are_refused_are_explained_by_events_of_what_makes_them(
    reason: str, message: str, name: str, final: bool, about: str
) -> None:
    events = (world.event(about, reason, message),)
    snapshot = replace(world.operating(), ray_service=world.service(""), events=events)

    found = why(snapshot, "workers placed")

    assert (found.name, found.final) == (name, final)


TRACEBACK = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.13/site-packages/vllm/v1/engine/core.py", line 1, in run_engine_core
{}"""
ENGINE = {
    "huggingface_hub.errors.GatedRepoError: 401 Client Error. Access to model x is restricted": "gated model",
    "huggingface_hub.errors.RepositoryNotFoundError: 404 Client Error. Repository Not Found": "no such model",
    "HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url": "hub out of reach",
    "ValueError: No available memory for the cache blocks. Try increasing it": "no cache memory",
    "ValueError: Free memory on device cuda:0 (1.2/22.0 GiB) on startup is less than desired GPU": "GPU taken",
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "GPU memory",
    "OSError: [Errno 28] No space left on device": "disk full",
    "nixl._bindings.nixlNotFoundError: NIXL_ERR_NOT_FOUND": "fabric",
    "RuntimeError: NIXL compatibility hash mismatch. Local: a, Remote: b": "handshake",
    "RuntimeError: No CUDA GPUs are available": "no driver",
    "ModuleNotFoundError: No module named 'lmcache'": "module",
    "ImportError: Could not import openai_error_ingress": "module",
    "ValueError: Unknown engine argument: max_modle_len": "argument",
    "OSError: [Errno 98] Address already in use": "port",
    "RuntimeError: something of the engine's own": "engine",
}


@pytest.mark.parametrize(("line", "name"), ENGINE.items(), ids=ENGINE.values())
def test_a_serve_app_that_failed_says_why_by_its_engines_last_lines(line: str, name: str) -> None:
    logs = {"ray-llm-decode-b": ("INFO loading", *TRACEBACK.format(line).splitlines())}
    message = "Failed to start replica 3 times in a row: the actor died (ActorDiedError)"
    snapshot = replace(world.loading(), ray_service=world.service("DEPLOY_FAILED", message), engine_logs=logs)

    found = why(snapshot, "engines")

    assert found.name == name
    assert found.said.startswith("application llm is DEPLOY_FAILED: ")
    assert found.final
    assert line in found.evidence


def test_an_application_that_failed_without_logs_says_its_own_message() -> None:
    message = TRACEBACK.format("ValueError: P/D model id mismatch: a != b")
    snapshot = replace(world.loading(), ray_service=world.service("DEPLOY_FAILED", message), engine_logs={})

    assert "P/D model id mismatch" in why(snapshot, "engines").said


def test_an_engine_that_fails_is_named_while_ray_still_starts_it_again() -> None:
    logs = {"ray-llm-decode-b": ("torch.OutOfMemoryError: CUDA out of memory",)}
    found = why(replace(world.loading(), engine_logs=logs), "weights")

    assert (found.name, found.final) == ("GPU memory", False)


ENDPOINT: list[tuple[Answer, str]] = [
    (Answer(error="Connection refused"), "endpoint not ready"),
    (Answer(("other",)), "wrong model"),
    (Answer(("qwen3.5-9b",), error="HTTP 500: Internal Server Error"), "engine"),
    (Answer(("qwen3.5-9b",), error="timed out"), "endpoint not ready"),
]


@pytest.mark.parametrize(("answer", "name"), ENDPOINT, ids=["refused", "other model", "500", "silent"])
def test_an_endpoint_that_is_not_ready_says_what_it_said(answer: Answer, name: str) -> None:
    assert why(replace(world.engines_up(), answer=answer), "endpoint").name == name


def test_engines_that_do_not_agree_are_told_by_decodes_log() -> None:
    logs = {"ray-llm-decode-b": (world.LOADED, world.STARTED, "ERROR NIXL compatibility hash mismatch. a, b")}

    assert why(replace(world.engines_up(), engine_logs=logs), "handshake").name == "handshake"


@pytest.mark.parametrize("kind", ["aws", "scheduling", "container", "admission", "engine"])
def test_every_row_has_words_and_a_mend_for_the_names_that_it_uses(kind: str) -> None:
    known = {*WANTED.context, "line", "pod", "image"}
    for row in known_causes(kind):
        used = set(re.findall(r"\{(\w+)\}", row.said + row.mend))
        assert used <= known | set(row.pattern.groupindex), row.name
        assert row.said
        assert row.mend


def test_a_long_message_is_cut_to_a_line() -> None:
    found = cause("engine", "RuntimeError: " + "x" * 5000, WANTED.context)

    assert found is not None
    assert len(found.said) < 300
    assert "\n" not in found.said


def test_a_token_among_the_words_of_a_failed_engine_is_shown_nowhere() -> None:
    logs = {"ray-llm-decode-b": ("RuntimeError: no such thing with token=hf_PlantedTokenAbCdEf123456",)}
    snapshot = replace(world.loading(), ray_service=world.service("DEPLOY_FAILED", "x"), engine_logs=logs)

    found = why(snapshot, "engines")

    assert "RuntimeError" in found.said
    assert "hf_Planted" not in repr(found)
