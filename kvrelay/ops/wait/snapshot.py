"""The world at one moment, as AWS, Kubernetes and Ray describe it: all that phases are judged by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from kvrelay.ops.cluster import Object

RAY_GROUP = "ray.io/group"
RAY_TYPE = "ray.io/node-type"


@dataclass(frozen=True)
class Event:
    """One line of a stack's history that failed."""

    at: datetime
    resource: str
    type: str
    reason: str


@dataclass(frozen=True)
class Stack:
    """A CloudFormation stack; `failures` are oldest first."""

    name: str
    status: str
    created: datetime
    updated: datetime | None = None
    failures: tuple[Event, ...] = ()
    ended: datetime | None = None
    """When its last change ended; None while one is under way."""


@dataclass(frozen=True)
class NodeGroup:
    """An EKS node group, with what EKS and its Auto Scaling group say is wrong."""

    name: str
    status: str
    desired: int
    created: datetime
    issues: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What the endpoint said, asked from a pod inside the cluster."""

    models: tuple[str, ...] = ()
    """The ids it lists; empty when it does not answer."""
    token: bool = False
    """Whether a completion came back."""
    error: str = ""


@dataclass(frozen=True)
class Snapshot:
    """Kubernetes' objects are as the API shows them. What could not be read is in `unread`, by what it is."""

    at: datetime
    stacks: tuple[Stack, ...] = ()
    node_groups: tuple[NodeGroup, ...] = ()
    cluster: str = ""
    """The EKS cluster's status; empty before it exists."""
    cluster_created: datetime | None = None
    nodes: tuple[Object, ...] = ()
    daemon_sets: tuple[Object, ...] = ()
    deployments: tuple[Object, ...] = ()
    pods: tuple[Object, ...] = ()
    """Of the served and the operator's namespace."""
    events: tuple[Object, ...] = ()
    """Of the same."""
    definitions: frozenset[str] = frozenset()
    """Names of CustomResourceDefinitions."""
    ray_service: Object | None = None
    answer: Answer | None = None
    """None while nothing could be asked."""
    engine_logs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The last lines of the engines in each worker pod, from Ray's session logs."""
    unread: Mapping[str, str] = field(default_factory=dict)

    @property
    def readable(self) -> bool:
        """Whether the cluster's API answered."""
        return self.cluster == "ACTIVE" and "kubernetes" not in self.unread

    def stack(self, name: str) -> Stack | None:
        return next((each for each in self.stacks if each.name == name), None)

    def node_group(self, name: str) -> NodeGroup | None:
        """By EKS's name, or by its beginning: CloudFormation appends to it."""
        return next((each for each in self.node_groups if each.name.lower().startswith(name)), None)

    def workers(self, group: str = "") -> list[Object]:
        """Ray worker pods that are not on their way out, of one group or all."""
        return [
            pod
            for pod in self.pods
            if label(pod, RAY_TYPE) == "worker" and group in ("", label(pod, RAY_GROUP)) and not ending(pod)
        ]

    def heads(self) -> list[Object]:
        return [pod for pod in self.pods if label(pod, RAY_TYPE) == "head" and not ending(pod)]

    def events_of(self, item: Object | None, *, kind: str = "") -> Iterator[Object]:
        """Warnings about an object, newest first; by uid where the event has one, else by name."""
        if item is None:
            return
        metadata = item["metadata"]
        for event in sorted(self.events, key=last_seen, reverse=True):
            about = event.get("involvedObject") or event.get("regarding") or {}
            same = (
                about["uid"] == metadata["uid"]
                if about.get("uid") and metadata.get("uid")
                else about.get("name") == metadata["name"]
            )
            if event.get("type") == "Warning" and same and kind in ("", event.get("reason")):
                yield event


def label(item: Object, name: str) -> str:
    return str((item["metadata"].get("labels") or {}).get(name, ""))


def ending(item: Object) -> bool:
    return bool(item["metadata"].get("deletionTimestamp"))


def name_of(item: Object) -> str:
    return str(item["metadata"]["name"])


def time_of(text: str | None) -> datetime | None:
    """A time as Kubernetes writes it."""
    if not text:
        return None
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
    except ValueError:
        return None


def created(item: Object) -> datetime | None:
    return time_of(item["metadata"].get("creationTimestamp"))


def last_seen(event: Object) -> datetime:
    """When an event was last seen."""
    series = event.get("series") or {}
    text = (
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
    )
    return time_of(text) or datetime.min.replace(tzinfo=UTC)


def message(event: Object) -> str:
    return str(event.get("message") or event.get("note") or "")


def condition(item: Object, kind: str) -> Object:
    """A condition of an object's status; empty without it."""
    conditions = (item.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == kind), {})


def holds(item: Object, kind: str) -> bool:
    return condition(item, kind).get("status") == "True"
