"""The life of our RayService under the real operator, with a real Ray head that serves a real Serve app."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvrelay.local.kubernetes import LocalCluster, gpu_node, wait_for
from kvrelay.local.kubernetes.api import Object
from kvrelay.local.kubernetes.programs import OPERATOR, RAY_HEAD, ray_head
from kvrelay.local.kubernetes.ray_environment import ray_environment
from kvrelay.settings import Deployment
from tests.kubernetes.product import ray_service_of, running_product
from tests.kubernetes.ray_service import Service, State, condition, with_tiny_app


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalCluster, Service]]:
    """The product on the reference deployment's nodes, already serving; tests here leave it serving."""
    deployment = Deployment()
    head = ray_head(ray_environment(), {"PYTHONPATH": str(Path(__file__).parent / "serve_apps")})
    with running_product(tmp_path_factory.mktemp("cluster"), deployment, programs=[head]) as cluster:
        cluster.api.apply(with_tiny_app(ray_service_of(deployment)))
        service = Service(cluster.api, deployment.serving.namespace, deployment.serving.service_name)
        with service.recorded() as history:
            first = service.wait_until_done()
        assert history[-1] == first
        yield cluster, service


@pytest.fixture
def cluster(product: tuple[LocalCluster, Service]) -> LocalCluster:
    return product[0]


@pytest.fixture
def service(product: tuple[LocalCluster, Service], request: pytest.FixtureRequest) -> Iterator[Service]:
    """The service, serving; every state of it during the test goes to the cluster's `states` folder."""
    cluster, service = product
    service.wait_until_done()
    with service.recorded() as history:
        yield service
    folder = cluster.folder / "states"
    folder.mkdir(exist_ok=True)
    (folder / f"{request.node.name}.json").write_text(
        json.dumps([vars(state) for state in history], indent=1)
    )


def answer(cluster: LocalCluster) -> str:
    """What the served app answers now, asked from inside the head's pod."""
    ((_, head),) = cluster.kubelet.programs.running(RAY_HEAD)
    return head.run(["wget", "-q", "-T", "5", "-O-", "http://127.0.0.1:8000/"]).stdout


def operator_log(cluster: LocalCluster) -> Path:
    ((_, operator),) = cluster.kubelet.programs.running(OPERATOR)
    return operator.log


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def test_the_service_answers(cluster: LocalCluster, service: Service) -> None:
    assert answer(cluster) == "hello"
    assert service.state().done


def test_nothing_is_forbidden_to_the_operator(cluster: LocalCluster, service: Service) -> None:
    assert service.state().done
    assert "forbidden" not in operator_log(cluster).read_text()


def test_an_edit_of_the_serve_config_happens_in_place(cluster: LocalCluster, service: Service) -> None:
    before = service.state()
    service.serve(word="bonjour")
    wait_for("the new word", lambda: answer(cluster) == "bonjour", 120, 1)
    assert service.wait_until_done().active == before.active
    service.serve(word="hello")
    wait_for("the old word", lambda: answer(cluster) == "hello", 120, 1)


def test_a_broken_serve_config_fails_although_ready_stays_true(
    cluster: LocalCluster, service: Service
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
    wait_for("answers again", lambda: answer(cluster) == "hello", 60, 1)


def test_a_changed_number_of_replicas_keeps_the_cluster(service: Service) -> None:
    before = service.state()

    def set_replicas(count: int) -> None:
        def change(spec: Object) -> None:
            group = next(
                each for each in spec["rayClusterConfig"]["workerGroupSpecs"] if each["groupName"] == "decode"
            )
            group.update(replicas=count, minReplicas=count, maxReplicas=count)

        service.edit(change)

    set_replicas(2)
    wait_for("two decode pods", lambda: len(service.pods("decode")) == 2, 60)
    waiting = [pod for pod in service.pods("decode") if pod["status"]["phase"] == "Pending"]
    assert len(waiting) == 1, "the reference deployment has no third GPU node"
    set_replicas(1)
    wait_for("one decode pod", lambda: len(service.pods("decode")) == 1, 60)
    assert service.wait_until_done().active == before.active


def test_a_lost_head_comes_back_and_serves(cluster: LocalCluster, service: Service) -> None:
    before, head = service.state(), service.head()
    cluster.api.delete(
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
        lambda: cluster.kubelet.programs.running(RAY_HEAD) and answer(cluster) == "hello",
        240,
        1,
    )
    assert service.wait_until_done().active == before.active


def test_a_terminated_gpu_node_is_replaced(cluster: LocalCluster, service: Service) -> None:
    before = service.state()
    (decode,) = service.pods("decode")
    cluster.kubelet.remove(node_of(decode))
    wait_for("waits for a node", lambda: [pod for pod in service.pods("decode") if not node_of(pod)], 90)
    (waiting,) = service.pods("decode")
    wait_for(
        "says why",
        lambda: "Insufficient" in condition(service.pods("decode")[0], "PodScheduled").get("message", ""),
    )
    assert answer(cluster) == "hello"
    replacement = gpu_node(Deployment(), "gpu", "ip-10-0-7-7.us-east-2.compute.internal", plugged=True)
    cluster.kubelet.register(replacement)
    wait_for("runs there", lambda: node_of(service.pods("decode")[0]) == replacement.name, 90)
    assert waiting["metadata"]["name"] == service.pods("decode")[0]["metadata"]["name"]
    assert service.wait_until_done().active == before.active


def test_an_operator_that_restarts_in_the_middle_finishes(cluster: LocalCluster, service: Service) -> None:
    before = service.state()
    ((pod, _),) = cluster.kubelet.programs.running(OPERATOR)
    service.serve(word="late")
    metadata = pod["metadata"]
    cluster.api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", grace_seconds=0)
    wait_for("the new word", lambda: answer(cluster) == "late", 240, 1)
    assert service.wait_until_done().active == before.active
    service.serve(word="hello")
    wait_for("the old word", lambda: answer(cluster) == "hello", 120, 1)


def test_a_changed_image_is_ignored_in_place(service: Service) -> None:
    """Upgrade strategy None: the operator keeps the pods, says nothing, and the toolkit has to say it."""
    before, old = service.state(), service.head()["spec"]["containers"][0]["image"]

    def set_image(image: str) -> None:
        def change(spec: Object) -> None:
            config = spec["rayClusterConfig"]
            for group in (config["headGroupSpec"], *config["workerGroupSpecs"]):
                group["template"]["spec"]["containers"][0]["image"] = image

        service.edit(change)

    set_image("example.com/another/ray:2.58.0")
    state = service.wait_until_done()
    assert state.active == before.active
    assert {pod["spec"]["containers"][0]["image"] for pod in service.pods()} == {old}
    set_image(old)


def test_deleting_the_service_takes_everything_of_it(
    cluster: LocalCluster, product: tuple[LocalCluster, Service]
) -> None:
    service = product[1]
    service.delete()
    wait_for("pods gone", lambda: not service.pods(), 120)
    assert not cluster.api.list("ray.io/v1", "RayCluster", service.namespace)
    wait_for("head gone", lambda: not cluster.kubelet.programs.running(RAY_HEAD), 30)
