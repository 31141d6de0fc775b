"""CloudFormation's drift detection on the emulated AWS: compares log groups, and nothing else."""

from __future__ import annotations

from typing import Any

from kvrelay.local.aws.cloudformation.api import CloudFormationApi, Values
from kvrelay.local.aws.cloudformation.stacks import StackResource

COMPARED = "AWS::Logs::LogGroup"


class DriftDetectingApi(CloudFormationApi):
    """The emulated operations and those of drift detection."""

    def DetectStackDrift(self, given: Values) -> Values:  # noqa: N802
        """Starts; it ends at once."""
        return {"StackDriftDetectionId": self._store.get(given["StackName"]).id}

    def DescribeStackDriftDetectionStatus(self, given: Values) -> Values:  # noqa: N802
        """Always complete."""
        return {
            "StackId": given["StackDriftDetectionId"],
            "StackDriftDetectionId": given["StackDriftDetectionId"],
            "DetectionStatus": "DETECTION_COMPLETE",
        }

    def DescribeStackResourceDrifts(self, given: Values) -> Values:  # noqa: N802
        """What the account holds now, beside what the stack asked for."""
        stack = self._store.get(given["StackName"])
        return {
            "StackResourceDrifts": [
                {
                    "StackId": stack.id,
                    "LogicalResourceId": each.logical_id,
                    "PhysicalResourceId": each.physical_id,
                    "ResourceType": each.type,
                    **self._state(each),
                }
                for each in stack.resources.values()
                if each.type == COMPARED
            ]
        }

    def _state(self, resource: StackResource) -> dict[str, Any]:
        logs = self._account.client("logs", self._region)
        groups = logs.describe_log_groups(logGroupNamePrefix=resource.physical_id)["logGroups"]
        if not groups:
            return {"StackResourceDriftStatus": "DELETED"}
        wanted, found = resource.properties.get("RetentionInDays"), groups[0].get("retentionInDays")
        if wanted == found:
            return {"StackResourceDriftStatus": "IN_SYNC"}
        difference = {
            "PropertyPath": "/RetentionInDays",
            "ExpectedValue": str(wanted),
            "ActualValue": str(found),
            "DifferenceType": "NOT_EQUAL",
        }
        return {"StackResourceDriftStatus": "MODIFIED", "PropertyDifferences": [difference]}
