"""One RayService under test: its state at a glance, its pods by role, and edits to it."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from kvrelay.local.kubernetes import Api, ApiError, wait_for
from kvrelay.local.kubernetes.api import Object

API_VERSION = "ray.io/v1"
READY_SECONDS = 240
OTHER_IMAGE = "example.com/another/ray:2.58.0"


def with_tiny_app(service: Object, *, word: str = "hello", broken: bool = False, group: str = "") -> Object:
    """The RayService with only its applications replaced; how Serve listens stays as it is.

    With `group`, the app needs a worker of it, as an engine does.
    """
    changed = copy.deepcopy(service)
    config = yaml.safe_load(changed["spec"]["serveConfigV2"])
    arguments: Object = {"word": word, "broken": broken}
    if group:
        arguments["resources"] = {f"kvrelay_{group}": 0.01}
    app = {"name": "llm", "route_prefix": "/", "import_path": "tiny_app:build", "args": arguments}
    changed["spec"]["serveConfigV2"] = yaml.safe_dump({**config, "applications": [app]})
    return changed


@dataclass(frozen=True)
class State:
    """What matters of a RayService's status."""

    ready: bool
    upgrading: bool
    current: bool
    """Whether the operator has seen the newest spec."""
    applications: tuple[tuple[str, str], ...]
    """Name and status of each application of the active cluster."""
    active: str
    pending: str

    @property
    def done(self) -> bool:
        """All that was asked for serves: Ready alone stays True when a new config fails."""
        running = bool(self.applications) and all(status == "RUNNING" for _, status in self.applications)
        return self.ready and self.current and not self.upgrading and running


class Service:
    """A RayService in a cluster, by name."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self.api = api
        self.namespace = namespace
        self.name = name
        self.history: list[State] = []

    def read(self) -> Object:
        return self.api.get(API_VERSION, "RayService", self.name, self.namespace)

    def exists(self) -> bool:
        return self.api.find(API_VERSION, "RayService", self.name, self.namespace) is not None

    def state(self) -> State:
        item = self.read()
        status = item.get("status", {})
        conditions = {each["type"]: each["status"] == "True" for each in status.get("conditions", [])}
        active, pending = status.get("activeServiceStatus") or {}, status.get("pendingServiceStatus") or {}
        applications = active.get("applicationStatuses") or {}
        state = State(
            ready=conditions.get("Ready", False),
            upgrading=conditions.get("UpgradeInProgress", False),
            current=status.get("observedGeneration") == item["metadata"]["generation"],
            applications=tuple(sorted((name, each["status"]) for name, each in applications.items())),
            active=active.get("rayClusterName", ""),
            pending=pending.get("rayClusterName", ""),
        )
        if not self.history or self.history[-1] != state:
            self.history.append(state)
        return state

    def wait_until(self, what: str, check: Callable[[State], bool], seconds: float = READY_SECONDS) -> State:
        """Returns the first state that passes; all states seen are in `history`."""

        def passing() -> State | None:
            state = self.state()
            return state if check(state) else None

        found = wait_for(what, passing, seconds, 0.5)
        assert found is not None
        return found

    def wait_until_done(self, seconds: float = READY_SECONDS) -> State:
        return self.wait_until(f"{self.name} serves", lambda state: state.done, seconds)

    def message(self) -> str:
        """What the applications say of themselves."""
        status = self.read().get("status", {}).get("activeServiceStatus") or {}
        return " ".join(
            each.get("message", "") for each in (status.get("applicationStatuses") or {}).values()
        )

    def edit(self, change: Callable[[Object], None]) -> None:
        """Changes the spec as `kubectl edit` does, again where the operator was quicker."""

        def tried() -> bool:
            item = self.read()
            change(item["spec"])
            try:
                self.api.request("PUT", self.api.path_of(item), item)
            except ApiError as error:
                if error.status == 409:
                    return False
                raise
            return True

        wait_for("edit accepted", tried, 20)

    def serve(self, *, word: str = "hello", broken: bool = False) -> None:
        """Deploys another tiny app in place."""
        item = with_tiny_app(self.read(), word=word, broken=broken)
        config: Any = item["spec"]["serveConfigV2"]
        self.edit(lambda spec: spec.update(serveConfigV2=config))

    def set_image(self, image: str) -> None:
        """Another image for the head and all workers."""

        def change(spec: Object) -> None:
            config = spec["rayClusterConfig"]
            for group in (config["headGroupSpec"], *config["workerGroupSpecs"]):
                group["template"]["spec"]["containers"][0]["image"] = image

        self.edit(change)

    def images(self) -> set[str]:
        """What the pods that stay run."""
        return {
            pod["spec"]["containers"][0]["image"]
            for pod in self.pods()
            if not pod["metadata"].get("deletionTimestamp")
        }

    def scale(self, group: str, count: int) -> None:
        """Another number of workers, said to the active Ray cluster itself."""
        ray_cluster = self.ray_cluster()
        groups = ray_cluster["spec"]["workerGroupSpecs"]
        (index,) = [number for number, each in enumerate(groups) if each["groupName"] == group]
        names = ("replicas", "minReplicas", "maxReplicas")
        self.api.patch(
            self.api.path_of(ray_cluster),
            [
                {"op": "add", "path": f"/spec/workerGroupSpecs/{index}/{name}", "value": count}
                for name in names
            ],
            kind="json",
        )

    def ray_cluster(self) -> Object:
        """The active Ray cluster."""
        return self.api.get(API_VERSION, "RayCluster", self.state().active, self.namespace)

    def delete_ray_cluster(self, name: str) -> None:
        self.api.delete(self.api.path(API_VERSION, "RayCluster", self.namespace, name))

    def delete(self) -> None:
        self.api.delete(self.api.path(API_VERSION, "RayService", self.namespace, self.name))

    def pods(self, group: str | None = None, cluster: str | None = None) -> list[Object]:
        """The pods of a group (`headgroup` for the head), or all of the service's."""
        labels = ["ray.io/cluster"]
        if group:
            labels.append(f"ray.io/group={group}")
        if cluster:
            labels.append(f"ray.io/cluster={cluster}")
        return self.api.list("v1", "Pod", self.namespace, labels=",".join(labels))

    def head(self) -> Object:
        """The one head pod."""
        (head,) = self.pods("headgroup")
        return head

    @contextmanager
    def recorded(self) -> Iterator[list[State]]:
        """All states that the service passes through meanwhile."""
        self.history = []
        ended = threading.Event()

        def follow() -> None:
            while not ended.wait(0.2):
                try:
                    self.state()
                except ApiError:
                    time.sleep(0.2)

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        try:
            yield self.history
        finally:
            ended.set()
            thread.join(10)


def condition(item: Object, kind: str) -> Object:
    """An object's condition of that type; empty where it has none."""
    return next((each for each in item["status"].get("conditions", []) if each["type"] == kind), {})
