"""Hands each completion to a prefill engine and then to a decode engine, as Ray Serve's P/D server does, without Ray.

    python -m benchmarks.gpu.relay PORT PREFILL_URL DECODE_URL [--forgetful] [--times FILE]

`--forgetful` asks prefill for no hand-over. `--times` notes each request: prompt tokens, seconds that prefill took, and
seconds from then to decode's first bytes. /metrics shows both engines' pages under the names that Ray would give them.
"""

# mypy: disable-error-code="no-any-unimported"

from __future__ import annotations

import argparse
import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

_LINE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (.*)$")
HAND_OVER = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}


class Relay:
    """The handlers of one relay."""

    def __init__(self, prefill: str, decode: str, forgetful: bool, times: Path | None) -> None:
        self.engines = {"prefill": prefill, "decode": decode}
        self.forgetful = forgetful
        self.times = times.open("a") if times else None
        self.session: aiohttp.ClientSession

    async def begin(self, _: web.Application) -> None:
        self.session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        began = time.perf_counter()
        async with self.session.post(
            f"{self.engines['prefill']}/v1/completions", json=first_half(body, self.forgetful)
        ) as prefilled:
            if prefilled.status != 200:
                return web.Response(body=await prefilled.read(), status=prefilled.status)
            params = (await prefilled.json()).get("kv_transfer_params")
        handed = time.perf_counter()
        body = body | ({"kv_transfer_params": params} if params else {})
        async with self.session.post(f"{self.engines['decode']}/v1/completions", json=body) as decoded:
            response = web.StreamResponse(status=decoded.status)
            response.content_type = decoded.content_type
            first = None
            async for piece in decoded.content.iter_any():
                if first is None:
                    first = time.perf_counter()
                    await response.prepare(request)
                await response.write(piece)
            if self.times and first is not None:
                tokens = len(body["prompt"]) if isinstance(body["prompt"], list) else None
                note = {"prompt_tokens": tokens, "prefill_s": handed - began, "rest_s": first - handed}
                self.times.write(json.dumps(note) + "\n")
                self.times.flush()
            await response.write_eof()
            return response

    async def models(self, _: web.Request) -> web.Response:
        async with self.session.get(f"{self.engines['decode']}/v1/models") as response:
            return web.Response(body=await response.read(), content_type="application/json")

    async def metrics(self, _: web.Request) -> web.Response:
        async def page(role: str) -> str:
            async with self.session.get(f"{self.engines[role]}/metrics") as response:
                return labelled(await response.text(), role)

        return web.Response(text="".join(await asyncio.gather(*map(page, self.engines))))


def first_half(body: dict[str, Any], forgetful: bool = False) -> dict[str, Any]:
    """The request for prefill: one token, no stream, and the wish that its cache be kept for decode."""
    request = {key: value for key, value in body.items() if key not in ("stream_options", "min_tokens")}
    request |= {"stream": False, "max_tokens": 1}
    return request if forgetful else request | {"kv_transfer_params": HAND_OVER}


def labelled(page: str, role: str) -> str:
    """A Prometheus page with the labels by which Ray tells replicas apart."""
    lines = [f'serve_deployment_replica{{replica="{role}",deployment="{role}"}} 1']
    for line in page.splitlines():
        if match := _LINE.match(line):
            name, labels, value = match.groups()
            lines.append(f'{name}{{{labels + "," if labels else ""}ReplicaId="{role}"}} {value}')
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("port", type=int)
    parser.add_argument("prefill")
    parser.add_argument("decode")
    parser.add_argument("--forgetful", action="store_true")
    parser.add_argument("--times", type=Path)
    asked = parser.parse_args()
    handlers = Relay(asked.prefill, asked.decode, asked.forgetful, asked.times)
    app = web.Application(client_max_size=1 << 26)
    app.on_startup.append(handlers.begin)
    app.router.add_post("/v1/completions", handlers.complete)
    app.router.add_get("/v1/models", handlers.models)
    app.router.add_get("/metrics", handlers.metrics)

    async def health(_: web.Request) -> web.Response:
        return web.Response(text="ok")

    app.router.add_get("/health", health)
    web.run_app(app, host="127.0.0.1", port=asked.port, print=None)


if __name__ == "__main__":
    main()
