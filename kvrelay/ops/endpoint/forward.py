"""A port on loopback whose connections end in a ready pod: finds one, and another when it goes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator

from kvrelay.errors import UserError
from kvrelay.ops.cluster import ClusterError
from kvrelay.ops.endpoint.api_server import ApiServer
from kvrelay.ops.endpoint.backends import Backend, Backends
from kvrelay.ops.endpoint.tunnel import Tunnel, TunnelError, new_session, open_tunnel

# A connection waits so long for a ready pod before it is told that there is none.
PATIENCE_S = 20.0
_FRESH_S = 2.0
_LOOK_S = 5.0
_SHUN_S = 5.0
_CHUNK = 1 << 16
# What a client sent is kept until the pod answers, so that another pod can have it when the first refused it.
_KEPT = 1 << 20


class Forward:
    """One listener. `say` gets a line at each change of where connections go."""

    def __init__(
        self,
        server: ApiServer,
        backends: Backends,
        *,
        port: int = 0,
        say: Callable[[str], None] = lambda line: None,
        patience: float | None = None,
    ) -> None:
        self._server = server
        self._backends = backends
        self._wanted_port = port
        self._say = say
        self._patience = PATIENCE_S if patience is None else patience
        self._choices: list[Backend] = []
        self._asked = -float("inf")
        self._shunned: dict[Backend, float] = {}
        self._current: Backend | None = None
        self._said = ""
        self._open: dict[Tunnel, Backend] = {}
        self.port = 0

    @property
    def url(self) -> str:
        """Where it listens, once it runs."""
        return f"http://127.0.0.1:{self.port}"

    async def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Forwards until it is cancelled. Raises UserError: the port is taken, or the cluster refuses us."""
        self._choosing = asyncio.Lock()
        try:
            listener = await asyncio.start_server(self._connected, "127.0.0.1", self._wanted_port)
        except OSError:
            raise UserError(
                f"port {self._wanted_port} is taken: give --port another number, or 0 for any free one"
            ) from None
        self.port = listener.sockets[0].getsockname()[1]
        async with new_session() as self._session:
            try:
                with contextlib.suppress(UserError):
                    await self._choose()
                started()
                await self._look_after()
            finally:
                listener.close()
                for tunnel in list(self._open):
                    await tunnel.close()

    async def _look_after(self) -> None:
        """Says where connections go, and cuts those whose pod is no more."""
        while True:
            await asyncio.sleep(_LOOK_S)
            with contextlib.suppress(UserError):
                await self._choose()
            for tunnel, backend in list(self._open.items()):
                with contextlib.suppress(UserError):
                    if backend not in self._choices and await asyncio.to_thread(
                        self._backends.is_gone, backend
                    ):
                        await tunnel.close()

    async def _choose(self) -> Backend:
        """The pod for a new connection: the last one while it is ready. Raises ClusterError."""
        async with self._choosing:
            now = time.monotonic()
            if now - self._asked > _FRESH_S:
                try:
                    self._choices = await asyncio.to_thread(self._backends.ready)
                except UserError as error:
                    self._choices = []
                    self._tell(str(error))
                    raise
                self._asked = now
            self._shunned = {each: until for each, until in self._shunned.items() if until > now}
            able = [each for each in self._choices if each not in self._shunned]
            if not able:
                raise ClusterError(self._said or "no pod answers")
            if self._current not in able:
                self._current = able[0]
            self._tell(f"forwarding to {self._current}")
            return self._current

    def _shun(self, backend: Backend, error: TunnelError) -> None:
        """Another pod first, for a while, and a fresh look at who is ready."""
        self._shunned[backend] = time.monotonic() + _SHUN_S
        self._asked = -float("inf")
        self._tell(str(error))

    def _tell(self, line: str) -> None:
        if line != self._said:
            self._said = line
            self._say(line)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _Connection(self, reader, writer).serve()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            with contextlib.suppress(OSError):
                writer.close()

    async def tunnel(self, deadline: float) -> Tunnel:
        """A tunnel to a ready pod. Raises TunnelError or ClusterError once the deadline has passed."""
        while True:
            try:
                backend = await self._choose()
                try:
                    opened = await open_tunnel(self._session, self._server, backend)
                except TunnelError as error:
                    self._shun(backend, error)
                    raise
                self._open[opened] = backend
                return opened
            except (TunnelError, UserError) as error:
                if getattr(error, "status", 0) in (401, 403) or time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.25)

    async def done_with(self, tunnel: Tunnel) -> Backend:
        """Closes a tunnel and forgets it."""
        await tunnel.close()
        return self._open.pop(tunnel)

    async def refused(self, tunnel: Tunnel, error: TunnelError) -> None:
        """The pod of this tunnel does not listen."""
        self._shun(await self.done_with(tunnel), error)

    @property
    def patience(self) -> float:
        """Seconds that a connection waits for a pod."""
        return self._patience


class _Connection:
    """One client's connection."""

    def __init__(self, forward: Forward, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._forward = forward
        self._reader = reader
        self._writer = writer
        self._kept = bytearray()
        self._keeps = True
        self._answered = False

    async def serve(self) -> None:
        """Carries bytes both ways until either side ends; a pod that refused is replaced while it still may be."""
        deadline = time.monotonic() + self._forward.patience
        while True:
            try:
                tunnel = await self._forward.tunnel(deadline)
            except (TunnelError, UserError) as error:
                await self._unavailable(str(error))
                return
            try:
                await self._carry(tunnel)
            except TunnelError as error:
                if error.refused and self._keeps and not self._answered and time.monotonic() < deadline:
                    await self._forward.refused(tunnel, error)
                    continue
                if not self._answered:
                    await self._unavailable(str(error))
            await self._forward.done_with(tunnel)
            return

    async def _carry(self, tunnel: Tunnel) -> None:
        up = asyncio.create_task(self._up(tunnel))
        down = asyncio.create_task(self._down(tunnel))
        try:
            # A client that ends its side has hung up: nothing in this protocol says half of that.
            done, _ = await asyncio.wait({up, down}, return_when=asyncio.FIRST_COMPLETED)
            for task in (down, up):
                if task in done:
                    task.result()
        finally:
            for task in (up, down):
                task.cancel()
            await asyncio.gather(up, down, return_exceptions=True)

    async def _up(self, tunnel: Tunnel) -> None:
        if self._kept:
            await tunnel.send(bytes(self._kept))
        while data := await self._reader.read(_CHUNK):
            if self._keeps and not self._answered:
                self._kept += data
                self._keeps = len(self._kept) <= _KEPT
            with contextlib.suppress(TunnelError):  # what broke is told where bytes come from
                await tunnel.send(data)

    async def _down(self, tunnel: Tunnel) -> None:
        async for data in tunnel.received():
            self._answered = True
            self._kept.clear()
            self._writer.write(data)
            await self._writer.drain()

    async def _unavailable(self, message: str) -> None:
        """Says so in HTTP, as an OpenAI-compatible server would."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._reader.read(_KEPT), 0.5)
        error = {"message": message, "type": "service_unavailable", "param": None, "code": 503}
        body = json.dumps({"error": error}).encode()
        head = (
            f"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            "Retry-After: 5\r\nConnection: close\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        await self._writer.drain()


@contextlib.contextmanager
def forwarded(forward: Forward) -> Iterator[Forward]:
    """Runs it in a thread of its own, for commands that don't wait in an event loop. Raises UserError."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(forward.run(lambda: ready.set()))
    ready = threading.Event()
    task.add_done_callback(lambda _: ready.set())

    def run() -> None:
        with contextlib.suppress(asyncio.CancelledError, UserError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run, name="port-forward", daemon=True)
    thread.start()
    try:
        ready.wait()
        if task.done():
            task.result()
        yield forward
    finally:
        with contextlib.suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(task.cancel)
        thread.join(timeout=10)
        if not thread.is_alive():
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
