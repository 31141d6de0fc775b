"""EventBridge rules."""

import json
from typing import Any

from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class Rule(Handler):
    """AWS::Events::Rule."""

    type = "AWS::Events::Rule"

    def create(self, request: Request) -> Made:
        request.physical_id = request.properties.get("Name") or request.name(64)
        return self.update(request)

    def update(self, request: Request) -> Made:
        client, name, wanted = request.client("events"), request.physical_id, request.properties
        arguments: dict[str, Any] = {
            key: wanted[key]
            for key in ("Description", "RoleArn", "ScheduleExpression", "State")
            if key in wanted
        }
        if "EventPattern" in wanted:
            arguments["EventPattern"] = json.dumps(wanted["EventPattern"])
        arn = client.put_rule(Name=name, **arguments)["RuleArn"]
        targets = wanted.get("Targets") or []
        gone = {t["Id"] for t in request.previous.get("Targets") or ()} - {t["Id"] for t in targets}
        if gone:
            client.remove_targets(Rule=name, Ids=sorted(gone))
        if targets:
            client.put_targets(Rule=name, Targets=targets)
        return Made(name, {"Arn": arn})

    def delete(self, request: Request) -> None:
        client, name = request.client("events"), request.physical_id
        ids = [target["Id"] for target in client.list_targets_by_rule(Rule=name)["Targets"]]
        if ids:
            client.remove_targets(Rule=name, Ids=ids)
        client.delete_rule(Name=name)
