"""Relays TCP from listening sockets outside a network namespace to ports inside it."""

from __future__ import annotations

import asyncio
import contextlib
import socket

_CHUNK = 64 * 1024


def listen_on_loopback(port: int) -> socket.socket:
    """A listening socket on 127.0.0.1; it stays in the namespace where it was made. Raises OSError if taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(1024)
    except OSError:
        listener.close()
        raise
    return listener


async def relay(listener: socket.socket, port: int) -> asyncio.Server:
    """Serves `listener` by connecting each client to 127.0.0.1:`port` of the calling process's namespace."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        upward = asyncio.create_task(_pump(reader, inner_writer))
        try:
            # Ends when the app inside has said all, or when its client hung up.
            await _pump(inner_reader, writer)
        finally:
            upward.cancel()
            writer.close()
            inner_writer.close()

    return await asyncio.start_server(connected, sock=listener)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
    with contextlib.suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()
