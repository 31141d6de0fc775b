"""Runs in the Ray head: asks the model's endpoint as any client in the cluster would, and prints JSON.

    python3 -c '<this>' http://ray-llm-serve-svc:8000 MODEL

Prints {"models": [...], "token": bool, "error": "..."}. Needs Python alone.
"""

# ruff: noqa: T201 - its output is the answer

import json
import sys
import urllib.error
import urllib.request
from typing import Any


def ask(url: str, body: object = None, seconds: float = 5) -> Any:
    """The answer as JSON, without any proxy."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers={"Content-Type": "application/json"})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=seconds) as answer:
        return json.load(answer)


def why(error: Exception) -> str:
    """An error in one line; of an HTTP one, what the body says."""
    if isinstance(error, urllib.error.HTTPError):
        body = error.read(2000).decode(errors="replace")
        try:
            found = json.loads(body)
            body = (found.get("error") or found).get("message", body)
        except (ValueError, AttributeError):
            pass
        return f"HTTP {error.code}: {' '.join(str(body).split())[:500]}"
    return str(getattr(error, "reason", error)) or type(error).__name__


def main() -> None:
    url, model = sys.argv[1:3]
    found: dict[str, Any] = {"models": [], "token": False, "error": ""}
    try:
        found["models"] = [str(card["id"]) for card in ask(f"{url}/v1/models")["data"]]
        if model in found["models"]:
            body = {"model": model, "prompt": "1 2 3 4", "max_tokens": 2, "temperature": 0}
            answer = ask(f"{url}/v1/completions", body, seconds=15)
            found["token"] = bool(answer["choices"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        found["error"] = why(error)
    print(json.dumps(found))


main()
