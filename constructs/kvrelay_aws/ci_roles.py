"""IAM roles that a repository's pipelines take by OIDC, each for one kind of job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from kvrelay.settings.deployment import Ci, GitHubCi
from kvrelay_aws.acknowledgements import acknowledge


@dataclass(frozen=True)
class Trust:
    """Whose tokens are trusted: the issuer's host, its audience, and the subjects of each kind of job."""

    host: str
    audience: str
    diff: tuple[str, ...]
    drift: tuple[str, ...]
    deploy: tuple[str, ...]


def trust(ci: Ci) -> Trust:
    """The subjects as the forge writes them into its tokens.

    https://docs.github.com/en/actions/reference/security/oidc and
    https://docs.gitlab.com/ci/secrets/id_token_authentication/.
    """
    if isinstance(ci, GitHubCi):
        repository = f"repo:{ci.repository}"
        branch = f"{repository}:ref:refs/heads/{ci.branch}"
        return Trust(
            host="token.actions.githubusercontent.com",
            audience="sts.amazonaws.com",
            diff=(f"{repository}:pull_request", branch),
            drift=(branch,),
            deploy=(f"{repository}:environment:{ci.environment}",),
        )
    project = f"project_path:{ci.project}:ref_type:branch:ref"
    return Trust(
        host=ci.host,
        audience=f"https://{ci.host}",
        diff=(f"{project}:*",),  # a merge request's pipeline runs on its own branch
        drift=(f"{project}:{ci.branch}",),
        deploy=(f"{project}:{ci.branch}",),
    )


class CiRoles(Construct):
    """Three roles: `diff` reads templates, `drift` reads what runs, `deploy` hands over to CDK's own roles."""

    def __init__(self, scope: Construct, id: str, *, ci: Ci, stack_names: Sequence[str]) -> None:
        super().__init__(scope, id)
        self._trust = trust(ci)
        self._provider = self._oidc_provider(ci.oidc_provider == "create")
        stack = cdk.Stack.of(self)

        self.diff = self._role("Diff", self._trust.diff)
        self.diff.add_to_policy(
            iam.PolicyStatement(
                actions=["cloudformation:DescribeStacks", "cloudformation:GetTemplate"],
                resources=[
                    stack.format_arn(service="cloudformation", resource="stack", resource_name=f"{name}/*")
                    for name in stack_names
                ],
            )
        )
        account = "<AWS::AccountId>" if cdk.Token.is_unresolved(stack.account) else stack.account
        arn = f"arn:{stack.partition}:cloudformation:{stack.region}:{account}:stack"
        acknowledge(
            self.diff,
            {
                f"IAM5[Resource::{arn}/{name}/*]": "A stack's ARN ends in an id that AWS draws when it is made."
                for name in stack_names
            },
        )

        self.drift = self._role("Drift", self._trust.drift)
        self.drift.add_to_policy(_may_assume(cdk.DefaultStackSynthesizer.DEFAULT_LOOKUP_ROLE_ARN))

        self.deploy = self._role("Deploy", self._trust.deploy, longest=cdk.Duration.hours(2))
        self.deploy.add_to_policy(
            _may_assume(
                cdk.DefaultStackSynthesizer.DEFAULT_DEPLOY_ROLE_ARN,
                cdk.DefaultStackSynthesizer.DEFAULT_FILE_ASSET_PUBLISHING_ROLE_ARN,
                cdk.DefaultStackSynthesizer.DEFAULT_LOOKUP_ROLE_ARN,
            )
        )

    def _role(self, id: str, subjects: Sequence[str], longest: cdk.Duration | None = None) -> iam.Role:
        conditions: dict[str, dict[str, str | list[str]]] = {
            "StringEquals": {f"{self._trust.host}:aud": self._trust.audience}
        }
        match = "StringLike" if any("*" in each for each in subjects) else "StringEquals"
        conditions.setdefault(match, {})[f"{self._trust.host}:sub"] = list(subjects)
        return iam.Role(
            self,
            id,
            description=f"kvrelay CI: {id.lower()}",
            max_session_duration=longest,
            assumed_by=iam.WebIdentityPrincipal(self._provider, conditions),
        )

    def _oidc_provider(self, create: bool) -> str:
        if create:
            return iam.CfnOIDCProvider(
                self, "OidcProvider", url=f"https://{self._trust.host}", client_id_list=[self._trust.audience]
            ).attr_arn
        return cdk.Stack.of(self).format_arn(
            service="iam", region="", resource="oidc-provider", resource_name=self._trust.host
        )


def _may_assume(*role_arns: str) -> iam.PolicyStatement:
    qualifier = cdk.DefaultStackSynthesizer.DEFAULT_QUALIFIER
    return iam.PolicyStatement(
        actions=["sts:AssumeRole"],
        resources=[cdk.Fn.sub(arn.replace("${Qualifier}", qualifier)) for arn in role_arns],
    )
