"""Types that exist only inside CloudFormation."""

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class CdkMetadata(Handler):
    """AWS::CDK::Metadata: nothing but its properties."""

    type = "AWS::CDK::Metadata"

    def create(self, request: Request) -> Made:
        return Made(request.name(), {})

    def update(self, request: Request) -> Made:
        return Made(request.physical_id, {})

    def delete(self, request: Request) -> None:
        return None


@handles
class WaitConditionHandle(Handler):
    """AWS::CloudFormation::WaitConditionHandle: what CDK puts into a stack with no resource."""

    type = "AWS::CloudFormation::WaitConditionHandle"

    def create(self, request: Request) -> Made:
        return Made(
            f"https://cloudformation-waitcondition-{request.region}.s3.amazonaws.com/{request.name()}", {}
        )

    def update(self, request: Request) -> Made:
        return Made(request.physical_id, {})

    def delete(self, request: Request) -> None:
        return None
