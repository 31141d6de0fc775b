"""One TCP connection to a pod's port, through the API server's WebSocket.

Binary messages, whose first byte is a channel: 0 carries the bytes, 1 the kubelet's error text. The first message on
each is the port's number, little-endian. Version 5 adds channel 255, which names a channel that has ended.
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ (portforward)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import quote

import aiohttp

from kvrelay.ops.endpoint.api_server import ApiServer
from kvrelay.ops.endpoint.backends import Backend

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_DATA, _ERROR, _CLOSED = 0, 1, 255
# The API server answers pings; one that does not within half of this has gone, and the connection with it.
_HEARTBEAT_S = 30.0
_OPEN_S = 15.0
_NOT_ALLOWED = "the API server does not allow it: pods/portforward needs the verbs create and get"
_REFUSALS = {401: "the API server does not know you", 403: _NOT_ALLOWED, 404: "there is no such pod"}


class TunnelError(Exception):
    """The pod's port can't be reached, or the way to it broke. `refused`: no byte can have reached the pod."""

    def __init__(self, message: str, *, refused: bool = False, status: int = 0) -> None:
        super().__init__(message)
        self.refused = refused
        self.status = status


class Tunnel:
    """An open connection."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, backend: Backend) -> None:
        self._socket = socket
        self._backend = backend
        self._begun = {_DATA: False, _ERROR: False}

    async def send(self, data: bytes) -> None:
        """Sends bytes to the pod. Raises TunnelError."""
        try:
            await self._socket.send_bytes(bytes([_DATA]) + data)
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            raise TunnelError(f"{self._backend}: {error}") from None

    async def received(self) -> AsyncIterator[bytes]:
        """The pod's bytes, until it ends the connection. Raises TunnelError with what the kubelet says of it."""
        async for message in self._socket:
            if message.type != aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel == _CLOSED and data[:1] == bytes([_DATA]):
                return
            if channel in self._begun and not self._begun[channel]:
                self._begun[channel] = True
                continue
            if channel == _ERROR and data:
                said = " ".join(data.decode(errors="replace").split())[:300]
                raise TunnelError(f"{self._backend}: {said}", refused="refused" in said)
            if channel == _DATA:
                yield data
        broken = self._socket.exception()
        if broken is not None or self._socket.close_code not in (1000, None):
            raise TunnelError(
                f"{self._backend}: the connection to it broke ({broken or self._socket.close_code})"
            )

    async def close(self) -> None:
        """Ends the connection, and with it the pod's side of it."""
        await self._socket.close()


async def open_tunnel(session: aiohttp.ClientSession, server: ApiServer, backend: Backend) -> Tunnel:
    """A connection to a pod's port. Raises TunnelError: no such pod, not allowed, out of reach."""
    path = f"/api/v1/namespaces/{quote(backend.namespace)}/pods/{quote(backend.pod)}/portforward"
    try:
        async with asyncio.timeout(_OPEN_S):
            socket = await session.ws_connect(
                f"{server.url.rstrip('/')}{path}?ports={backend.port}",
                protocols=PROTOCOLS,
                headers=server.headers(),
                ssl=server.tls or False,
                heartbeat=_HEARTBEAT_S,
                max_msg_size=0,
                timeout=aiohttp.ClientWSTimeout(ws_close=2.0),
            )
    except aiohttp.WSServerHandshakeError as error:
        said = _REFUSALS.get(error.status, f"the API server answers {error.status} to the port-forward")
        raise TunnelError(f"{backend}: {said}", refused=True, status=error.status) from None
    except TimeoutError:
        raise TunnelError(f"{backend}: no port-forward in {_OPEN_S:.0f} s", refused=True) from None
    except (aiohttp.ClientError, OSError) as error:
        raise TunnelError(f"{backend}: {error or type(error).__name__}", refused=True) from None
    return Tunnel(socket, backend)


def new_session() -> aiohttp.ClientSession:
    """A session without a limit of connections."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
    )
