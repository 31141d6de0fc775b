"""Every resource that a fresh account wouldn't have, whoever made it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from kvrelay.local.aws.account import Account
from kvrelay.local.aws.ec2_api import is_alive
from kvrelay.local.aws.moto_state import used_services

BOOTSTRAP_QUALIFIER = "hnb659fds"


@dataclass(frozen=True)
class Leftover:
    """One resource: its type, its id, and a name for people."""

    type: str
    id: str
    name: str = ""

    def as_dict(self) -> dict[str, str]:
        """For JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.type} {self.id}" + (f" ({self.name})" if self.name and self.name != self.id else "")


def leftovers(account: Account, *, region: str, bootstrap: bool = True) -> list[Leftover]:
    """What is in the account in `region`; `bootstrap=False` leaves out what `cdk bootstrap` made."""
    known = _bootstrap_ids(account, region) if not bootstrap else set()
    rows = [
        row
        for source in (_ec2, _eks, _named, _cloudformation)
        for row in source(account, region)
        if row.id not in known and row.name not in known
    ]
    return sorted(rows, key=lambda row: (row.type, row.id))


def _bootstrap_ids(account: Account, region: str) -> set[str]:
    ids: set[str] = set()
    for stack in account.stacks(region).live():
        if any(BOOTSTRAP_QUALIFIER in resource.physical_id for resource in stack.resources.values()):
            versioned = any(r.type == "AWS::SSM::Parameter" for r in stack.resources.values())
            if versioned and any(r.type == "AWS::S3::Bucket" for r in stack.resources.values()):
                ids |= {stack.id, *(resource.physical_id for resource in stack.resources.values())}
    return ids


def _name(row: dict[str, Any]) -> str:
    return next((tag["Value"] for tag in row.get("Tags") or () if tag["Key"] == "Name"), "")


_EC2 = (
    ("AWS::EC2::VPC", "describe_vpcs", "Vpcs", "VpcId"),
    ("AWS::EC2::Subnet", "describe_subnets", "Subnets", "SubnetId"),
    ("AWS::EC2::RouteTable", "describe_route_tables", "RouteTables", "RouteTableId"),
    ("AWS::EC2::SecurityGroup", "describe_security_groups", "SecurityGroups", "GroupId"),
    ("AWS::EC2::NetworkAcl", "describe_network_acls", "NetworkAcls", "NetworkAclId"),
    ("AWS::EC2::InternetGateway", "describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    ("AWS::EC2::NatGateway", "describe_nat_gateways", "NatGateways", "NatGatewayId"),
    ("AWS::EC2::EIP", "describe_addresses", "Addresses", "AllocationId"),
    ("AWS::EC2::VPCEndpoint", "describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    ("AWS::EC2::FlowLog", "describe_flow_logs", "FlowLogs", "FlowLogId"),
    ("AWS::EC2::NetworkInterface", "describe_network_interfaces", "NetworkInterfaces", "NetworkInterfaceId"),
    ("AWS::EC2::Volume", "describe_volumes", "Volumes", "VolumeId"),
    ("AWS::EC2::LaunchTemplate", "describe_launch_templates", "LaunchTemplates", "LaunchTemplateId"),
    ("AWS::EC2::PlacementGroup", "describe_placement_groups", "PlacementGroups", "GroupName"),
)


def _ec2(account: Account, region: str) -> Iterator[Leftover]:
    client = account.client("ec2", region)
    default = {vpc["VpcId"] for vpc in client.describe_vpcs()["Vpcs"] if vpc["IsDefault"]}
    for kind, operation, key, identifier in _EC2:
        for row in getattr(client, operation)()[key]:
            gone = str(row.get("State", "")).lower() in ("deleted", "deleting")
            attached = {a.get("VpcId") for a in row.get("Attachments") or ()}
            # Each VPC has a default network ACL; moto forgets to take it along.
            comes_with_vpc = kind == "AWS::EC2::NetworkAcl" and row["IsDefault"]
            if gone or comes_with_vpc or row.get("VpcId") in default or attached & default:
                continue
            yield Leftover(kind, row[identifier], _name(row) or row.get("GroupName", ""))
    for reservation in client.describe_instances()["Reservations"]:
        for instance in reservation["Instances"]:
            if instance["State"]["Name"] not in ("terminated", "shutting-down"):
                yield Leftover("AWS::EC2::Instance", instance["InstanceId"], _name(instance))
    for reserved in client.describe_capacity_reservations()["CapacityReservations"]:
        if is_alive(reserved):
            yield Leftover("AWS::EC2::CapacityReservation", reserved["CapacityReservationId"])


def _eks(account: Account, region: str) -> Iterator[Leftover]:
    for name, cluster in account.eks(region).clusters.items():
        yield Leftover("AWS::EKS::Cluster", name)
        for kind, found in (
            ("Nodegroup", cluster.nodegroups),
            ("Addon", cluster.addons),
            ("AccessEntry", cluster.access_entries),
            ("PodIdentityAssociation", cluster.pod_identities),
        ):
            yield from (Leftover(f"AWS::EKS::{kind}", f"{name}/{key}") for key in found)


# Type, service, operation, key of the list, key of the id (None: the row is the id).
_NAMED: tuple[tuple[str, str, str, dict[str, Any], str, str | None], ...] = (
    ("AWS::IAM::Role", "iam", "list_roles", {}, "Roles", "RoleName"),
    ("AWS::IAM::ManagedPolicy", "iam", "list_policies", {"Scope": "Local"}, "Policies", "Arn"),
    (
        "AWS::IAM::InstanceProfile",
        "iam",
        "list_instance_profiles",
        {},
        "InstanceProfiles",
        "InstanceProfileName",
    ),
    (
        "AWS::IAM::OIDCProvider",
        "iam",
        "list_open_id_connect_providers",
        {},
        "OpenIDConnectProviderList",
        "Arn",
    ),
    ("AWS::Lambda::Function", "lambda", "list_functions", {}, "Functions", "FunctionName"),
    ("AWS::Lambda::LayerVersion", "lambda", "list_layers", {}, "Layers", "LayerArn"),
    ("AWS::Logs::LogGroup", "logs", "describe_log_groups", {}, "logGroups", "logGroupName"),
    ("AWS::KMS::Alias", "kms", "list_aliases", {}, "Aliases", "AliasName"),
    ("AWS::S3::Bucket", "s3", "list_buckets", {}, "Buckets", "Name"),
    ("AWS::ECR::Repository", "ecr", "describe_repositories", {}, "repositories", "repositoryName"),
    (
        "AWS::ECR::PullThroughCacheRule",
        "ecr",
        "describe_pull_through_cache_rules",
        {},
        "pullThroughCacheRules",
        "ecrRepositoryPrefix",
    ),
    ("AWS::SecretsManager::Secret", "secretsmanager", "list_secrets", {}, "SecretList", "ARN"),
    ("AWS::SNS::Topic", "sns", "list_topics", {}, "Topics", "TopicArn"),
    ("AWS::SNS::Subscription", "sns", "list_subscriptions", {}, "Subscriptions", "SubscriptionArn"),
    ("AWS::SQS::Queue", "sqs", "list_queues", {}, "QueueUrls", None),
    ("AWS::CloudWatch::Alarm", "cloudwatch", "describe_alarms", {}, "MetricAlarms", "AlarmName"),
    ("AWS::CloudWatch::Dashboard", "cloudwatch", "list_dashboards", {}, "DashboardEntries", "DashboardName"),
    ("AWS::Events::Rule", "events", "list_rules", {}, "Rules", "Name"),
    (
        "AWS::StepFunctions::StateMachine",
        "stepfunctions",
        "list_state_machines",
        {},
        "stateMachines",
        "stateMachineArn",
    ),
    ("AWS::SSM::Parameter", "ssm", "describe_parameters", {}, "Parameters", "Name"),
)


def _named(account: Account, region: str) -> Iterator[Leftover]:
    used = used_services()
    for kind, service, operation, arguments, key, identifier in _NAMED:
        if service not in used:
            continue
        client = account.client(service, region)
        if client.can_paginate(operation):
            pages = client.get_paginator(operation).paginate(**arguments)
        else:
            pages = [getattr(client, operation)(**arguments)]
        for page in pages:
            for row in page.get(key) or ():
                name = str(row if identifier is None else row[identifier])
                if not name.startswith(("alias/aws/", "/aws/service/")):
                    yield Leftover(kind, name)
    if "kms" not in used:
        return
    kms = account.client("kms", region)
    aliased = {row.get("TargetKeyId") for row in kms.list_aliases()["Aliases"] if _is_aws(row["AliasName"])}
    for row in kms.list_keys()["Keys"]:
        about = kms.describe_key(KeyId=row["KeyId"])["KeyMetadata"]
        # A key that waits for its deletion is as deleted as AWS lets it be.
        if (
            about["KeyManager"] == "CUSTOMER"
            and not about.get("DeletionDate")
            and row["KeyId"] not in aliased
        ):
            yield Leftover("AWS::KMS::Key", row["KeyId"], about.get("Description", ""))


def _is_aws(alias: str) -> bool:
    return alias.startswith("alias/aws/")


def _cloudformation(account: Account, region: str) -> Iterator[Leftover]:
    for stack in account.stacks(region).live():
        yield Leftover("AWS::CloudFormation::Stack", stack.id, stack.name)
