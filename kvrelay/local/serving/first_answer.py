"""Whether an endpoint answers a prompt: the only readiness that counts."""

from __future__ import annotations

import json
import urllib.error
import urllib.request


def first_answer(url: str, model_id: str, seconds: float = 120.0) -> bool:
    """Asks for one token. True when one came; False when the endpoint can't be reached or answers an error."""
    body = {"model": model_id, "prompt": "ready?", "max_tokens": 1, "temperature": 0}
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        # No proxy between a machine and itself.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=seconds) as response:
            return bool(json.load(response)["choices"])
    except (OSError, ValueError, KeyError):
        return False
