"""Runs in a worker's pod: watches the byte counters of its EFA ports, and prints each change.

    python3 -c "$(cat watch_ports.py)" SECONDS [ROOT]

A line each: nanoseconds since the start, bytes received, bytes sent, of all ports together. The first line is the
start, the last one the end; with 0 seconds they are one. Without a port it prints nothing.
"""

# ruff: noqa: T201 - its output is what is read

import sys
import time
from pathlib import Path

_PAUSE_S = 0.002


def watch(seconds: float, root: Path) -> None:
    """Reads all ports over and over; the driver itself renews its figures about every 10 ms."""
    folders = sorted(root.glob("*/ports/*/hw_counters"))
    ports = [folder for folder in folders if (folder / "rx_bytes").exists()]
    if not ports:
        return
    began, said, last = time.monotonic(), -1, (-1, -1)
    while True:
        # The end is looked at before the counters are, so that the last line has them as they are at the end.
        now = int((time.monotonic() - began) * 1e9)
        ended = now >= seconds * 1e9
        read = [sum(int((port / name).read_text()) for port in ports) for name in ("rx_bytes", "tx_bytes")]
        counters = (read[0], read[1])
        if counters != last or (ended and now != said):
            print(now, *counters, flush=True)
            last, said = counters, now
        if ended:
            return
        time.sleep(_PAUSE_S)


if __name__ == "__main__":
    watch(float(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "/sys/class/infiniband"))
