"""The programs that deploying needs on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from kvrelay.ops.preflight.rows import Row, Status, Subject


class Tools:
    """cdk and node to deploy, kubectl to look around."""

    name = "tools"
    limit_s = 5.0

    def run(self, subject: Subject) -> Iterator[Row]:
        """A row for each."""
        for program, missing, mend in (
            ("node", Status.FAIL, "make setup, then put node_modules/.bin on PATH"),
            ("cdk", Status.FAIL, "make setup, then put node_modules/.bin on PATH"),
            ("kubectl", Status.WARN, "https://kubernetes.io/docs/tasks/tools/ (kvrelay itself needs it not)"),
        ):
            if shutil.which(program):
                yield Row(self.name, program, Status.PASS, "found on PATH")
            else:
                yield Row(self.name, program, missing, "is not on PATH", mend)
