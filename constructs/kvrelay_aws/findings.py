"""Says the rules' findings and the planner's summary at synth, in CDK's own way."""

from collections.abc import Iterable

from aws_cdk import Annotations
from constructs import IConstruct

from kvrelay.rules import Finding, Level


def annotate(construct: IConstruct, findings: Iterable[Finding], summary: str) -> None:
    """Errors stop synth. Acknowledged findings are silent: their reason stands in the file."""
    annotations = Annotations.of(construct)
    annotations.add_info(summary)
    for finding in findings:
        if not finding.counts:
            continue
        if finding.level is Level.ERROR:
            annotations.add_error(str(finding))
        else:
            annotations.add_warning_v2(finding.rule, str(finding))
