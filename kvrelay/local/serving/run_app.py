"""Deploys a Ray Serve config on the Ray head of this session and says how it goes, one JSON object a line.

Run by the serving environment's interpreter: python run_app.py CONFIG RAY_ADDRESS. Ends on SIGTERM, after taking
the app down. This is what `serve run CONFIG` does, with words for another program instead of a person.
"""

# ruff: noqa: T201 - its stdout is its interface
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import ray
import yaml
from ray import serve
from ray.serve._private import api
from ray.serve.schema import ServeDeploySchema

stopped = threading.Event()


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def deploy(config: ServeDeploySchema) -> None:
    client = api.serve_start(
        http_options=config.http_options.model_dump(),
        proxy_location=config.proxy_location,
        controller_options=config.controller_options,
    )
    client.deploy_apps(config, _blocking=False)


def watch() -> None:
    """Says the state of each application and deployment whenever it changes."""
    said: dict[str, Any] = {}
    while not stopped.wait(1.0):
        try:
            status = serve.status()
        except Exception as error:  # The controller is being restarted; it comes back by itself.
            state: dict[str, Any] = {"unreachable": type(error).__name__}
        else:
            state = {
                name: {
                    "status": application.status.value,
                    "message": application.message,
                    "deployments": {
                        deployment: {"status": details.status.value, "message": details.message}
                        for deployment, details in application.deployments.items()
                    },
                }
                for name, application in status.applications.items()
            }
        if state != said:
            say(applications=state)
            said = state


def main() -> None:
    path, address = sys.argv[1:]
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    config = ServeDeploySchema.model_validate(yaml.safe_load(Path(path).read_text()))
    ray.init(address=address, namespace="serve", log_to_driver=False)
    say(connected=True)
    try:
        deploy(config)
        watch()
    finally:
        serve.shutdown()
        ray.shutdown()
    say(shut_down=True)


if __name__ == "__main__":
    main()
