"""What the identity and CloudFormation's role may do, asked of IAM's simulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kvrelay.ops.preflight.rows import Row, Status, Subject

# cdk itself only takes up these roles; CloudFormation then makes everything with the execution role.
_TAKEN_UP = ("deploy-role", "file-publishing-role", "lookup-role")
_MADE = (
    "ec2:CreateVpc",
    "ec2:CreateSubnet",
    "ec2:CreateNatGateway",
    "ec2:AllocateAddress",
    "ec2:CreateSecurityGroup",
    "ec2:CreateLaunchTemplate",
    "ec2:CreateFlowLogs",
    "ec2:RunInstances",
    "ec2:CreateTags",
    "eks:CreateCluster",
    "eks:CreateNodegroup",
    "eks:CreateAddon",
    "eks:CreateAccessEntry",
    "iam:CreateRole",
    "iam:PassRole",
    "iam:CreateServiceLinkedRole",
    "kms:CreateKey",
    "lambda:CreateFunction",
    "logs:CreateLogGroup",
    "ssm:GetParameters",
)

_MADE_BY_MIRROR: dict[str, tuple[str, ...]] = {
    "none": (),
    "ecr": ("ecr:CreateRepository",),
    "pull-through": ("ecr:CreateRepository", "ecr:CreatePullThroughCacheRule"),
}


class Permissions:
    """The caller's right to take up CDK's roles, and the execution role's rights."""

    name = "permissions"
    limit_s = 15.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """A row for the caller and one for the execution role."""
        identity = subject.aws.client("sts").get_caller_identity()
        account, region = identity["Account"], subject.aws.region
        partition = identity["Arn"].split(":")[1]
        prefix = f"arn:{partition}:iam::{account}:role/cdk-hnb659fds"
        roles = [f"{prefix}-{role}-{account}-{region}" for role in _TAKEN_UP]
        principal = policy_principal(identity["Arn"])
        if principal is None:
            yield Row(
                self.name,
                identity["Arn"],
                Status.WARN,
                "IAM cannot simulate this kind of identity",
                "deploy with a role",
            )
        else:
            yield self._row(subject, principal, ["sts:AssumeRole"], roles)
        execution = f"{prefix}-cfn-exec-role-{account}-{region}"
        client = subject.aws.client("iam")
        try:
            mirrored = _MADE_BY_MIRROR[subject.source.deployment.images.mirror]
            yield self._row(subject, execution, (*_MADE, *mirrored), ["*"])
        except client.exceptions.NoSuchEntityException:
            yield Row(
                self.name,
                execution.rpartition("/")[2],
                Status.WARN,
                "this role is not there",
                f"cdk bootstrap aws://{account}/{region}",
            )

    def _row(self, subject: Subject, principal: str, actions: Sequence[str], resources: list[str]) -> Row:
        rows = subject.aws.pages(
            "iam",
            "simulate_principal_policy",
            "EvaluationResults",
            PolicySourceArn=principal,
            ActionNames=list(actions),
            ResourceArns=resources,
        )
        denied = sorted({row["EvalActionName"] for row in rows if row["EvalDecision"] != "allowed"})
        name = principal.rpartition("/")[2]
        if not denied:
            return Row(self.name, name, Status.PASS, f"may do all {len(actions)} actions asked")
        mend = f"allow these to {principal}; a permissions boundary or an organization's policy may deny them"
        return Row(self.name, name, Status.FAIL, f"may not: {', '.join(denied)}", mend)


def policy_principal(arn: str) -> str | None:
    """The IAM user or role behind a caller; None where IAM has no policies to simulate."""
    kind, _, rest = arn.split(":", 5)[5].partition("/")
    partition, account = arn.split(":")[1], arn.split(":")[4]
    if kind == "assumed-role":
        return f"arn:{partition}:iam::{account}:role/{rest.partition('/')[0]}"
    return f"arn:{partition}:iam::{account}:{kind}/{rest}" if kind in ("user", "role") else None
