"""Keeps one comment in a pull request, or one issue, that says what the pipeline found; on GitHub and GitLab.

python ci/report.py comment FILE    writes FILE into the pull request's comment, or makes it
python ci/report.py issue FILE      writes FILE into the open issue about drift, or opens it
python ci/report.py resolve         closes that issue, if there is one

GitHub: GITHUB_TOKEN, GITHUB_API_URL, GITHUB_REPOSITORY, PULL_REQUEST. GitLab: GITLAB_TOKEN (a project access token
with the scope api), CI_API_V4_URL, CI_PROJECT_ID, CI_MERGE_REQUEST_IID.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

COMMENT, ISSUE = "<!-- kvrelay: diff -->", "<!-- kvrelay: drift -->"
TITLE = "What runs is not what was deployed"
LONGEST = 60_000  # GitHub takes 65536 characters, GitLab more


class Forge:
    """What both forges' APIs have in common: notes in a thread, issues, and pages of them."""

    comments: str
    issues: str
    text = "body"
    edit = "PATCH"
    closed: dict[str, str]
    opened: dict[str, str]

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self._client = httpx.Client(base_url=url, headers=headers, timeout=30)

    def comment(self, body: str) -> str:
        """Writes the one comment."""
        return self._write(self.comments, {}, COMMENT, {"body": f"{COMMENT}\n{body}"}, "body")

    def issue(self, body: str) -> str:
        """Writes the one open issue."""
        content = {"title": TITLE, self.text: f"{ISSUE}\n{body}"}
        return self._write(self.issues, self.opened, ISSUE, content, self.text)

    def resolve(self) -> str:
        """Closes it."""
        known = self._find(self.issues, self.opened, ISSUE, self.text)
        if known is None:
            return "no open issue about drift"
        self._send(self.edit, f"{self.issues}/{self._number(known)}", self.closed)
        return f"closed issue {self._number(known)}"

    def _write(self, path: str, query: dict[str, str], marker: str, content: dict[str, str], key: str) -> str:
        known = self._find(path, query, marker, key)
        if known is None:
            return f"made {path}/{self._number(self._send('POST', path, content))}"
        target = f"{self._edited(path)}/{self._number(known)}"
        self._send(self.edit, target, content)
        return f"updated {target}"

    def _find(self, path: str, query: dict[str, str], marker: str, key: str) -> Any:
        return next((each for each in self._all(path, query) if (each[key] or "").startswith(marker)), None)

    def _all(self, path: str, query: dict[str, str]) -> Iterator[Any]:
        page = 1
        while rows := self._send("GET", path, query={**query, "per_page": "100", "page": str(page)}):
            yield from rows
            page += 1

    def _send(
        self,
        method: str,
        path: str,
        content: dict[str, str] | None = None,
        query: dict[str, str] | None = None,
    ) -> Any:
        answer = self._client.request(method, path, json=content, params=query)
        if answer.is_error:
            sys.exit(f"report: {method} {answer.url}: {answer.status_code} {answer.text[:200]}")
        return answer.json()

    def _number(self, row: Any) -> int:
        raise NotImplementedError

    def _edited(self, path: str) -> str:
        return path


class GitHub(Forge):
    """https://docs.github.com/en/rest/issues."""

    opened, closed = {"state": "open"}, {"state": "closed"}

    def __init__(self) -> None:
        headers = {
            "Authorization": f"Bearer {_need('GITHUB_TOKEN')}",
            "Accept": "application/vnd.github+json",
        }
        super().__init__(f"{_need('GITHUB_API_URL')}/repos/{_need('GITHUB_REPOSITORY')}", headers)
        self.issues = "issues"
        self.comments = f"issues/{os.environ.get('PULL_REQUEST')}/comments"

    def _number(self, row: Any) -> int:
        return int(row.get("number") or row["id"])

    def _edited(self, path: str) -> str:
        return "issues/comments" if path == self.comments else path


class GitLab(Forge):
    """https://docs.gitlab.com/api/notes/ and https://docs.gitlab.com/api/issues/."""

    text, edit = "description", "PUT"
    opened, closed = {"state": "opened"}, {"state_event": "close"}

    def __init__(self) -> None:
        url = f"{_need('CI_API_V4_URL')}/projects/{_need('CI_PROJECT_ID')}"
        super().__init__(url, {"PRIVATE-TOKEN": _need("GITLAB_TOKEN")})
        self.issues = "issues"
        self.comments = f"merge_requests/{os.environ.get('CI_MERGE_REQUEST_IID')}/notes"

    def _number(self, row: Any) -> int:
        return int(row.get("iid") or row["id"])


def _need(name: str) -> str:
    return os.environ.get(name) or sys.exit(f"report: {name} is not set; see the head of ci/report.py")


def main(arguments: list[str]) -> None:
    """Runs one of the three."""
    match arguments:
        case ["comment" | "issue" as what, file]:
            body = Path(file).read_text(encoding="utf-8")
            if len(body) > LONGEST:
                body = body[:LONGEST].rpartition("\n")[0] + "\n\nThe rest stands in the job's own output.\n"
            print(getattr(_forge(), what)(body))  # noqa: T201
        case ["resolve"]:
            print(_forge().resolve())  # noqa: T201
        case _:
            sys.exit(__doc__)


def _forge() -> Forge:
    return GitLab() if os.environ.get("GITLAB_CI") else GitHub()


if __name__ == "__main__":
    main(sys.argv[1:])
