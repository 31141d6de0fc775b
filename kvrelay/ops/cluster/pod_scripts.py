"""Small programs that run in Ray's pods and only read; each prints what its reader here takes."""

from __future__ import annotations

from importlib.resources import files


def ask_endpoint(url: str, model: str) -> tuple[str, ...]:
    """Asks the endpoint from inside; prints JSON. See scripts/ask_endpoint.py."""
    return _python("ask_endpoint.py", url, model)


def tail_logs(lines: int) -> tuple[str, ...]:
    """The engines' last lines and milestones. See scripts/tail_logs.py."""
    return _python("tail_logs.py", str(lines))


METRICS = (
    "python3",
    "-c",
    "import urllib.request as r; "
    "print(r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:8080/metrics', timeout=5).read().decode())",
)
"""The Prometheus page of a pod's Ray node."""


def _python(script: str, *arguments: str) -> tuple[str, ...]:
    text = files("kvrelay.ops.cluster").joinpath(f"scripts/{script}").read_text(encoding="utf-8")
    return ("python3", "-c", text, *arguments)
