"""Sends a request set at its own times, whatever the endpoint does meanwhile, and keeps what came back."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import urlsplit

import aiohttp

from kvrelay.bench.outcome import Ending, Outcome
from kvrelay.bench.prompts import Api, bodies
from kvrelay.bench.request_set import Request, RequestSet
from kvrelay.bench.transcript import Piece, Transcript, read_stream
from kvrelay.ops.openai_stream import error_message

# Servers close idle connections after 5 s or more; one that closes just when it is used again looks like a failure.
_IDLE_SECONDS = 2.0
_LEAD_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Target:
    """An endpoint under its name in the report. `url` has no path; `model` is the id that it serves."""

    name: str
    url: str
    model: str
    api: Api = Api.COMPLETIONS
    api_key: str | None = None
    extensions: bool = True
    """Whether it understands vLLM's additions to OpenAI's requests."""

    @property
    def headers(self) -> dict[str, str]:
        bearer = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return {"Content-Type": "application/json", **bearer}


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds that a request may take, and that connecting may."""

    request: float = 300.0
    connect: float = 10.0


@dataclass(frozen=True, slots=True)
class Run:
    """One request set's outcomes, in its order. Times in seconds."""

    outcomes: tuple[Outcome, ...]
    elapsed: float
    """From the start of the load to the last answer's end."""
    client_cpu: float
    """Processor time that this client took meanwhile: near `elapsed`, it measured itself."""


async def drive(target: Target, asked: RequestSet, limits: Limits, salt: str = "") -> Run:
    """Sends every request at its time on a connection of its own and reads all answers. Raises nothing of the network.

    The loop only notes what arrives when; streams are understood after the last has ended.
    """
    prepared = list(bodies(asked, target.model, target.api, target.extensions, salt))
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS)
    local = urlsplit(target.url).hostname in ("127.0.0.1", "localhost", "::1")
    async with aiohttp.ClientSession(
        connector=connector,
        headers=target.headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect),
        trust_env=not local,
    ) as session:
        loop = asyncio.get_running_loop()
        with _undisturbed():
            start, cpu = loop.time() + _LEAD_SECONDS, time.process_time()
            tasks = []
            for request, body in zip(asked.requests, prepared, strict=True):
                if (wait := start + request.at - loop.time()) > 0:
                    await asyncio.sleep(wait)
                exchange = _Exchange(start)
                sending = exchange.run(session, target.url + target.api.path, body, limits.request)
                tasks.append(asyncio.create_task(sending))
            exchanges = await asyncio.gather(*tasks)
            elapsed, cpu = loop.time() - start, time.process_time() - cpu
    outcomes = tuple(
        exchange.outcome(request) for exchange, request in zip(exchanges, asked.requests, strict=True)
    )
    return Run(outcomes, elapsed, cpu)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Keeps the garbage collector from walking over what is there already: its pauses would look like stalls."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


class _Exchange:
    """One request's bytes and times, relative to `start`."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.sent = 0.0
        self.ended = 0.0
        self.status = 0
        self.pieces: list[Piece] = []
        self.broken: Ending | None = None
        self.problem = ""

    async def run(self, session: aiohttp.ClientSession, url: str, body: bytes, limit: float) -> _Exchange:
        now = asyncio.get_running_loop().time
        self.sent = now() - self.start
        try:
            async with (
                asyncio.timeout(limit),
                session.post(url, data=body, allow_redirects=False) as response,
            ):
                self.status = response.status
                async for piece in response.content.iter_any():
                    self.pieces.append((now() - self.start, piece))
        except aiohttp.ClientError as error:
            self.broken = Ending.CUT if self.status else Ending.REFUSED
            self.problem = _problem(error)
        except TimeoutError:
            self.broken, self.problem = Ending.TIME_LIMIT, f"no end within {limit:g} s"
        except OSError as error:
            self.broken = Ending.CUT if self.status else Ending.REFUSED
            self.problem = _problem(error)
        self.ended = now() - self.start
        return self

    def outcome(self, request: Request) -> Outcome:
        if self.status and self.status != 200:
            return self._outcome(request, Ending.ERROR, Transcript(), self._refusal())
        found = read_stream(self.pieces)
        ending = found.ending
        if ending is Ending.CUT:
            ending = self.broken or Ending.CUT
        error = found.error or self.problem or "the stream ended without [DONE]"
        return self._outcome(request, ending, found, "" if ending is Ending.WHOLE else error)

    def _refusal(self) -> str:
        return f"{self.status}: {error_message(b''.join(piece for _, piece in self.pieces))}"

    def _outcome(self, request: Request, ending: Ending, found: Transcript, error: str) -> Outcome:
        times = found.token_times
        return Outcome(
            request=request,
            sent=round(self.sent, 6),
            ended=round(self.ended if found.done is None else found.done, 6),
            ending=ending,
            first_token=round(times[0], 6) if times else None,
            gaps_us=_gaps(times),
            prompt_tokens=found.prompt_tokens,
            completion_tokens=found.completion_tokens,
            exact=found.exact,
            status=self.status,
            finish_reason=found.finish_reason,
            error=error,
        )


def _gaps(times: Sequence[float]) -> tuple[int, ...]:
    return tuple(round((later - earlier) * 1e6) for earlier, later in pairwise(times))


def _problem(error: Exception) -> str:
    """An error of the network without addresses, so that equal ones count as one."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(error.os_error.errno)
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError):
        return "the connection was closed"
    return " ".join(str(error).split())[:200] or type(error).__name__
