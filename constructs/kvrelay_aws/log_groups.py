"""Log groups with an end: AWS's own defaults keep logs for ever, and after the stack is gone."""

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

_RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    3: logs.RetentionDays.THREE_DAYS,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    60: logs.RetentionDays.TWO_MONTHS,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
}


def log_group(scope: Construct, id: str, *, retention_days: int, name: str | None = None) -> logs.LogGroup:
    """A log group that goes with its stack; `retention_days` is one of settings' choices."""
    return logs.LogGroup(
        scope,
        id,
        log_group_name=name,
        retention=_RETENTION[retention_days],
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )


def log_handlers_to(group: logs.LogGroup, handlers: Construct) -> None:
    """Makes every Lambda function below `handlers` log to `group`: the functions are CDK's, not ours."""
    for construct in handlers.node.find_all():
        if isinstance(construct, cdk.CfnResource) and construct.cfn_resource_type == "AWS::Lambda::Function":
            construct.add_property_override("LoggingConfig.LogGroup", group.log_group_name)
