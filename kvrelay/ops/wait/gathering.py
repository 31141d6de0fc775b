"""Reads one snapshot from AWS, Kubernetes and the pods; what can't be read is noted, and the rest goes on."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kvrelay.errors import UserError
from kvrelay.ops.cluster import Access, Cluster, ClusterError, Object, connect, find_access
from kvrelay.ops.cluster.masking import Masker
from kvrelay.ops.cluster.pod_scripts import ask_endpoint, tail_logs
from kvrelay.ops.deploy import STACKS
from kvrelay.ops.preflight.aws import Aws
from kvrelay.ops.preflight.refusals import refusal
from kvrelay.ops.wait.cluster_phases import runs_since
from kvrelay.ops.wait.serving_phases import engines_run
from kvrelay.ops.wait.snapshot import (
    Answer,
    Event,
    NodeGroup,
    Snapshot,
    Stack,
    holds,
    name_of,
)
from kvrelay.ops.wait.wanted import Wanted

OPERATOR_NAMESPACE, SYSTEM_NAMESPACE = "kuberay-system", "kube-system"
_LOG_LINES = 40
_MOST_FAILURES = 20


@dataclass
class Gatherer:
    """Looks at one deployment again and again; keeps its connection to the cluster."""

    aws: Aws
    wanted: Wanted
    find: Callable[[Aws, str], Access] = find_access
    unread: dict[str, str] = field(default_factory=dict)
    _cluster: Cluster | None = None
    # What stacks at rest said of their end: it changes no more.
    _ended: dict[tuple[str, str, str], tuple[datetime | None, tuple[Event, ...]]] = field(
        default_factory=dict
    )

    def look(self) -> Snapshot:
        """The world now. Raises UserError only for credentials that AWS does not take at all."""
        self.unread = {}
        found: dict[str, Any] = {"at": datetime.now(UTC)}
        found["stacks"] = self._read("stacks", lambda: tuple(self._stacks()), ())
        described = self._read("cluster", self._described, {})
        if described:
            found["cluster"], found["cluster_created"] = described["status"], described["createdAt"]
            found["node_groups"] = self._read("node groups", lambda: tuple(self._node_groups()), ())
        if described.get("status") == "ACTIVE":
            found |= self._kubernetes()
        masker = Masker()
        return Snapshot(**found, unread={what: masker.text(reason) for what, reason in self.unread.items()})

    def connection(self) -> Cluster:
        """The way into the cluster. Raises UserError, and botocore's errors."""
        if self._cluster is None:
            self._cluster = connect(self.find(self.aws, self.wanted.name))
        return self._cluster

    def _read(self, what: str, read: Callable[[], Any], otherwise: Any) -> Any:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return read()
        except (BotoCoreError, ClientError) as error:
            row = refusal(what, error)
            if what == "stacks" and row.status == "fail":
                raise UserError(f"AWS: {row.found}; {row.mend}") from None
            self.unread[what] = row.found
        except UserError as error:
            self.unread[what] = str(error)
        return otherwise

    def _stacks(self) -> Iterator[Stack]:
        client = self.aws.client("cloudformation")
        names = {f"{self.wanted.name}-{part}" for part in STACKS}
        for row in self.aws.pages("cloudformation", "describe_stacks", "Stacks"):
            if row["StackName"] not in names or row["StackStatus"] == "DELETE_COMPLETE":
                continue
            updated = row.get("LastUpdatedTime")
            if row["StackStatus"].endswith("IN_PROGRESS") and "ROLLBACK" not in row["StackStatus"]:
                yield Stack(row["StackName"], row["StackStatus"], row["CreationTime"], updated)
                continue
            key = (row["StackId"], row["StackStatus"], str(updated))
            if key not in self._ended:
                events = client.describe_stack_events(StackName=row["StackName"])["StackEvents"]
                ended = None if row["StackStatus"].endswith("IN_PROGRESS") else events[0]["Timestamp"]
                self._ended[key] = ended, _last_failures(events)
            ended, failures = self._ended[key]
            yield Stack(row["StackName"], row["StackStatus"], row["CreationTime"], updated, failures, ended)

    def _described(self) -> dict[str, Any]:
        eks = self.aws.client("eks")
        try:
            cluster: dict[str, Any] = eks.describe_cluster(name=self.wanted.name)["cluster"]
        except eks.exceptions.ResourceNotFoundException:
            return {}
        return cluster

    def _node_groups(self) -> Iterator[NodeGroup]:
        eks = self.aws.client("eks")
        for name in self.aws.pages("eks", "list_nodegroups", "nodegroups", clusterName=self.wanted.name):
            row = eks.describe_nodegroup(clusterName=self.wanted.name, nodegroupName=name)["nodegroup"]
            issues = [f"{each['code']}: {each['message']}" for each in row["health"]["issues"]]
            if row["status"] != "ACTIVE" or issues:
                issues += self._launches(row)
            yield NodeGroup(
                name, row["status"], row["scalingConfig"]["desiredSize"], row["createdAt"], tuple(issues)
            )

    def _launches(self, row: dict[str, Any]) -> list[str]:
        """What the Auto Scaling groups say of their last failed launches: sooner than EKS does."""
        from botocore.exceptions import BotoCoreError, ClientError

        said = []
        for group in row.get("resources", {}).get("autoScalingGroups", ()):
            with contextlib.suppress(BotoCoreError, ClientError):
                found = self.aws.client("autoscaling").describe_scaling_activities(
                    AutoScalingGroupName=group["name"], MaxRecords=5
                )
                said += [
                    each["StatusMessage"]
                    for each in found["Activities"]
                    if each["StatusCode"] == "Failed" and each.get("StatusMessage")
                ]
        return said

    def _kubernetes(self) -> dict[str, Any]:
        wanted = self.wanted
        try:
            cluster = self.connection()
            nodes = tuple(cluster.list("/api/v1/nodes"))
        except UserError as error:
            self._cluster = None
            self.unread["kubernetes"] = str(error)
            return {}
        spaces = (wanted.namespace, OPERATOR_NAMESPACE)

        def both(prefix: str, kind: str) -> tuple[Object, ...]:
            return tuple(
                item
                for space in spaces
                for item in self._list(cluster, f"{prefix}/namespaces/{space}/{kind}")
            )

        system = f"/namespaces/{SYSTEM_NAMESPACE}"
        plugins = [
            pod
            for pod in self._list(cluster, f"/api/v1{system}/pods")
            if "device-plugin" in pod["metadata"]["name"]
        ]
        definitions = self._list(cluster, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
        found: dict[str, Any] = {
            "nodes": nodes,
            "daemon_sets": tuple(self._list(cluster, f"/apis/apps/v1{system}/daemonsets")),
            "deployments": both("/apis/apps/v1", "deployments"),
            "pods": (*both("/api/v1", "pods"), *plugins),
            "events": (*both("/api/v1", "events"), *self._list(cluster, f"/api/v1{system}/events")),
            "definitions": frozenset(map(name_of, definitions)),
            "ray_service": self._ray_service(cluster),
        }
        found |= self._inside(cluster, Snapshot(datetime.now(UTC), **found))
        return found

    def _list(self, cluster: Cluster, path: str) -> list[Object]:
        try:
            return cluster.list(path)
        except ClusterError as error:
            if error.status != 404:
                self.unread[path.rpartition("/")[2]] = str(error)
            return []

    def _ray_service(self, cluster: Cluster) -> Object | None:
        path = f"/apis/ray.io/v1/namespaces/{self.wanted.namespace}/rayservices/{self.wanted.service}"
        try:
            return cluster.get(path)
        except ClusterError as error:
            if error.status != 404:
                self.unread["ray service"] = str(error)
            return None

    def _inside(self, cluster: Cluster, snapshot: Snapshot) -> dict[str, Any]:
        """What the pods themselves say; only where they run."""
        wanted, found = self.wanted, dict[str, Any]()
        logs = {}
        for pod in snapshot.workers():
            if runs_since(pod):
                with self._noting("engines' logs"):
                    text = self._run(cluster, pod, tail_logs(_LOG_LINES))
                    logs[name_of(pod)] = tuple(text.splitlines())
        found["engine_logs"] = logs
        head = next((pod for pod in snapshot.heads() if holds(pod, "Ready")), None)
        if head and engines_run(snapshot):
            url = f"http://{wanted.service}-serve-svc.{wanted.namespace}:{serve_port(snapshot)}"
            with self._noting("endpoint"):
                said = json.loads(self._run(cluster, head, ask_endpoint(url, wanted.model), seconds=40))
                found["answer"] = Answer(tuple(said["models"]), bool(said["token"]), str(said["error"]))
        return found

    def _run(self, cluster: Cluster, pod: Object, command: tuple[str, ...], seconds: float = 20) -> str:
        container = pod["spec"]["containers"][0]["name"]
        return cluster.run(self.wanted.namespace, name_of(pod), container, command, seconds=seconds)

    @contextlib.contextmanager
    def _noting(self, what: str) -> Iterator[None]:
        try:
            yield
        except UserError as error:
            self.unread[what] = str(error)
        except (ValueError, KeyError, TypeError) as error:
            self.unread[what] = f"the pod's answer can't be read: {error}"


def serve_port(snapshot: Snapshot) -> int:
    """The port that the head's container calls serve; Serve's own default where none is named."""
    ports = (port for pod in snapshot.heads() for port in pod["spec"]["containers"][0].get("ports") or ())
    return next((int(each["containerPort"]) for each in ports if each.get("name") == "serve"), 8000)


def _last_failures(events: list[dict[str, Any]]) -> tuple[Event, ...]:
    """The failures of the last operation, oldest first; `events` are newest first, as AWS gives them."""
    failures: list[Event] = []
    for row in events:
        own = (
            row["ResourceType"] == "AWS::CloudFormation::Stack"
            and row["LogicalResourceId"] == row["StackName"]
        )
        if own and row["ResourceStatus"] in ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS"):
            break
        if row["ResourceStatus"].endswith("FAILED") and not own:
            reason = str(row.get("ResourceStatusReason", ""))
            failures.append(Event(row["Timestamp"], row["LogicalResourceId"], row["ResourceType"], reason))
    return tuple(reversed(failures))[:_MOST_FAILURES]
