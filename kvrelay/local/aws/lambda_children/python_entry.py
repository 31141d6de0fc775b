"""Runs one invocation of a Python handler: event on stdin, result into the file named by KVRELAY_RESULT."""

import importlib
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any


class Context:
    """What Lambda gives a handler beside the event."""

    def __init__(self) -> None:
        self._end = time.monotonic() + float(os.environ["KVRELAY_TIMEOUT"])
        self.function_name = os.environ["AWS_LAMBDA_FUNCTION_NAME"]
        self.function_version = "$LATEST"
        self.invoked_function_arn = os.environ["KVRELAY_FUNCTION_ARN"]
        self.memory_limit_in_mb = os.environ["AWS_LAMBDA_FUNCTION_MEMORY_SIZE"]
        self.aws_request_id = os.environ["KVRELAY_REQUEST_ID"]
        self.log_group_name = os.environ["AWS_LAMBDA_LOG_GROUP_NAME"]
        self.log_stream_name = os.environ["AWS_LAMBDA_LOG_STREAM_NAME"]

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda ends the invocation."""
        return max(0, int((self._end - time.monotonic()) * 1000))


def main() -> None:
    """Imports the handler, calls it, and writes what it returned or raised."""
    sys.path[0:0] = [os.environ["LAMBDA_TASK_ROOT"], *os.environ["KVRELAY_PYTHON_LAYERS"].split(os.pathsep)]
    module, _, function = os.environ["_HANDLER"].rpartition(".")
    result: dict[str, Any]
    try:
        handler = getattr(importlib.import_module(module.replace("/", ".")), function)
        result = {"payload": handler(json.load(sys.stdin), Context())}
        text = json.dumps(result)
    except BaseException as error:
        traceback.print_exc()
        result = {
            "error": {
                "errorMessage": str(error),
                "errorType": type(error).__name__,
                "stackTrace": traceback.format_exception(error),
            }
        }
        text = json.dumps(result)
    Path(os.environ["KVRELAY_RESULT"]).write_text(text)


main()
