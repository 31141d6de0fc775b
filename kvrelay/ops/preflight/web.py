"""One HTTP question with a time limit."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping


def status_of(
    url: str, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> tuple[int, Mapping[str, str], bytes]:
    """Status, headers and the first 64 KiB. Raises OSError when nothing answers."""
    request = urllib.request.Request(url, headers=dict(headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            return reply.status, dict(reply.headers.items()), reply.read(65536)
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers.items()), b""
