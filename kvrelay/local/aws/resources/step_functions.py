"""Step Functions state machines."""

import json
from typing import Any

from kvrelay.local.aws.errors import ResourceFailedError
from kvrelay.local.aws.resources.registry import Handler, Made, Request, handles


@handles
class StateMachine(Handler):
    """AWS::StepFunctions::StateMachine."""

    type = "AWS::StepFunctions::StateMachine"

    def create(self, request: Request) -> Made:
        wanted = request.properties
        name = wanted.get("StateMachineName") or request.name(80)
        arn = request.client("stepfunctions").create_state_machine(
            name=name,
            definition=_definition(wanted),
            roleArn=wanted["RoleArn"],
            type=wanted.get("StateMachineType", "STANDARD"),
            tags=[{"key": key, "value": value} for key, value in request.tags().items()],
        )["stateMachineArn"]
        return Made(arn, {"Arn": arn, "Name": name})

    def update(self, request: Request) -> Made:
        request.client("stepfunctions").update_state_machine(
            stateMachineArn=request.physical_id,
            definition=_definition(request.properties),
            roleArn=request.properties["RoleArn"],
        )
        return Made(request.physical_id, request.attributes)

    def delete(self, request: Request) -> None:
        request.client("stepfunctions").delete_state_machine(stateMachineArn=request.physical_id)


def _definition(wanted: dict[str, Any]) -> str:
    if "Definition" in wanted:
        return json.dumps(wanted["Definition"])
    if "DefinitionString" not in wanted:
        raise ResourceFailedError("AWS::StepFunctions::StateMachine: DefinitionS3Location is not emulated")
    text = str(wanted["DefinitionString"])
    for key, value in (wanted.get("DefinitionSubstitutions") or {}).items():
        text = text.replace("${" + key + "}", str(value))
    return text
