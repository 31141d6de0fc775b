"""The rules that a deployment, a Serve config and manifests must keep, each with a number and a reason.

    findings = check_all(Subject(deployment=read_deployment(path), serve_configs=[...], manifests=[...]))

docs/rules.md lists them; `kvrelay check` runs them over files, synth over what it builds.
"""

from kvrelay.rules.checking import check_all
from kvrelay.rules.registry import RULES
from kvrelay.rules.rule import Finding, Level, Rule
from kvrelay.rules.serve import ServeConfig
from kvrelay.rules.subject import Subject
from kvrelay.rules.value import Value, document_of

__all__ = ["RULES", "Finding", "Level", "Rule", "ServeConfig", "Subject", "Value", "check_all", "document_of"]
