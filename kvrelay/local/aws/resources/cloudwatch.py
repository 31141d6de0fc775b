"""CloudWatch alarms and dashboards."""

from typing import Any

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class Alarm(Handler):
    """AWS::CloudWatch::Alarm."""

    type = "AWS::CloudWatch::Alarm"
    _KEYS = (
        "ActionsEnabled",
        "AlarmActions",
        "AlarmDescription",
        "ComparisonOperator",
        "DatapointsToAlarm",
        "Dimensions",
        "EvaluateLowSampleCountPercentile",
        "EvaluationPeriods",
        "ExtendedStatistic",
        "InsufficientDataActions",
        "MetricName",
        "Metrics",
        "Namespace",
        "OKActions",
        "Period",
        "Statistic",
        "Threshold",
        "ThresholdMetricId",
        "TreatMissingData",
        "Unit",
    )

    def create(self, request: Request) -> Made:
        request.physical_id = request.properties.get("AlarmName") or request.name(255)
        return self.update(request)

    def update(self, request: Request) -> Made:
        client, name, wanted = request.client("cloudwatch"), request.physical_id, request.properties
        client.put_metric_alarm(AlarmName=name, **{key: wanted[key] for key in self._KEYS if key in wanted})
        found = client.describe_alarms(AlarmNames=[name])["MetricAlarms"][0]
        if request.tags():
            client.tag_resource(ResourceARN=found["AlarmArn"], Tags=request.tag_list())
        return Made(name, {"Arn": found["AlarmArn"]})

    def delete(self, request: Request) -> None:
        request.client("cloudwatch").delete_alarms(AlarmNames=[request.physical_id])


@handles
class Dashboard(Handler):
    """AWS::CloudWatch::Dashboard."""

    type = "AWS::CloudWatch::Dashboard"

    def create(self, request: Request) -> Made:
        request.physical_id = request.properties.get("DashboardName") or request.name(255)
        return self.update(request)

    def update(self, request: Request) -> Made:
        body: Any = request.properties["DashboardBody"]
        request.client("cloudwatch").put_dashboard(DashboardName=request.physical_id, DashboardBody=body)
        return Made(request.physical_id, {})

    def delete(self, request: Request) -> None:
        request.client("cloudwatch").delete_dashboards(DashboardNames=[request.physical_id])
