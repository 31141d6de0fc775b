"""The network of a local cluster: a namespace of its own, reached through one forwarded loopback port.

Ray binds every address, so real Ray processes may only run where no other network is. The API server is in there
with them, since it must reach pods; one port of 127.0.0.1 leads to it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from kvrelay.local.kubernetes.processes import Child

GATEWAY = "10.244.0.1"
"""The address of the node side of the pod network, and of the API server for pods."""

_CLONE_NEWNET = 0x40000000
_PROGRAMS = ("ip", "nsenter", "unshare", "mount", "setpriv")


class ClusterNetwork:
    """Where a cluster's processes run. Without `isolated` they share this machine's loopback."""

    def __init__(self, folder: Path, *, isolated: bool) -> None:
        self.port = free_port()
        """The API server's port, the same inside and outside."""
        self.isolated = isolated
        self.hosts_file = folder / "hosts"
        """What pods see as /etc/hosts: cluster DNS in one file."""
        self.hosts_file.write_text("127.0.0.1 localhost\n")
        self._links = 0
        self._anchor: Child | None = None
        if isolated:
            command = [sys.executable, "-m", "kvrelay.local.kubernetes.network", str(self.port)]
            log = folder / "network.log"
            self._anchor = Child("network", command, log)
            self._anchor.wait_until(lambda: "ready" in log.read_text(), 20)

    @property
    def bind_address(self) -> str:
        """What the API server listens on."""
        return "0.0.0.0" if self.isolated else "127.0.0.1"

    def inside(self) -> list[str]:
        """What comes before a command so that it runs in this network."""
        if not self._anchor:
            return []
        return ["nsenter", f"--net=/proc/{self._anchor.pid}/ns/net", "--"]

    def link(self, pid: int, address: str) -> str:
        """Connects the network namespace of `pid` as a pod's; the pod finds its side as eth0. Returns our side."""
        self._links += 1
        name = f"pod{self._links}"
        self._ip(f"link add {name} type veth peer name eth0 netns {pid}")
        self._ip(f"link set {name} up")
        self._ip(f"route replace {address}/32 dev {name}")
        return name

    def namespace(self) -> Path:
        """What the kernel calls this network."""
        assert self._anchor is not None, "not isolated"
        return Path(f"/proc/{self._anchor.pid}/ns/net").readlink()

    def name_services(self, addresses: Mapping[str, str]) -> None:
        """Makes pods find these names at these addresses."""
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in sorted(addresses.items()))]
        # In place: pods have this very file bound over their own.
        self.hosts_file.write_text("\n".join(lines) + "\n")

    def stop(self) -> None:
        if self._anchor:
            self._anchor.kill()

    def _ip(self, arguments: str) -> None:
        subprocess.run([*self.inside(), "ip", *arguments.split()], check=True, capture_output=True, text=True)


def why_not_isolated() -> str | None:
    """None where a namespace can be had, else the reason in a few words."""
    lacking = [name for name in _PROGRAMS if not shutil.which(name)]
    if lacking:
        return f"{', '.join(lacking)} not installed"
    if os.geteuid() != 0:
        return "not root"
    tried = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True)
    return "namespaces are not allowed here" if tried.returncode else None


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _enter_new_namespace() -> None:
    """Moves this process into an empty network; sockets it has already keep the one they were made in."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
    for arguments in ("link set lo up", f"addr add {GATEWAY}/32 dev lo"):
        subprocess.run(["ip", *arguments.split()], check=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


async def _forward(port: int, listener: socket.socket) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

    server = await asyncio.start_server(connected, sock=listener)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Holds the namespace and forwards the port given as first argument into it, until it is ended."""
    port = int(sys.argv[1])
    listener = socket.create_server(("127.0.0.1", port), backlog=512)
    _enter_new_namespace()
    asyncio.run(_forward(port, listener))


if __name__ == "__main__":
    main()
