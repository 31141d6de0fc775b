"""docs/rules.md, written from the rules: `python -m kvrelay.rules.documentation > docs/rules.md`."""

from __future__ import annotations

import sys
from typing import Any

from kvrelay.rules.registry import FAMILIES, RULES
from kvrelay.rules.rule import Rule

_HEAD = """\
# Rules

<!-- Written by `python -m kvrelay.rules.documentation > docs/rules.md`; a test fails when it is out of date. -->

`kvrelay check` holds a deployment.yaml, Ray Serve configs and Kubernetes manifests against these {count} rules, whoever
wrote them; synth holds what it builds against the same ones. An **error** is a fault whatever else is true; a
**warning** very likely is one.

```
kvrelay check                                   # ./deployment.yaml and the Serve config that it names
kvrelay check deployment.yaml --manifest dist/  # with the manifests that belong to it
kvrelay check my-rayservice.yaml                # any RayService, RayCluster, Serve config: files tell what they are
helm template my-chart | kvrelay check -        # several documents, from a pipe
kvrelay check --output sarif > findings.sarif   # also json, github
```

Exit codes: 0 nothing found, or warnings only; 1 errors found (`--strict`: warnings too); 2 a file can't be used.

## Accepting a finding

A finding is accepted beside what it is about, with the reason in a few words; it then no longer decides the exit code
and shows as a suppression in SARIF. There is no switch that turns a rule off everywhere.

| in | write | accepts it for |
| --- | --- | --- |
| deployment.yaml | `acknowledge: {{EF003: nightly batch jobs only}}` | all that is checked with this file |
| a Kubernetes object | annotation `kvrelay.io/acknowledge-UP001: spare nodes are there` | it and its Serve config |
| a Ray Serve config | comment `# acknowledge KV022: one replica for each pod` | the file |
"""


def rules_markdown() -> str:
    """The whole page."""
    parts = [_HEAD.format(count=len(RULES))]
    for family, title in FAMILIES.items():
        rules = [rule for rule in RULES if rule.number.startswith(family)]
        parts.append(f"\n## {family}: {title}\n")
        parts += [_entry(rule) for rule in sorted(rules, key=lambda rule: rule.number)]
    return "".join(parts)


def _entry(rule: Rule[Any]) -> str:
    reason = " ".join((rule.__doc__ or "").split())
    return (
        f"\n### {rule.number} {rule.name()} ({rule.level})\n\n"
        f"{reason}\n\n"
        f"- **Do:** {rule.mend}.\n"
        f"- **Source:** {rule.source}\n"
    )


if __name__ == "__main__":
    sys.stdout.write(rules_markdown())
