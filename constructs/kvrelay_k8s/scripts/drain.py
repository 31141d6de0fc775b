"""Runs before a worker's pod ends: Ray places nothing here any more, and answers under way are finished.

    drain.py --seconds 120 [--at-least 5] [--metrics URL]

Ends when no request runs here, or when the time is up. Never fails: a pod that can't drain must still end.
"""

# ruff: noqa: T201 - its output is the pod's log

from __future__ import annotations

import argparse
import http.client
import re
import subprocess
import time
import urllib.request

# Ray's gauge of requests that a replica is working on, in Prometheus' text format.
RUNNING = re.compile(r"^ray_serve_replica_processing_queries(?:\{[^}]*\})? ([0-9.e+]+)$", re.MULTILINE)


def running(metrics: str) -> float | None:
    """Requests that replicas on this node are working on; None when it can't be told."""
    try:
        with urllib.request.urlopen(metrics, timeout=5) as answer:
            return sum(float(value) for value in RUNNING.findall(answer.read().decode()))
    except (OSError, ValueError, http.client.HTTPException):
        return None


def stop_placing(seconds: int) -> None:
    """Tells Ray that this node goes: Serve starts replacements elsewhere where it can and sends no more here."""
    command = [
        "ray",
        "drain-node",
        "--reason",
        "DRAIN_NODE_REASON_PREEMPTION",
        "--reason-message",
        "the pod ends",
    ]
    try:
        subprocess.run([*command, "--deadline-remaining-seconds", str(seconds)], timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"could not tell Ray: {error}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=int, required=True)
    # Services forget a pod that ends, and their clients learn of it, within a few seconds.
    parser.add_argument("--at-least", type=int, default=5)
    parser.add_argument("--metrics", default="http://127.0.0.1:8080/metrics")
    given = parser.parse_args()
    begin = time.monotonic()
    stop_placing(given.seconds)
    while (passed := time.monotonic() - begin) < given.seconds:
        requests = running(given.metrics)
        if requests == 0 and passed >= given.at_least:
            print("no request runs here")
            return
        time.sleep(1)
    print("time is up")


if __name__ == "__main__":
    main()
