"""Findings of cdk-nag and CloudFormation's validation that we accept, each said beside the code it is about."""

from collections.abc import Mapping
from typing import Any

import aws_cdk as cdk
from aws_cdk import Acknowledgment, Validations
from constructs import IConstruct

CDK_NAG = "AwsSolutions::AwsSolutions-"
CLOUDFORMATION = "CloudFormation-Validate::"


def acknowledge(construct: IConstruct, findings: Mapping[str, str], source: str = CDK_NAG) -> None:
    """Accepts findings on `construct` and below: a rule of `source`, with its [detail] if any, to the reason."""
    Validations.of(construct).acknowledge(
        *(Acknowledgment(id=f"{source}{rule}", reason=reason) for rule, reason in findings.items())
    )


def managed_policy(name: str) -> str:
    """How cdk-nag writes its finding about one of AWS's own policies."""
    return f"IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{name}]"


def acknowledge_kubectl_provider(provider: Any) -> None:
    """Accepts what CDK's kubectl provider brings: its roles and its runtime can't be chosen."""
    stack = cdk.Stack.of(provider)
    handler = provider.node.find_child("Handler")
    handler_id = stack.get_logical_id(handler.node.default_child)
    public_ecr_id = stack.get_logical_id(handler.node.find_child("HasEcrPublic"))
    public_ecr = (
        f'{{"Fn::If":["{public_ecr_id}",{{"Fn::Join":["",["arn:",{{"Ref":"AWS::Partition"}},'
        '":iam::aws:policy/AmazonElasticContainerRegistryPublicReadOnly"]]},{"Ref":"AWS::NoValue"}]}'
    )
    fixed = "CDK's kubectl provider attaches it; it offers no other."
    acknowledge(
        provider,
        {
            managed_policy("service-role/AWSLambdaBasicExecutionRole"): fixed,
            managed_policy("service-role/AWSLambdaVPCAccessExecutionRole"): fixed,
            managed_policy("AmazonEC2ContainerRegistryReadOnly"): fixed,
            f"IAM4[Policy::{public_ecr}]": fixed,
            f"IAM5[Resource::<{handler_id}.Arn>:*]": "CDK's framework invokes its one handler, any version.",
            "L1": "CDK chooses the handler's runtime, and tests it there.",
        },
    )
