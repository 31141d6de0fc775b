"""A thin way to AWS: short time limits, few retries, one place that makes clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

_CONNECT_S = 5
_READ_S = 10


class Aws:
    """One region of the account of your credentials."""

    def __init__(self, region: str) -> None:
        import boto3

        self.region = region
        self._session = boto3.Session(region_name=region)
        self._clients: dict[str, Any] = {}
        # boto3's sessions may not make clients in two threads at once; clients themselves may be shared.
        self._lock = threading.Lock()

    def client(self, service: str) -> Any:
        """A client that gives up in seconds."""
        from botocore.config import Config

        with self._lock:
            if service not in self._clients:
                limits = Config(connect_timeout=_CONNECT_S, read_timeout=_READ_S, retries={"max_attempts": 2})
                self._clients[service] = self._session.client(service, config=limits)
            return self._clients[service]

    def pages(self, service: str, operation: str, key: str, **given: Any) -> Iterator[Any]:
        """Every entry under `key`, over all pages."""
        client = self.client(service)
        if client.can_paginate(operation):
            for page in client.get_paginator(operation).paginate(**given):
                yield from page.get(key) or ()
        else:
            yield from getattr(client, operation)(**given).get(key) or ()


def tag(row: dict[str, Any], key: str) -> str:
    """The value of a resource's tag; empty without it."""
    return next((str(each["Value"]) for each in row.get("Tags") or () if each["Key"] == key), "")
