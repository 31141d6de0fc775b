"""The life of our RayService under the real operator, with a real Ray head that serves a real Serve app."""

from __future__ import annotations

import time

from kvrelay.local.kubernetes import LocalCluster, gpu_node, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.programs import RAY_HEAD
from kvrelay.settings import Deployment
from tests.kubernetes.product import OPERATOR, node_of, operator_log
from tests.kubernetes.ray_service import OTHER_IMAGE, Service, State, condition

# The operator looks at a RayService every two seconds.
LONG_ENOUGH_TO_ACT = 8


def answer(serving: LocalCluster) -> str:
    """What the served app answers now, asked from inside the head's pod; empty while there is no one head."""
    heads = serving.kubelet.programs.running(RAY_HEAD)
    if len(heads) != 1:
        return ""
    return heads[0][1].run(["wget", "-q", "-T", "5", "-O-", "http://127.0.0.1:8000/"]).stdout


def test_the_service_answers(serving: LocalCluster, service: Service) -> None:
    assert answer(serving) == "hello"
    assert service.state().done


def test_nothing_is_forbidden_to_the_operator(serving: LocalCluster, service: Service) -> None:
    assert service.state().done
    assert "forbidden" not in operator_log(serving)


def test_an_edit_of_the_serve_config_happens_in_place(serving: LocalCluster, service: Service) -> None:
    before = service.state()
    service.serve(word="bonjour")
    wait_for("the new word", lambda: answer(serving) == "bonjour", 120, 1)
    assert service.wait_until_done().active == before.active
    service.serve(word="hello")
    wait_for("the old word", lambda: answer(serving) == "hello", 120, 1)


def test_a_broken_serve_config_fails_although_ready_stays_true(
    serving: LocalCluster, service: Service
) -> None:
    service.serve(broken=True)

    def failed(state: State) -> bool:
        return state.current and ("llm", "DEPLOY_FAILED") in state.applications

    state = service.wait_until("deployment failed", failed)
    assert state.ready
    assert not state.done
    assert "kv_transfer_config is required" in service.message()
    service.serve(word="hello")
    service.wait_until_done()
    wait_for("answers again", lambda: answer(serving) == "hello", 60, 1)


def test_a_changed_number_of_workers_reaches_pods_through_the_ray_cluster_alone(service: Service) -> None:
    """KubeRay counts another number of workers as no change of the RayService's cluster, and does nothing."""
    before = service.state()

    def ask_for_two(spec: Object) -> None:
        groups = spec["rayClusterConfig"]["workerGroupSpecs"]
        next(group for group in groups if group["groupName"] == "decode").update(replicas=2, maxReplicas=2)

    original = service.read()["spec"]["rayClusterConfig"]
    service.edit(ask_for_two)
    service.wait_until_done()
    time.sleep(LONG_ENOUGH_TO_ACT)
    assert len(service.pods("decode")) == 1

    service.scale("decode", 2)
    wait_for("two decode pods", lambda: len(service.pods("decode")) == 2, 60)
    waiting = [pod for pod in service.pods("decode") if not node_of(pod)]
    assert len(waiting) == 1, "the reference deployment has no third GPU node"
    service.scale("decode", 1)
    wait_for("one decode pod", lambda: len([pod for pod in service.pods("decode") if node_of(pod)]) == 1, 60)
    service.edit(lambda spec: spec.update(rayClusterConfig=original))
    assert service.wait_until_done().active == before.active


def test_a_lost_head_comes_back_and_serves(serving: LocalCluster, service: Service) -> None:
    before, head = service.state(), service.head()
    serving.api.delete(
        f"/api/v1/namespaces/{service.namespace}/pods/{head['metadata']['name']}", grace_seconds=0
    )
    wait_for(
        "another head",
        lambda: [
            pod for pod in service.pods("headgroup") if pod["metadata"]["uid"] != head["metadata"]["uid"]
        ],
        60,
    )
    wait_for(
        "answers again",
        lambda: answer(serving) == "hello",
        240,
        1,
    )
    assert service.wait_until_done().active == before.active


def test_a_terminated_gpu_node_is_replaced(serving: LocalCluster, service: Service) -> None:
    before = service.state()
    (decode,) = service.pods("decode")
    serving.kubelet.remove(node_of(decode))
    wait_for("waits for a node", lambda: [pod for pod in service.pods("decode") if not node_of(pod)], 90)
    (waiting,) = service.pods("decode")
    wait_for(
        "says why",
        lambda: "Insufficient" in condition(service.pods("decode")[0], "PodScheduled").get("message", ""),
    )
    assert answer(serving) == "hello"
    replacement = gpu_node(Deployment(), "gpu", "ip-10-0-7-7.us-east-2.compute.internal", plugged=True)
    serving.kubelet.register(replacement)
    wait_for("runs there", lambda: node_of(service.pods("decode")[0]) == replacement.name, 90)
    assert waiting["metadata"]["name"] == service.pods("decode")[0]["metadata"]["name"]
    assert service.wait_until_done().active == before.active


def test_an_operator_that_restarts_in_the_middle_finishes(serving: LocalCluster, service: Service) -> None:
    before = service.state()
    ((pod, _),) = serving.kubelet.programs.running(OPERATOR)
    service.serve(word="late")
    metadata = pod["metadata"]
    serving.api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", grace_seconds=0)
    wait_for("the new word", lambda: answer(serving) == "late", 240, 1)
    assert service.wait_until_done().active == before.active
    service.serve(word="hello")
    wait_for("the old word", lambda: answer(serving) == "hello", 120, 1)


def test_a_changed_image_is_ignored_in_place(service: Service) -> None:
    """Upgrade strategy None: the operator keeps the pods, says nothing, and the toolkit has to say it."""
    before, (old,) = service.state(), service.images()
    service.set_image(OTHER_IMAGE)
    service.wait_until_done()
    time.sleep(LONG_ENOUGH_TO_ACT)
    assert service.state() == before
    assert service.images() == {old}
    service.set_image(old)
