"""A stack's outputs, and the names it exports to other stacks."""

from typing import Any

from kvrelay.local.aws.cloudformation.intrinsics import Evaluator, text_of
from kvrelay.local.aws.cloudformation.stacks import Stack, StackStore
from kvrelay.local.aws.cloudformation.template import Template
from kvrelay.local.aws.errors import ValidationError


def evaluate_outputs(evaluator: Evaluator, template: Template) -> dict[str, dict[str, Any]]:
    """Each wanted output with its value, description and export name."""
    outputs: dict[str, dict[str, Any]] = {}
    for name, block in template.outputs.items():
        if not evaluator.is_wanted(block):
            continue
        output: dict[str, Any] = {"OutputKey": name, "OutputValue": text_of(evaluator.value(block["Value"]))}
        if "Description" in block:
            output["Description"] = block["Description"]
        if "Export" in block:
            output["ExportName"] = text_of(evaluator.value(block["Export"]["Name"]))
        outputs[name] = output
    return outputs


def publish(store: StackStore, stack: Stack, outputs: dict[str, dict[str, Any]]) -> None:
    """Makes `outputs` the stack's; refuses to change or drop an export that another stack imports."""
    exports = {o["ExportName"]: o["OutputValue"] for o in outputs.values() if "ExportName" in o}
    for name, value in exports.items():
        owner = store.exporter(name)
        if owner is not None and owner is not stack:
            raise ValidationError(f"Export with name {name} is already exported by stack {owner.name}")
        if name in stack.exports and stack.exports[name] != value:
            _refuse(store, name, "updated")
    for name in stack.exports.keys() - exports.keys():
        _refuse(store, name, "deleted")
    stack.outputs, stack.exports = outputs, exports


def _refuse(store: StackStore, export: str, verb: str) -> None:
    users = [user.name for user in store.importers(export)]
    if users:
        raise ValidationError(
            f"Cannot {verb[:-1]} export {export} as it is in use by {', '.join(users)}."
            if verb == "deleted"
            else f"Export {export} cannot be {verb} as it is in use by {', '.join(users)}"
        )
