"""An OpenAI endpoint with known delays and faults, served over real HTTP in a thread or as a process of its own."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass
class Behaviour:
    """How the endpoint answers. Times in seconds."""

    first_token: float = 0.05
    gap: float = 0.01
    fault: str = ""
    """`status`, `event`, `cut`, `reset`, `hang`, `nonsense` or `silent`: what every `fault_every`-th request meets."""
    fault_every: int = 1
    one_at_a_time: bool = False
    counts: bool = True
    """Whether it counts tokens in each chunk when asked to."""
    stall_at: int = -1
    """The token before which it pauses for `stall`."""
    stall: float = 0.0
    asked: list[dict[str, Any]] = field(default_factory=list)
    arrivals: list[float] = field(default_factory=list)
    model: str = "tiny"


class StreamingServer:
    """Answers completions and chat completions, one chunk a token."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.gate = asyncio.Semaphore(1)
        self.app = web.Application(client_max_size=1 << 30)
        self.app.router.add_get("/v1/models", self.models)
        self.app.router.add_post("/v1/completions", self.answer)
        self.app.router.add_post("/v1/chat/completions", self.answer)

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": self.behaviour.model}]})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        behaviour = self.behaviour
        behaviour.arrivals.append(asyncio.get_running_loop().time())
        body = await request.json()
        behaviour.asked.append(body)
        fault = behaviour.fault if len(behaviour.asked) % behaviour.fault_every == 0 else ""
        if fault == "status":
            return web.json_response({"error": {"message": "the engine died"}}, status=500)
        if behaviour.one_at_a_time:
            async with self.gate:
                return await self.stream(request, body, fault)
        return await self.stream(request, body, fault)

    async def stream(self, request: web.Request, body: dict[str, Any], fault: str) -> web.StreamResponse:
        behaviour = self.behaviour
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        chat = "messages" in body
        prompt = len(body["messages"][0]["content"].split()) if chat else len(body["prompt"])
        usage = {"prompt_tokens": prompt, "completion_tokens": 0}
        counted = behaviour.counts and body["stream_options"].get("continuous_usage_stats")

        async def send(choice: dict[str, Any]) -> None:
            chunk: dict[str, Any] = {"choices": [choice]}
            if counted:
                chunk["usage"] = usage
            await response.write(f"data: {json.dumps(chunk)}\n\n".encode())

        if chat:
            await send({"delta": {"role": "assistant", "content": ""}})
        await asyncio.sleep(behaviour.first_token)
        tokens = body["max_tokens"]
        for index in range(tokens):
            if index == tokens // 2 and await self.fails(fault, request, response):
                return response
            if index:
                await asyncio.sleep(behaviour.stall if index == behaviour.stall_at else behaviour.gap)
            usage["completion_tokens"] += 1
            text = f" {prompt}"
            finish = "length" if index == tokens - 1 else None
            await send(
                {("delta" if chat else "text"): {"content": text} if chat else text, "finish_reason": finish}
            )
        await response.write(f"data: {json.dumps({'choices': [], 'usage': usage})}\n\n".encode())
        await response.write(b"data: [DONE]\n\n")
        return response

    async def fails(self, fault: str, request: web.Request, response: web.StreamResponse) -> bool:
        if fault == "hang":
            await asyncio.sleep(3600)
        elif fault == "reset":
            assert request.transport is not None
            request.transport.abort()
        elif fault == "event":
            await response.write(b'data: {"error": {"message": "decode was lost", "code": 500}}\n\n')
        elif fault == "nonsense":
            await response.write(b"data: {not json\n\n")
        elif fault == "silent":
            await response.write(b"data: [DONE]\n\n")
        # A cut is the answer's end without another word.
        return bool(fault)


async def _started(behaviour: Behaviour, port: int = 0) -> tuple[web.AppRunner, int]:
    runner = web.AppRunner(
        StreamingServer(behaviour).app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port, backlog=1024)
    await site.start()
    return runner, runner.addresses[0][1]


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[str]:
    """The endpoint's URL while it is served from a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner, port = asyncio.run_coroutine_threadsafe(_started(behaviour), loop).result(30)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def _serve_until_input_ends() -> None:
    behaviour = Behaviour(first_token=float(sys.argv[1]), gap=float(sys.argv[2]))
    runner, port = await _started(behaviour)
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(_serve_until_input_ends())
