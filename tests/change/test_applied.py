"""The class given before a change is deployed, beside what CloudFormation does when it is: emulated, one account."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvrelay.change import Effect, compare, read_synthesis
from kvrelay.local.aws.account import ACCOUNT_ID
from kvrelay.local.aws.emulator import EmulatedAws
from kvrelay.ops.cdk_cli import cdk_lines
from kvrelay.settings import read_deployment
from tests.change.conftest import Checkout

GROUP = "gpu_nodes: {groups: [{%s}]}"
STACKS = ("Network", "Cluster")
APPLIED = [
    "network: {flow_log_retention_days: 7}",
    "network: {nat_gateways: one-per-zone}",
    "network: {interface_endpoints: [sts]}",
    "cluster: {admins: ['arn:aws:iam::123456789012:role/platform']}",
    "cluster: {public_access_cidrs: [203.0.113.7/32]}",
    "system_nodes: {instance_type: m7i.2xlarge}",
    "gpu_nodes: {placement_group: true}",
    "gpu_nodes: {zone: us-east-2b}",
    GROUP % "count: 3",
    GROUP % "root_volume_gib: 300",
    GROUP % "instance_type: g6e.8xlarge",
    GROUP % "capacity: {type: spot}",
    GROUP % "name: l4",
    "tags: {team: ml}",
]


class Account:
    """An emulated account that holds the reference deployment's network and cluster."""

    def __init__(self, aws: EmulatedAws) -> None:
        self._cloudformation = aws.client("cloudformation")
        self._eks = aws.client("eks")

    def apply(self, checkout: Path) -> None:
        """Updates both stacks to a synthesis."""
        for stack in STACKS:
            name = f"kvrelay-{stack.lower()}"
            body = (checkout / f"cdk.out/{stack}.template.json").read_text()
            if json.loads(body) == self._template(name):
                continue
            self._cloudformation.update_stack(
                StackName=name, TemplateBody=body, Capabilities=["CAPABILITY_NAMED_IAM"]
            )
            waiter = self._cloudformation.get_waiter("stack_update_complete")
            waiter.wait(StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 240})

    def _template(self, name: str) -> Any:
        body = self._cloudformation.get_template(StackName=name)["TemplateBody"]
        return json.loads(body) if isinstance(body, str) else body

    def physical_ids(self) -> dict[str, str]:
        """Of every resource, by logical id."""
        return {
            each["LogicalResourceId"]: each["PhysicalResourceId"]
            for stack in STACKS
            for each in self._cloudformation.describe_stack_resources(StackName=f"kvrelay-{stack.lower()}")[
                "StackResources"
            ]
        }

    def node_templates(self) -> dict[str, Any]:
        """The launch template and version of each node group: its nodes are new ones when it changes."""
        names = self._eks.list_nodegroups(clusterName="kvrelay")["nodegroups"]
        groups = [
            self._eks.describe_nodegroup(clusterName="kvrelay", nodegroupName=name)["nodegroup"]
            for name in names
        ]
        return {each["nodegroupArn"]: each["launchTemplate"] for each in groups}


@pytest.fixture(scope="module")
def account(checkout: Checkout) -> Iterator[Account]:
    reference = checkout()
    with EmulatedAws() as aws:
        file = reference / "deployment.yaml"
        for command in (
            ("bootstrap", f"aws://{ACCOUNT_ID}/{aws.region}"),
            ("deploy", *STACKS, "--require-approval", "never"),
        ):
            arguments = (*command, "--app", str(reference / "cdk.out"))
            list(cdk_lines(*arguments, deployment=file, environment=aws.environment()))
        # EKS takes only principals that exist.
        aws.client("iam").create_role(RoleName="platform", AssumeRolePolicyDocument="{}")
        yield Account(aws)


@pytest.mark.parametrize("edit", APPLIED)
def test_cloudformation_replaces_and_keeps_what_was_said(
    account: Account, checkout: Checkout, edit: str
) -> None:
    before, after = checkout(), checkout(edit)
    for base, head in ((before, after), (after, before)):
        found = compare(
            read_synthesis(base),
            read_synthesis(head),
            read_deployment(base / "deployment.yaml"),
            read_deployment(head / "deployment.yaml"),
        )
        said = {each.subject: each for each in found.changes if each.stack != "kvrelay-serving"}
        assert said
        old_ids, old_nodes = account.physical_ids(), account.node_templates()
        account.apply(head)
        new_ids, new_nodes = account.physical_ids(), account.node_templates()

        replaced = {name for name in old_ids.keys() & new_ids if old_ids[name] != new_ids[name]}
        assert replaced == {name for name, each in said.items() if each.what == "is replaced"}
        assert new_ids.keys() - old_ids == {name for name, each in said.items() if each.what == "is added"}
        assert old_ids.keys() - new_ids == {name for name, each in said.items() if each.what == "is removed"}
        new_templates = {name for name in old_nodes.keys() & new_nodes if old_nodes[name] != new_nodes[name]}
        rolled = {name for name, each in said.items() if each.what.startswith("gets new nodes")}
        assert len(new_templates) == len(rolled)
        lost_nodes = bool(old_nodes.keys() - new_nodes or new_templates)
        grave = any(
            each.effect == Effect.NODE_REPLACEMENT and "capacity is given up" not in each.what
            for each in said.values()
        )
        assert lost_nodes == grave
