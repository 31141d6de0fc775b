"""Takes secrets out of what is shown or written: by kind, by name, by form, and by value once one is known."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from typing import Any

MASK = "<masked>"
_SHORTEST = 6

_SENSITIVE = re.compile(
    r"(?i)token|secret|passw|credential|api_?key|access_?key|private_?key|auth|cookie|signature|session"
)
# Literal values of other variables are masked too: only what is known to be harmless is shown.
_HARMLESS = re.compile(
    r"^(RAY_|VLLM_|NCCL_|FI_|NVIDIA_|NIXL_|UCX_|CUDA_|OMP_|HF_(HOME|HUB_OFFLINE|TOKEN_PATH)$|TORCH|TRITON|FLASHINFER"
    r"|KUBERNETES_|POD_|NODE_|AWS_(DEFAULT_)?REGION$|PATH$|HOME$|FQ_RAY_IP$|DO_NOT_TRACK$|MOFED_|MIG_|DEVICE_"
    r"|FAIL_ON_INIT_ERROR$|REQUIRE_|PYTHON|LD_LIBRARY_PATH$|LANG$|TZ$)"
)
# Before a token: no letter, unless it belongs to a line break that was escaped.
_EDGE = r"(?:(?<=\\[nrt])|\b)"
_FORMS = (
    re.compile(_EDGE + r"hf_[A-Za-z0-9]{8,}"),
    re.compile(_EDGE + r"(?:AKIA|ASIA|AIDA|AROA)[A-Z0-9]{12,}\b"),
    re.compile(_EDGE + r"k8s-aws-v1\.[\w.=-]+"),
    re.compile(_EDGE + r"eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?"),
    re.compile(_EDGE + r"(?:ghp|gho|ghs|github_pat|glpat|sk|xox[abp])[-_][A-Za-z0-9_-]{16,}"),
    re.compile(r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"),
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]{6,}"),
    re.compile(r"(?i)(?<=basic )[A-Za-z0-9+/=]{8,}"),
    re.compile(r"(?i)(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),
    re.compile(r"(?i)(?<=X-Amz-)(?:Signature|Security-Token|Credential)=[^&\s\"']+"),
)
_ASSIGNED = re.compile(
    r"(?i)(?P<name>[\w.-]*(?:token|secret|passw(?:or)?d|credential|api_?key|access_?key|private_?key)[\w.-]*"
    r"[\"']?\s*[=:]\s*)(?P<quote>[\"']?)(?P<value>[^\s\"',;&}{<]{6,})"
)
# Where a name of that sort is followed by something that is no secret.
_PLAIN = re.compile(r"^(?:true|false|null|none|\d{1,9}(?:\.\d+)?)$", re.IGNORECASE)


class Masker:
    """Masks texts and objects; what it learns from one, it masks in all that come after."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known: set[str] = set()
        for value in known:
            self.learn(value)

    def learn(self, value: str) -> None:
        """A value that must show nowhere. Too short ones are left: they are parts of ordinary words."""
        if len(value) >= _SHORTEST:
            self._known.add(value)

    def learn_secret(self, secret: dict[str, Any]) -> None:
        """Every value of a Kubernetes Secret, as it is and as base64."""
        for value in (secret.get("stringData") or {}).values():
            self.learn(str(value))
        for encoded in (secret.get("data") or {}).values():
            self.learn(str(encoded))
            try:
                text = base64.b64decode(encoded).decode()
            except (binascii.Error, UnicodeDecodeError, TypeError, ValueError):
                continue
            self.learn(text)
            self.learn(text.strip())

    def text(self, text: str) -> str:
        """Masked by value first, then by form."""
        for value in sorted(self._known, key=len, reverse=True):
            text = text.replace(value, MASK)
        for form in _FORMS:
            text = form.sub(MASK, text)
        return _ASSIGNED.sub(_assigned, text)

    def object(self, value: Any) -> Any:
        """An object of Kubernetes: env values, Secrets' data, and the copies that kubectl keeps in annotations."""
        if isinstance(value, dict):
            if value.get("kind") == "Secret" or {"data", "type"} <= value.keys():
                value = {**value, **{key: MASK for key in ("data", "stringData") if value.get(key)}}
            if set(value) == {"name", "value"} and isinstance(value["value"], str):
                return {"name": value["name"], "value": self._variable(str(value["name"]), value["value"])}
            return {
                key: self.object(item)
                for key, item in value.items()
                if key not in ("kubectl.kubernetes.io/last-applied-configuration", "managedFields")
            }
        if isinstance(value, list | tuple):
            return [self.object(item) for item in value]
        return self.text(value) if isinstance(value, str) else value

    def _variable(self, name: str, value: str) -> str:
        if _SENSITIVE.search(name) and not name.endswith(("_PATH", "_FILE", "_MODE")):
            self.learn(value)
            return MASK
        if not _HARMLESS.search(name) and value:
            self.learn(value)
            return MASK
        return self.text(value)


def _assigned(match: re.Match[str]) -> str:
    if _PLAIN.match(match["value"]):
        return match.group()
    return f"{match['name']}{match['quote']}{MASK}"
