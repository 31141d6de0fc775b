"""The commands that run in workers' pods. Each is small, only reads, and has its reader in `readings`."""

from __future__ import annotations

from importlib.resources import files

DEVICES = (
    "sh",
    "-c",
    "for port in /sys/class/infiniband/*/ports/*; do "
    '[ -e "$port/state" ] && echo "port $(basename "$(dirname "$(dirname "$port")")") $(cat "$port/state")"; done; '
    'for node in /dev/infiniband/uverbs*; do [ -e "$node" ] && echo "node $(basename "$node")"; done; true',
)
"""The EFA devices that the pod sees: `port NAME STATE` of each, and `node NAME` of each device file."""

BACKENDS = (
    "sh",
    "-c",
    "cd /tmp/ray/session_latest/logs && grep -roEh "
    "\"Backend [A-Z_]+ was instantiated|createBackend: unsupported backend '[A-Z_]+'|"
    'Skipping backend registration [A-Z_]+|NIXL_ERR_[A-Z_]+" --include="worker*" --include="*replica*" . '
    "| sort | uniq -c; true",
)
"""What NIXL says of its backends in Ray's session logs, where actors write; not in the container's own output."""

LIBRARIES = (
    "sh",
    "-c",
    "for maps in /proc/[0-9]*/maps; do "
    'found=$(grep -oE "/[^ ]*/(libplugin_(LIBFABRIC|UCX)|libfabric|libefa)[-.0-9a-z]*\\.so[.0-9]*|'
    '/dev/infiniband/uverbs[0-9]+" "$maps" 2>/dev/null | sort -u | tr "\\n" " "); '
    '[ -n "$found" ] && process=${maps%/maps} && '
    'echo "${process#/proc/} $(tr " " _ < "$process/comm") $found"; done; true',
)
"""Which processes have the transfer's libraries and an EFA device in their memory: `PID NAME PATH...`."""

WEIGHTS = (
    "sh",
    "-c",
    "cd /tmp/ray/session_latest/logs && grep -roEh "
    '"Loading weights took [0-9.]+ seconds|Time spent downloading weights for [^ ]+: [0-9.]+ seconds|'
    'Model loading took [0-9.]+ GiB( memory)? and [0-9.]+ seconds" --include="worker*" --include="*replica*" . ; true',
)
"""How long vLLM says that it took to fetch and to load the weights."""


def watch_ports(seconds: float) -> tuple[str, ...]:
    """Watches the pod's EFA counters for so many seconds; as scripts/watch_ports.py says."""
    text = files("kvrelay.ops.verify_cluster").joinpath("scripts/watch_ports.py").read_text()
    return ("python3", "-c", text, f"{seconds:g}")
