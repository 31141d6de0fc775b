"""What the stacks of a deployment share: their names, and zones that come from the file."""

from collections.abc import Sequence

import aws_cdk as cdk
from constructs import Construct

from kvrelay.settings import Deployment


class DeploymentStack(cdk.Stack):
    """A stack named after its deployment, which asks AWS nothing at synth."""

    def __init__(
        self, scope: Construct, id: str, *, deployment: Deployment, description: str, env: cdk.Environment
    ) -> None:
        super().__init__(
            scope, id, stack_name=f"{deployment.name}-{id.lower()}", description=description, env=env
        )
        self._zones = list(deployment.zones)

    @property
    def availability_zones(self) -> list[str]:
        """The deployment's zones. CDK would look them up in the account, and take whichever come first."""
        return self._zones

    def output(self, name: str, value: str, description: str) -> None:
        """An output that commands and people read."""
        cdk.CfnOutput(self, name, value=value, description=description)


def joined(values: Sequence[str]) -> str:
    """Values as one output."""
    return cdk.Fn.join(",", list(values))
