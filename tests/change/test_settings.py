"""Each setting's change, both ways, gets the class that CloudFormation, EKS and KubeRay give it."""

from __future__ import annotations

import pytest

from kvrelay.change import Comparison, Effect, compare, read_synthesis
from kvrelay.settings import read_deployment
from tests.change.conftest import Checkout

IN_PLACE, ROLLING, RAY, NODES, LOSS = (effect for effect in Effect if effect)
GROUP = "gpu_nodes: {groups: [{%s}]}"

# deployment.yaml against the reference, the setting, the class on the way there, the class on the way back.
CHANGES = [
    ("network: {nat_gateways: one-per-zone}", "network.nat_gateways", IN_PLACE, ROLLING),
    ("network: {cidr: 10.1.0.0/16}", "network.cidr", LOSS, LOSS),
    ("network: {interface_endpoints: [sts]}", "network.interface_endpoints", IN_PLACE, IN_PLACE),
    ("network: {flow_log_retention_days: 7}", "network.flow_log_retention_days", IN_PLACE, IN_PLACE),
    ("cluster: {public_access_cidrs: [203.0.113.7/32]}", "cluster.public_access_cidrs", IN_PLACE, IN_PLACE),
    (
        'cluster: {admins: ["arn:aws:iam::123456789012:role/platform"]}',
        "cluster.admins",
        IN_PLACE,
        IN_PLACE,
    ),
    ("cluster: {log_retention_days: 90}", "cluster.log_retention_days", IN_PLACE, IN_PLACE),
    ("system_nodes: {instance_type: m7i.2xlarge}", "system_nodes.instance_type", NODES, NODES),
    ("system_nodes: {count: 2}", "system_nodes.count", IN_PLACE, NODES),
    ("system_nodes: {root_volume_gib: 80}", "system_nodes.root_volume_gib", NODES, NODES),
    (GROUP % "instance_type: g6e.8xlarge", "gpu_nodes.groups[0].instance_type", NODES, NODES),
    (GROUP % "count: 3", "gpu_nodes.groups[0].count", IN_PLACE, NODES),
    (GROUP % "max_count: 4", "gpu_nodes.groups[0].max_count", IN_PLACE, IN_PLACE),
    (GROUP % "root_volume_gib: 300", "gpu_nodes.groups[0].root_volume_gib", NODES, NODES),
    (GROUP % "capacity: {type: spot}", "gpu_nodes.groups[0].capacity.type", NODES, NODES),
    (GROUP % "image_pull: sequential", "gpu_nodes.groups[0].image_pull", NODES, NODES),
    (
        "account: '123456789012'\nimages: {mirror: ecr}",
        "images.mirror",
        RAY,
        RAY,
    ),
    (GROUP % "name: l4", "gpu_nodes.groups[0].name", NODES, NODES),
    (
        GROUP % "capacity: {type: reservation, reservation_id: cr-0123456789abcdef0}",
        "gpu_nodes.groups[0].capacity",
        NODES,
        NODES,
    ),
    ("gpu_nodes: {placement_group: true}", "gpu_nodes.placement_group", NODES, NODES),
    ("gpu_nodes: {zone: us-east-2b}", "gpu_nodes.zone", NODES, NODES),
    ("serving: {namespace: llm}", "serving.namespace", LOSS, LOSS),
    ("serving: {service_name: other}", "serving.service_name", LOSS, LOSS),
    (
        "serving: {image: 'public.ecr.aws/deep-learning-containers/ray:serve-llm-cuda'}",
        "serving.image",
        RAY,
        RAY,
    ),
    ("serving: {security_profile: ipc-lock}", "serving.security_profile", RAY, RAY),
    ("serving: {hugepages_mib: 1024}", "serving.hugepages_mib", RAY, RAY),
    (
        "serving: {weights: {source: hugging-face, token_kubernetes_secret: token}}",
        "serving.weights",
        RAY,
        RAY,
    ),
    ("serving: {weights: {source: s3, bucket: models, prefix: qwen}}", "serving.weights", RAY, RAY),
    # The head asks for less, so that two of them share the system node: that alone is another cluster.
    ("serving: {upgrade: surge}\n" + GROUP % "max_count: 4", "serving.upgrade", RAY, RAY),
    (
        "serving: {operator_feature_gates: {RayJobDeletionPolicy: false}}",
        "serving.operator_feature_gates",
        ROLLING,
        ROLLING,
    ),
    ("serving: {serve_config: serve_configs/qwen3-8b.yaml}", "serving.serve_config", IN_PLACE, IN_PLACE),
    # A tag reaches the launch template, whose new version gives every group new nodes.
    ("tags: {team: ml}", "tags.team", NODES, NODES),
    ("name: other", "name", LOSS, LOSS),
    ("zones: [us-east-2a, us-east-2c]", "zones[1]", LOSS, LOSS),
]


def _compared(checkout: Checkout, base: str, head: str) -> Comparison:
    old, new = checkout(base), checkout(head)
    return compare(
        read_synthesis(old),
        read_synthesis(new),
        read_deployment(old / "deployment.yaml"),
        read_deployment(new / "deployment.yaml"),
    )


@pytest.mark.parametrize(("edit", "setting", "there", "back"), CHANGES, ids=lambda each: str(each))
def test_a_setting_has_its_class_both_ways(
    checkout: Checkout, edit: str, setting: str, there: Effect, back: Effect
) -> None:
    forth = _compared(checkout, "{}", edit)
    home = _compared(checkout, edit, "{}")
    assert (forth.effect, home.effect) == (there, back), [str(each) for each in forth.changes]
    assert any(cause.startswith(setting) for change in forth.changes for cause in change.causes)
    assert (forth.before, forth.after) == (home.after, home.before)


def test_the_same_deployment_twice_changes_nothing(checkout: Checkout) -> None:
    assert _compared(checkout, "{}", "name: kvrelay").changes == ()


@pytest.mark.parametrize(
    ("edit", "cause"),
    [
        (("max_model_len: 4096", "max_model_len: 2048"), "engine_kwargs.max_model_len"),
        (
            ("gpu_memory_utilization: 0.9", "gpu_memory_utilization: 0.8"),
            "engine_kwargs.gpu_memory_utilization",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_engine_setting_restarts_engines_in_the_running_cluster(
    checkout: Checkout, edit: tuple[str, str], cause: str
) -> None:
    old, new = checkout(), checkout("{}", edit)
    files = [read_deployment(each / "deployment.yaml") for each in (old, new)]
    found = compare(read_synthesis(old), read_synthesis(new), files[0], files[1])
    assert found.effect == IN_PLACE
    assert found.downtime_seconds
    assert any(cause in each for each in found.changes[0].causes)


def test_of_two_settings_each_change_names_its_own(checkout: Checkout) -> None:
    found = _compared(checkout, "{}", "network: {flow_log_retention_days: 7}\nsystem_nodes: {count: 2}")
    causes = {change.subject: change.causes for change in found.changes}
    assert causes["SystemNodesNodeGroup897D00FD"] == ("system_nodes.count",)
    assert ("network.flow_log_retention_days",) in causes.values()


def test_more_nodes_cost_more_and_count_against_the_quota(checkout: Checkout) -> None:
    found = _compared(checkout, "{}", GROUP % "count: 3")
    assert found.before
    assert found.before.usd_per_hour
    assert found.after.usd_per_hour
    assert found.after.usd_per_hour > found.before.usd_per_hour
    name = "Running On-Demand G and VT instances"
    assert found.after.vcpus[name] - found.before.vcpus[name] == 32


def test_a_new_ray_cluster_beside_the_old_one_needs_room_for_both(checkout: Checkout) -> None:
    surge = "serving: {upgrade: surge%s}\n" + GROUP % "max_count: 4"
    beside = _compared(checkout, surge % "", surge % ", security_profile: ipc-lock")
    assert (beside.effect, beside.downtime_seconds) == (RAY, 0)
    assert beside.room
    assert (beside.room.needed, beside.room.available) == (4, 4)
    instead = _compared(checkout, "{}", "serving: {security_profile: ipc-lock}")
    assert instead.downtime_seconds
    assert instead.room
    assert instead.room.missing == 2
