"""A Ray dashboard that takes every Serve config and never has an application: all that KubeRay asks of a new head."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class IdleDashboard(BaseHTTPRequestHandler):
    """Answers as Ray's does before the first application is deployed."""

    def do_GET(self) -> None:
        body = json.dumps({"applications": {}, "proxies": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


if __name__ == "__main__":
    ThreadingHTTPServer((sys.argv[1], 8265), IdleDashboard).serve_forever()
