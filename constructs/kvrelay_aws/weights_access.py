"""What Ray's pods may read in the account: the weights' folder of a bucket, or the secret of a token."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from kvrelay.settings import Deployment, S3Weights
from kvrelay_aws.acknowledgements import acknowledge
from kvrelay_aws.add_ons import pod_identity_principal


class WeightsAccess(Construct):
    """A role for one service account, by pod identity. Nothing at all when nothing of the account is read."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: eks.ICluster,
        deployment: Deployment,
        service_account: str,
    ) -> None:
        super().__init__(scope, id)
        statements = self._statements(deployment)
        if not statements:
            return
        role = iam.Role(
            self,
            "Role",
            assumed_by=pod_identity_principal(),
            inline_policies={"Read": iam.PolicyDocument(statements=statements)},
        )
        eks.CfnPodIdentityAssociation(
            self,
            "Association",
            cluster_name=cluster.cluster_name,
            namespace=deployment.serving.namespace,
            service_account=service_account,
            role_arn=role.role_arn,
        )

    def _statements(self, deployment: Deployment) -> list[iam.PolicyStatement]:
        weights = deployment.serving.weights
        if isinstance(weights, S3Weights):
            return self._read_folder(weights.bucket, weights.prefix)
        return self._read_secret(weights.token_secret_name) if weights.token_secret_name else []

    def _read_folder(self, bucket: str, prefix: str) -> list[iam.PolicyStatement]:
        bucket_arn = cdk.Stack.of(self).format_arn(
            service="s3", region="", account="", resource=bucket, arn_format=cdk.ArnFormat.NO_RESOURCE_NAME
        )
        files = f"{bucket_arn}/{prefix}/*"
        acknowledge(self, {f"IAM5[Resource::{files}]": "The weights' files, however many they are."})
        return [
            iam.PolicyStatement(actions=["s3:GetObject"], resources=[files]),
            iam.PolicyStatement(
                actions=["s3:ListBucket"],
                resources=[bucket_arn],
                conditions={"StringEquals": {"s3:prefix": f"{prefix}/"}},
            ),
        ]

    def _read_secret(self, name: str) -> list[iam.PolicyStatement]:
        # An ARN ends in a hyphen and six characters that Secrets Manager chose; a name lacks them.
        arn = (
            name
            if name.startswith("arn:")
            else cdk.Stack.of(self).format_arn(
                service="secretsmanager",
                resource="secret",
                resource_name=f"{name}-??????",
                arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
            )
        )
        return [iam.PolicyStatement(actions=["secretsmanager:GetSecretValue"], resources=[arn])]
