"""The OpenAI-compatible endpoint a command talks to: given by URL, or the one last announced on this machine."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from kvrelay.errors import UserError

# Whoever serves on this machine, or forwards a cluster's port to it, says so here.
ANNOUNCED = Path(__file__).parents[3] / ".kvrelay" / "endpoint.json"


class EndpointError(UserError):
    """The endpoint can't be reached, or does not serve what was asked for."""

    exit_code = 1


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a model answers. `url` has no path; `metrics_urls` are Prometheus pages of the engines' nodes."""

    url: str
    metrics_urls: tuple[str, ...] = ()
    api_key: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}

    def client(self, timeout: float = 600.0) -> httpx.AsyncClient:
        """An HTTP client; on loopback it goes through no proxy."""
        limits = httpx.Limits(max_connections=2048, max_keepalive_connections=256)
        return httpx.AsyncClient(
            base_url=self.url,
            headers=self.headers,
            timeout=httpx.Timeout(timeout, connect=10.0),
            limits=limits,
            trust_env=not _is_loopback(self.url),
        )

    def models(self) -> list[str]:
        """The ids of the models served here. Raises EndpointError, one line."""
        try:
            response = httpx.get(
                f"{self.url}/v1/models",
                headers=self.headers,
                timeout=30.0,
                trust_env=not _is_loopback(self.url),
            )
            response.raise_for_status()
            return [str(card["id"]) for card in response.json()["data"]]
        except httpx.HTTPStatusError as error:
            raise EndpointError(f"{self.url} answers {error.response.status_code} to /v1/models") from None
        except httpx.HTTPError as error:
            raise EndpointError(
                f"{self.url} can't be reached: {str(error) or type(error).__name__}"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise EndpointError(f"{self.url}/v1/models is not an OpenAI-compatible list of models") from None

    def model(self, wanted: str | None = None) -> str:
        """`wanted` if it is served here, or the only model. Raises EndpointError."""
        served = self.models()
        if wanted is None and len(served) == 1:
            return served[0]
        if wanted in served:
            return str(wanted)
        names = ", ".join(served) or "nothing"
        asked = f"does not serve {wanted}" if wanted else "serves more than one model; choose with --model"
        raise EndpointError(f"{self.url} {asked}; it serves {names}")

    def announce(self, file: Path = ANNOUNCED) -> None:
        """Makes this the endpoint that commands use when they are given none. The key is not written."""
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self) | {"api_key": None}))

    def withdraw(self, file: Path = ANNOUNCED) -> None:
        """Takes the announcement back, if it is still this endpoint's."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads(file.read_text())["url"] == self.url:
                file.unlink()


def endpoint(url: str | None, metrics_urls: tuple[str, ...] = (), api_key: str | None = None) -> Endpoint:
    """The endpoint at `url`, or the announced one when there is no `url`. Raises UserError."""
    if url is None:
        return announced_endpoint()
    parts = urlsplit(url if "//" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError(f"--url {url!r} is not an address; right would be http://127.0.0.1:8000")
    # People copy base URLs with /v1; every path here brings its own.
    path = parts.path.rstrip("/").removesuffix("/v1")
    return Endpoint(f"{parts.scheme}://{parts.netloc}{path}", metrics_urls, api_key)


def announced_endpoint(file: Path = ANNOUNCED) -> Endpoint:
    """The endpoint that `announce` left. Raises EndpointError when there is none."""
    try:
        found = json.loads(file.read_text())
        return Endpoint(str(found["url"]), tuple(found["metrics_urls"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise EndpointError(
            "no endpoint: nothing is served on this machine (kvrelay local serve), none is forwarded to it "
            "(kvrelay endpoint), and neither --url nor --deployment was given"
        ) from None


def _is_loopback(url: str) -> bool:
    return urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
