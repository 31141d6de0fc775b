"""CI roles: what the pipelines of a repository may do here, without a long-lived key."""

import aws_cdk as cdk
from constructs import Construct

from kvrelay.settings import Deployment
from kvrelay.settings.deployment import Ci
from kvrelay_aws.ci_roles import CiRoles
from stacks.deployment_stack import DeploymentStack


class CiRolesStack(DeploymentStack):
    """The roles of the repository that the deployment file names."""

    def __init__(
        self, scope: Construct, id: str, *, deployment: Deployment, ci: Ci, env: cdk.Environment
    ) -> None:
        super().__init__(
            scope, id, deployment=deployment, description="kvrelay: roles for CI pipelines", env=env
        )
        # Made last, so that these are all of the deployment's stacks, itself included.
        stacks = [each for each in scope.node.children if isinstance(each, DeploymentStack)]
        roles = CiRoles(self, "Roles", ci=ci, stack_names=[each.stack_name for each in stacks])

        self.output("DiffRoleArn", roles.diff.role_arn, "Repository variable AWS_DIFF_ROLE_ARN")
        self.output("DriftRoleArn", roles.drift.role_arn, "Repository variable AWS_DRIFT_ROLE_ARN")
        self.output("DeployRoleArn", roles.deploy.role_arn, "Repository variable AWS_DEPLOY_ROLE_ARN")
