"""What the simulated kubelet reports of pods."""

import pytest

from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.pod_status import Fault, failed, running, succeeded

POD: Object = {
    "metadata": {"name": "a", "namespace": "b", "uid": "c"},
    "spec": {
        "nodeName": "ip-10-0-0-11.us-east-2.compute.internal",
        "initContainers": [
            {"name": "once", "image": "i"},
            {"name": "sidecar", "image": "s", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "main", "image": "m"}],
    },
}


def ready(status: Object) -> str:
    return str(next(each["status"] for each in status["conditions"] if each["type"] == "Ready"))


def test_a_healthy_pod_is_ready_at_its_address() -> None:
    status = running(POD, "10.244.1.1", ready=True)
    assert (status["phase"], ready(status), status["podIP"]) == ("Running", "True", "10.244.1.1")
    assert status["hostIP"] == "10.0.0.11"


def test_init_containers_end_and_sidecars_go_on() -> None:
    states = {
        each["name"]: each["state"]
        for each in running(POD, "10.244.1.1", ready=True)["initContainerStatuses"]
    }
    assert states["once"]["terminated"]["exitCode"] == 0
    assert "running" in states["sidecar"]


def test_pods_on_the_host_network_have_the_nodes_address() -> None:
    pod = {**POD, "spec": {**POD["spec"], "hostNetwork": True}}
    assert running(pod, "10.244.1.1", ready=True)["podIP"] == "10.0.0.11"


@pytest.mark.parametrize(
    ("fault", "phase", "reason"),
    [(Fault.CRASH, "Running", "CrashLoopBackOff"), (Fault.IMAGE_PULL, "Pending", "ImagePullBackOff")],
)
def test_a_broken_pod_says_what_it_waits_for(fault: Fault, phase: str, reason: str) -> None:
    status = failed(POD, "10.244.1.1", fault)
    assert (status["phase"], ready(status)) == (phase, "False")
    assert status["containerStatuses"][0]["state"]["waiting"]["reason"] == reason


def test_a_crash_leaves_its_exit_code() -> None:
    container = failed(POD, "10.244.1.1", Fault.CRASH)["containerStatuses"][0]
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert container["restartCount"] > 0


def test_a_pod_that_is_never_ready_still_runs() -> None:
    status = failed(POD, "10.244.1.1", Fault.NEVER_READY)
    assert (status["phase"], ready(status)) == ("Running", "False")
    assert "running" in status["containerStatuses"][0]["state"]


def test_a_finished_pod_has_succeeded() -> None:
    status = succeeded(POD, "10.244.1.1")
    assert status["phase"] == "Succeeded"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
