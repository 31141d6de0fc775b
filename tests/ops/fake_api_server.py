"""A Kubernetes API server on loopback, as far as commands need one: slices, pods, port-forward and exec."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from kvrelay.local.aws.eks.certificates import server_identity
from kvrelay.ops.cluster import Access

TOKEN_PREFIX = "k8s-aws-v1."
NAMESPACE = "inference"
SERVICE = "ray-llm-serve-svc"
Executed = Callable[[str, list[str]], tuple[int, str]]


class FakeApiServer:
    """`pods` maps a pod's name to the loopback port that its port 8000 is; 0 is a port that nobody listens on."""

    def __init__(self, folder: Path, protocols: tuple[str, ...] = ("v4.channel.k8s.io",)) -> None:
        self.pods: dict[str, int] = {}
        self.ready: set[str] = set()
        self.service_there = True
        self.knows_us = True
        self.refuses = 0
        self.objects: dict[str, Any] = {}
        self.executed: Executed = lambda pod, command: (127, "")
        self.deleted: list[str] = []
        self.opened = 0
        self._protocols = protocols
        self._sockets: dict[str, set[web.WebSocketResponse]] = {}
        identity = server_identity(folder)
        self._context: ssl.SSLContext = identity.context
        self.ca_pem = identity.ca_pem
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def access(self) -> Access:
        """The way into it."""
        return Access(self.url, self.ca_pem, token=lambda: f"{TOKEN_PREFIX}planted")

    def add(self, pod: str, port: int) -> None:
        """A pod that is ready."""
        self.pods[pod] = port
        self.ready.add(pod)

    def kill(self, pod: str) -> None:
        """The pod is gone at once, and so are its connections, with no word of farewell."""
        self.pods.pop(pod)
        self.ready.discard(pod)

        def cut() -> None:
            for socket in self._sockets.pop(pod, set()):
                transport = socket._req.transport if socket._req else None
                if transport is not None:
                    transport.abort()

        self._loop.call_soon_threadsafe(cut)

    def stop(self) -> None:
        """Ends it."""
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(timeout=10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=10)
        self._loop.close()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        runner = self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        self._loop.run_until_complete(runner.setup())
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=self._context)
        self._loop.run_until_complete(site.start())
        self.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        self._loop.run_forever()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if not (
            self.knows_us and request.headers.get("Authorization", "").startswith(f"Bearer {TOKEN_PREFIX}")
        ):
            return _status(401, "Unauthorized")
        if self.refuses:
            return _status(self.refuses, "forbidden: you may not do this")
        path = request.path
        if path.endswith("/endpointslices"):
            return web.json_response({"items": self._slices(request)})
        if path.endswith(f"/services/{SERVICE}"):
            return web.json_response({}) if self.service_there else _status(404, "services not found")
        if path in self.objects:
            return web.json_response(self.objects[path])
        if f"/namespaces/{NAMESPACE}/pods/" in path:
            return await self._pod(request, *path.split("/pods/")[1].split("/"))
        return _status(404, f"{path} not found")

    def _slices(self, request: web.Request) -> list[dict[str, Any]]:
        if request.query["labelSelector"] != f"kubernetes.io/service-name={SERVICE}" or not self.pods:
            return []
        endpoints = [
            {"conditions": {"ready": pod in self.ready}, "targetRef": {"kind": "Pod", "name": pod}}
            for pod in self.pods
        ]
        return [{"ports": [{"name": "serve", "port": 8000}], "endpoints": endpoints}]

    async def _pod(self, request: web.Request, pod: str, what: str = "") -> web.StreamResponse:
        if request.method == "DELETE":
            self.deleted.append(pod)
            return web.json_response({})
        if what == "exec":
            return await self._exec(request, pod)
        if pod not in self.pods:
            return _status(404, f'pods "{pod}" not found')
        if what == "portforward":
            return await self._port_forward(request, pod)
        return web.json_response({"metadata": {"name": pod}})

    async def _port_forward(self, request: web.Request, pod: str) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=self._protocols)
        await socket.prepare(request)
        self.opened += 1
        self._sockets.setdefault(pod, set()).add(socket)
        port = int(request.query["ports"]).to_bytes(2, "little")
        for channel in (0, 1):
            await socket.send_bytes(bytes([channel]) + port)
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.pods[pod])
        except OSError:
            said = f"error forwarding port 8000 to pod {pod}: dial tcp4 127.0.0.1:8000: connect: connection refused"
            await socket.send_bytes(b"\x01" + said.encode())
            await socket.close()
            return socket

        async def down() -> None:
            while data := await reader.read(65536):
                await socket.send_bytes(b"\x00" + data)
            await socket.close()

        task = asyncio.create_task(down())
        async for message in socket:
            if message.type == WSMsgType.BINARY and message.data[:1] == b"\x00":
                writer.write(message.data[1:])
                await writer.drain()
        task.cancel()
        writer.close()
        return socket

    async def _exec(self, request: web.Request, pod: str) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await socket.prepare(request)
        code, output = self.executed(pod, request.query.getall("command"))
        if output:
            await socket.send_bytes(b"\x01" + output.encode())
        status: dict[str, Any] = {"status": "Success"}
        if code:
            causes = [{"reason": "ExitCode", "message": str(code)}]
            status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
        await socket.send_bytes(b"\x03" + json.dumps(status).encode())
        await socket.close()
        return socket


def _status(code: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "message": message, "code": code}, status=code)
