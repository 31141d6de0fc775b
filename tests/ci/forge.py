"""The few operations of GitHub's and GitLab's APIs that ci/report.py uses, kept in memory on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PROJECT = {"github": "/repos/team/model/", "gitlab": "/projects/42/"}
COMMENTS = {"github": "issues/7/comments", "gitlab": "merge_requests/7/notes"}
_STATES = {"open": "open", "opened": "open"}


@dataclass
class Forge:
    """One project's comments on pull request 7, and its issues."""

    kind: str
    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    issues: list[dict[str, Any]] = field(default_factory=list)
    writable: bool = True

    @property
    def environment(self) -> dict[str, str]:
        """What a job of this forge has in its environment."""
        if self.kind == "github":
            return {
                "GITHUB_API_URL": self.url,
                "GITHUB_REPOSITORY": "team/model",
                "GITHUB_TOKEN": "t",
                "PULL_REQUEST": "7",
            }
        return {
            "GITLAB_CI": "true",
            "CI_API_V4_URL": self.url,
            "CI_PROJECT_ID": "42",
            "GITLAB_TOKEN": "t",
            "CI_MERGE_REQUEST_IID": "7",
        }

    @property
    def open_issues(self) -> list[dict[str, Any]]:
        """Issues that are not closed."""
        return [each for each in self.issues if each["state"] == "open"]

    def add_issue(self, text: str, state: str = "open") -> None:
        """An issue of someone else's."""
        number = len(self.issues) + 1
        key, name = ("body", "number") if self.kind == "github" else ("description", "iid")
        self.issues.append({"id": 9000 + number, name: number, key: text, "state": state})

    def answer(self, method: str, path: str, content: dict[str, Any]) -> tuple[int, Any]:
        """Status and body of one request."""
        parts = urlsplit(path)
        assert parts.path.startswith(PROJECT[self.kind])
        name = parts.path.removeprefix(PROJECT[self.kind])
        query = dict(parse_qsl(parts.query))
        edit = "PATCH" if self.kind == "github" else "PUT"
        listed = {COMMENTS[self.kind]: self.comments, "issues": self.issues}
        if method == "GET" and name in listed:
            rows = [
                row for row in listed[name] if "state" not in query or row["state"] == _STATES[query["state"]]
            ]
            size, page = int(query["per_page"]), int(query["page"])
            return 200, rows[size * (page - 1) : size * page]
        if not self.writable:
            return 403, {"message": "Resource not accessible by integration"}
        if method == "POST" and name == "issues":
            self.add_issue("")
            return 201, self._edit(self.issues[-1], content)
        if method == "POST" and name in listed:
            self.comments.append({"id": 100 + len(self.comments), **content})
            return 201, self.comments[-1]
        if method == edit:
            path_of, _, number = name.rpartition("/")
            key = "number" if self.kind == "github" else "iid"
            if path_of == "issues":
                return 200, self._edit(
                    next(each for each in self.issues if each[key] == int(number)), content
                )
            if path_of == ("issues/comments" if self.kind == "github" else COMMENTS["gitlab"]):
                return 200, self._edit(
                    next(each for each in self.comments if each["id"] == int(number)), content
                )
        return 404, {"message": "Not Found"}

    @staticmethod
    def _edit(row: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
        row.update(content)
        if row.pop("state_event", None) == "close":
            row["state"] = "closed"
        return row


@contextmanager
def running(kind: str) -> Iterator[Forge]:
    """A forge that answers on loopback."""
    forge = Forge(kind)
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(forge.answer)) as server:
        forge.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield forge
        server.shutdown()


def _handler(answer: Callable[[str, str, dict[str, Any]], tuple[int, Any]]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(length)) if length else {}
            status, body = answer(self.command, self.path, content)
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_PATCH = do_PUT = do  # noqa: N815

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
