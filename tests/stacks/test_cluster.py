"""The control plane, its add-ons and the system nodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.stacks.conftest import Synthesized


def test_the_cluster_is_native_and_of_the_version_asked_for(reference: Synthesized) -> None:
    assert reference.only("AWS::EKS::Cluster")["Version"] == "1.36"
    assert not reference.of_type("Custom::AWSCDK-EKS-Cluster")


def test_no_auto_mode_takes_nodes_out_of_our_hands(reference: Synthesized) -> None:
    cluster = reference.only("AWS::EKS::Cluster")
    assert cluster["ComputeConfig"] == {"Enabled": False}


def test_the_public_endpoint_is_closed_by_default(reference: Synthesized) -> None:
    access = reference.only("AWS::EKS::Cluster")["ResourcesVpcConfig"]
    assert access["EndpointPrivateAccess"] is True
    assert access["EndpointPublicAccess"] is False


def test_the_public_endpoint_opens_to_the_named_ranges_only(synth: Callable[[str], Synthesized]) -> None:
    access = synth("cluster: {public_access_cidrs: [203.0.113.7/32]}\n").only("AWS::EKS::Cluster")[
        "ResourcesVpcConfig"
    ]
    assert access["EndpointPublicAccess"] is True
    assert access["EndpointPrivateAccess"] is True
    assert access["PublicAccessCidrs"] == ["203.0.113.7/32"]


def test_every_control_plane_log_is_on(reference: Synthesized) -> None:
    types = reference.only("AWS::EKS::Cluster")["Logging"]["ClusterLogging"]["EnabledTypes"]
    assert {each["Type"] for each in types} == {
        "api", "audit", "authenticator", "controllerManager", "scheduler"
    }  # fmt: skip


def test_control_plane_logs_end_and_outlive_no_stack(reference: Synthesized) -> None:
    groups = reference.of_type("AWS::Logs::LogGroup", "Cluster")
    ((name, group),) = [
        (name, each)
        for name, each in groups.items()
        if each["Properties"].get("LogGroupName") == "/aws/eks/kvrelay/cluster"
    ]
    assert group["Properties"]["RetentionInDays"] == 30
    assert group["DeletionPolicy"] == "Delete"
    (cluster,) = reference.of_type("AWS::EKS::Cluster").values()
    assert name in cluster["DependsOn"], "EKS would make the group itself first, and keep it for ever"


def test_secrets_are_encrypted_with_a_key_that_rotates(reference: Synthesized) -> None:
    cluster = reference.only("AWS::EKS::Cluster")
    (encryption,) = cluster["EncryptionConfig"]
    assert encryption["Resources"] == ["secrets"]
    assert reference.only("AWS::KMS::Key")["EnableKeyRotation"] is True


def test_access_is_by_entries_and_the_creator_gets_none_in_passing(reference: Synthesized) -> None:
    assert reference.only("AWS::EKS::Cluster")["AccessConfig"] == {
        "AuthenticationMode": "API",
        "BootstrapClusterCreatorAdminPermissions": False,
    }


def test_each_admin_named_gets_cluster_admin(synth: Callable[[str], Synthesized]) -> None:
    result = synth(
        "cluster: {admins: ['arn:aws:iam::123456789012:role/a', 'arn:aws:iam::123456789012:role/team/a']}\n"
    )
    principals = [
        each["Properties"]["PrincipalArn"] for each in result.of_type("AWS::EKS::AccessEntry").values()
    ]
    assert "arn:aws:iam::123456789012:role/a" in principals
    assert "arn:aws:iam::123456789012:role/team/a" in principals


def test_add_ons_are_pinned_and_the_cni_enforces_network_policies(reference: Synthesized) -> None:
    add_ons = {
        each["Properties"]["AddonName"]: each["Properties"]
        for each in reference.of_type("AWS::EKS::Addon").values()
    }
    assert set(add_ons) == {"eks-pod-identity-agent", "vpc-cni", "kube-proxy", "coredns", "metrics-server"}
    assert all("eksbuild" in each["AddonVersion"] for each in add_ons.values())
    assert json.loads(add_ons["vpc-cni"]["ConfigurationValues"])["enableNetworkPolicy"] == "true"


def test_nodes_start_once_their_network_exists(reference: Synthesized) -> None:
    add_ons = reference.of_type("AWS::EKS::Addon")
    needed = {
        name
        for name, each in add_ons.items()
        if each["Properties"]["AddonName"] in {"vpc-cni", "kube-proxy", "eks-pod-identity-agent"}
    }
    for node_group in reference.of_type("AWS::EKS::Nodegroup").values():
        assert needed <= set(node_group["DependsOn"])


def test_add_ons_with_pods_wait_for_system_nodes_and_gpu_nodes_wait_for_neither(
    reference: Synthesized,
) -> None:
    system = _node_groups_by_role(reference)["system"]
    gpu = _node_groups_by_role(reference)["gpu-worker"]
    for each in reference.of_type("AWS::EKS::Addon").values():
        if each["Properties"]["AddonName"] in {"coredns", "metrics-server"}:
            assert system[0] in each["DependsOn"]
            assert gpu[0] not in each["DependsOn"]
    assert system[0] not in gpu[1]["DependsOn"]


def test_node_roles_hold_no_network_permissions(reference: Synthesized) -> None:
    roles = [
        role
        for role in reference.of_type("AWS::IAM::Role", "Cluster").values()
        if "ec2.amazonaws.com" in json.dumps(role["Properties"]["AssumeRolePolicyDocument"])
    ]
    assert len(roles) == 2
    for role in roles:
        assert "AmazonEKS_CNI_Policy" not in json.dumps(role["Properties"]["ManagedPolicyArns"])


def test_every_node_answers_metadata_to_itself_only_and_encrypts_its_disk(reference: Synthesized) -> None:
    templates = reference.of_type("AWS::EC2::LaunchTemplate")
    assert len(templates) == 2
    for template in templates.values():
        data = template["Properties"]["LaunchTemplateData"]
        assert data["MetadataOptions"]["HttpTokens"] == "required"
        assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
        assert all(disk["Ebs"]["Encrypted"] for disk in data["BlockDeviceMappings"])
        assert {each["ResourceType"] for each in data["TagSpecifications"]} == {
            "instance", "volume", "network-interface"
        }  # fmt: skip


def test_every_lambda_function_logs_to_a_group_of_its_stack(reference: Synthesized) -> None:
    for stack in reference.templates:
        groups = reference.of_type("AWS::Logs::LogGroup", stack)
        for function in reference.of_type("AWS::Lambda::Function", stack).values():
            assert function["Properties"]["LoggingConfig"]["LogGroup"]["Ref"] in groups


def test_everything_that_takes_tags_carries_the_deployments(synth: Callable[[str], Synthesized]) -> None:
    result = synth("name: blue\ntags: {team: search}\n")
    for template in result.templates.values():
        for resource in template["Resources"].values():
            tags = resource.get("Properties", {}).get("Tags")
            if tags is not None:
                assert _pairs(tags) >= {("kvrelay:deployment", "blue"), ("team", "search")}


def test_two_deployments_share_no_name(synth: Callable[[str], Synthesized]) -> None:
    blue, green = (_names(synth(f"name: {name}\n")) for name in ("blue", "green"))
    assert blue
    assert not blue & green


def _node_groups_by_role(result: Synthesized) -> dict[str, tuple[str, dict[str, Any]]]:
    return {
        each["Properties"]["Labels"]["role"]: (name, each)
        for name, each in result.of_type("AWS::EKS::Nodegroup").items()
    }


def _pairs(tags: Any) -> set[tuple[str, str]]:
    return set(tags.items()) if isinstance(tags, dict) else {(tag["Key"], tag["Value"]) for tag in tags}


def _names(result: Synthesized) -> set[str]:
    return {
        value
        for template in result.templates.values()
        for resource in template["Resources"].values()
        for key, value in resource.get("Properties", {}).items()
        if key in {"Name", "LogGroupName", "RoleName"} and isinstance(value, str)
    }
