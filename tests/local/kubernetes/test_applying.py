"""Definitions are waited for through every state a server gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from kvrelay.local.kubernetes.api import Api, Object
from kvrelay.local.kubernetes.applying import wait_until_served

NAME = "rayservices.ray.io"
SPEC = {"versions": [{"name": "v1", "served": True}]}
ESTABLISHED = [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}]


class Server:
    """Answers with one state of the definition after another; the last one stays."""

    def __init__(self, *statuses: dict[str, Any] | None) -> None:
        self._states: Iterator[dict[str, Any] | None] = iter(statuses)
        self._state: dict[str, Any] | None = None
        self.looks = 0

    def get(self, *_: str) -> Object:
        self.looks += 1
        self._state = next(self._states, self._state)
        return {"spec": SPEC} | ({} if self._state is None else {"status": self._state})

    def request(self, _: str, path: str) -> Object:
        if path == "/apis":
            return {"groups": [{"name": "ray.io"}]}
        return {"resources": [{"name": "rayservices"}]}


@pytest.mark.parametrize(
    "unseen",
    [
        None,
        {},
        {"conditions": None},
        {"conditions": []},
        {"conditions": [{"type": "NamesAccepted", "status": "True"}]},
        {
            "conditions": [
                {"type": "NamesAccepted", "status": "True"},
                {"type": "Established", "status": "False"},
            ]
        },
    ],
)
def test_a_definition_that_is_not_established_yet_is_waited_for(unseen: dict[str, Any] | None) -> None:
    server = Server(unseen, {"conditions": ESTABLISHED})
    wait_until_served(cast(Api, server), NAME)
    # One look too early, one that finds it established, one at its versions.
    assert server.looks == 3
