"""The Serving stack carries the charts, in order, each small enough for its road."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from kvrelay.serve_app import load_serve_app
from kvrelay.settings import Deployment
from kvrelay_k8s import charts
from tests.serve_app.examples import DEPLOYMENTS
from tests.stacks.conftest import REPOSITORY, Synthesized

KIND = "Custom::AWSCDK-EKS-KubernetesResource"
# CloudFormation's limit for a template's body, and Kubernetes's for an object's annotations (kubectl apply keeps one).
TEMPLATE_BYTES, ANNOTATION_BYTES = 1_000_000, 262_144


@pytest.fixture(scope="session")
def sets(reference: Synthesized) -> dict[str, dict[str, Any]]:
    """The stack's resources by chart name, with the objects that each applies."""
    charted = charts(Deployment(), load_serve_app(REPOSITORY / Deployment().serving.serve_config))
    resources = reference.of_type(KIND, "Serving")
    found = {}
    for each in charted:
        (logical_id,) = (name for name in resources if name[:-8] == f"Manifests{each.name.replace('-', '')}")
        resource = resources[logical_id]
        found[each.name] = {
            "id": logical_id,
            "objects": json.loads(resource["Properties"]["Manifest"]),
            "expected": each,
            "needs": set(resource.get("DependsOn", ())),
            "bytes": len(json.dumps(resource)),
        }
    assert len(found) == len(resources)
    return found


def without_prune_label(one: dict[str, Any]) -> dict[str, Any]:
    """CDK labels what it applies, so that it can remove what a later manifest lacks."""
    labels = {
        key: value
        for key, value in one["metadata"].get("labels", {}).items()
        if not key.startswith("aws.cdk.eks/prune-")
    }
    metadata = {key: value for key, value in one["metadata"].items() if key != "labels"}
    return {**one, "metadata": metadata | ({"labels": labels} if labels else {})}


def test_the_stack_applies_the_objects_that_make_manifests_writes(sets: dict[str, dict[str, Any]]) -> None:
    for each in sets.values():
        assert [without_prune_label(one) for one in each["objects"]] == list(each["expected"].objects)


def test_each_chart_waits_for_those_it_depends_on_and_for_no_other(sets: dict[str, dict[str, Any]]) -> None:
    for each in sets.values():
        assert each["needs"] == {sets[name]["id"] for name in each["expected"].depends_on}


def test_a_destroy_takes_the_ray_service_before_the_operator_before_the_crds_before_the_namespace(
    sets: dict[str, dict[str, Any]],
) -> None:
    """CloudFormation deletes a resource before those it depends on."""
    assert sets["kuberay-operator"]["id"] in sets["ray-service"]["needs"]
    assert sets["kuberay-crds"]["id"] in sets["kuberay-operator"]["needs"]
    assert sets["namespaces"]["id"] in sets["kuberay-operator"]["needs"]


def test_all_objects_go_before_access_entries_and_nodes(reference: Synthesized) -> None:
    """The stack imports from the Cluster stack, so that CloudFormation refuses to delete that one first."""
    for resource in reference.of_type(KIND, "Serving").values():
        assert "kvrelay-cluster:" in json.dumps(resource["Properties"]["ServiceToken"])


@pytest.mark.parametrize("config", DEPLOYMENTS)
def test_every_manifest_and_the_template_fit_their_roads(
    config: str, synth: Callable[[str], Synthesized]
) -> None:
    settings = DEPLOYMENTS[config].model_dump(mode="json", exclude_unset=True)
    settings.setdefault("serving", {})["serve_config"] = f"serve_configs/{config}.yaml"
    template = synth(yaml.safe_dump(settings)).templates["Serving"]
    assert len(json.dumps(template)) < TEMPLATE_BYTES / 2
    for resource in template["Resources"].values():
        for one in json.loads(resource["Properties"]["Manifest"]):
            assert len(json.dumps(one)) < ANNOTATION_BYTES / 2, one["metadata"]["name"]


def test_no_token_is_in_any_template(synth: Callable[[str], Synthesized]) -> None:
    templates = synth(
        "serving: {weights: {source: hugging-face, token_secret_name: hugging-face/token}}\n"
    ).templates
    text = json.dumps(templates)
    assert "hugging-face/token" in text
    assert "{{resolve:secretsmanager" not in text


SECRET = "serving: {weights: {source: hugging-face, token_secret_name: hugging-face/token}}\n"
BUCKET = "serving: {weights: {source: s3, bucket: my-weights, prefix: models/qwen}}\n"


@pytest.mark.parametrize(
    ("settings", "actions", "resources"),
    [
        (SECRET, ["secretsmanager:GetSecretValue"], [":secret:hugging-face/token-??????"]),
        (BUCKET, ["s3:GetObject", "s3:ListBucket"], [":s3:::my-weights/models/qwen/*", ":s3:::my-weights"]),
    ],
    ids=["secret", "bucket"],
)
def test_rays_pods_may_read_their_weights_and_nothing_else(
    settings: str, actions: list[str], resources: list[str], synth: Callable[[str], Synthesized]
) -> None:
    stacks = synth(settings)
    association = stacks.only("AWS::EKS::PodIdentityAssociation", "Serving")
    (role_id,) = stacks.of_type("AWS::IAM::Role", "Serving")
    assert association["RoleArn"] == {"Fn::GetAtt": [role_id, "Arn"]}
    objects = [
        one
        for each in stacks.of_type(KIND, "Serving").values()
        for one in json.loads(each["Properties"]["Manifest"])
    ]
    (account,) = (
        one["metadata"]
        for one in objects
        if one["kind"] == "ServiceAccount" and one["metadata"]["name"] == "ray"
    )
    assert (association["Namespace"], association["ServiceAccount"]) == (
        account["namespace"],
        account["name"],
    )

    role = stacks.only("AWS::IAM::Role", "Serving")
    statements = role["Policies"][0]["PolicyDocument"]["Statement"]
    assert [each["Action"] for each in statements] == actions
    for each, resource in zip(statements, resources, strict=True):
        assert json.dumps(each["Resource"]).rstrip('"]}').endswith(resource)


def test_pods_start_after_their_identity_exists(synth: Callable[[str], Synthesized]) -> None:
    stacks = synth(SECRET)
    (identity,) = stacks.of_type("AWS::EKS::PodIdentityAssociation", "Serving")
    for resource in stacks.of_type(KIND, "Serving").values():
        assert identity in resource["DependsOn"]


def test_without_a_secret_or_bucket_the_stack_makes_no_role(reference: Synthesized) -> None:
    assert reference.of_type("AWS::IAM::Role", "Serving") == {}
