"""What moto doesn't answer, and answers that a test puts in place of any call's: an error, a value, a delay."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from kvrelay.data import quotas
from kvrelay.local.aws.errors import AwsError

Given = dict[str, Any]
Answer = Callable[[Given], Given]

# The emulated account has room for some deployments, as an account that has asked for it.
_RAISED_TO = 512


class Answers:
    """Answers by service and operation, ahead of moto's."""

    def __init__(self) -> None:
        self._own: dict[tuple[str, str], Answer] = {}
        self._lock = threading.Lock()

    def put(self, service: str, operation: str, answer: Answer | AwsError) -> None:
        """From now on `operation` gives this answer, or fails with this error."""
        with self._lock:
            self._own[service, operation] = answer if callable(answer) else _failing(answer)

    def clear(self) -> None:
        """Forgets every answer that was put."""
        with self._lock:
            self._own.clear()

    def find(self, service: str, operation: str) -> Answer | None:
        """The answer to a call; None for those that others give."""
        return self._own.get((service, operation)) or _STANDING.get((service, operation))


def _failing(error: AwsError) -> Answer:
    def fail(given: Given) -> Given:
        raise error

    return fail


def _service_quota(given: Given) -> Given:
    for quota in quotas().values():
        if (quota.service, quota.code) == (given["ServiceCode"], given["QuotaCode"]):
            value = float(max(quota.default, _RAISED_TO) if quota.unit == "vCPU" else quota.default)
            return {
                "Quota": {
                    "ServiceCode": quota.service,
                    "QuotaCode": quota.code,
                    "QuotaName": quota.name,
                    "Value": value,
                    "Adjustable": True,
                }
            }
    raise AwsError("NoSuchResourceException", "The request failed because the specified quota doesn't exist.")


def _everything_allowed(given: Given) -> Given:
    return {
        "EvaluationResults": [
            {"EvalActionName": action, "EvalResourceName": "*", "EvalDecision": "allowed"}
            for action in given["ActionNames"]
        ],
        "IsTruncated": False,
    }


def _spot_scores(given: Given) -> Given:
    region = (given.get("RegionNames") or ["us-east-2"])[0]
    zones = [{"Region": region, "AvailabilityZoneId": f"use2-az{index}", "Score": 7} for index in (1, 2, 3)]
    return {"SpotPlacementScores": zones}


_STANDING: dict[tuple[str, str], Answer] = {
    # cdk asks the trail for more about a failed deployment; moto keeps none.
    ("cloudtrail", "LookupEvents"): lambda given: {"Events": []},
    ("servicequotas", "GetServiceQuota"): _service_quota,
    ("iam", "SimulatePrincipalPolicy"): _everything_allowed,
    ("ec2", "GetSpotPlacementScores"): _spot_scores,
}
