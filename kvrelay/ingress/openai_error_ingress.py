"""A Ray Serve LLM ingress whose every failure has OpenAI's form, and which waits out a replica's restart.

One module without kvrelay imports, so that it runs wherever Ray does: put its folder on PYTHONPATH (in the container:
copy this file beside the app) and name it in a Ray Serve config's `args`:

    ingress_cls_config:
      ingress_cls: openai_error_ingress:OpenAIErrorIngress
      ingress_extra_kwargs: {recovery_seconds: 120}   # optional; these are the arguments of __init__

What it adds to Ray's own OpenAiIngress:

- error bodies are `{"error": {"message", "type", "param", "code"}}`, without tracebacks, paths or addresses;
- a request that fails because a replica or its engine died, before its first token, is tried again until
  `recovery_seconds` have passed, then gets a 503 with Retry-After: nothing was sent yet, so nothing is said twice;
- a stream that breaks after its first token ends with an error event and without `[DONE]`, never in silence;
- no answer stays away for longer than a stated time;
- a client's own `kv_transfer_params` are refused: they would steer another request's cache.
"""

# mypy: disable-error-code="import-not-found,import-untyped,misc,no-any-return,no-any-unimported"

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

from ray.serve.llm.ingress import OpenAiIngress
from starlette.responses import JSONResponse, Response, StreamingResponse

logger = logging.getLogger("ray.serve")

Message = dict[str, Any]
Send = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]

_TRANSIENT = {
    "ActorDiedError",
    "ActorUnavailableError",
    "DeploymentUnavailableError",
    "EngineDeadError",
    "NodeDiedError",
    "OwnerDiedError",
    "RayActorError",
    "WorkerCrashedError",
}
_RETRY_PAUSE_SECONDS = 1.0
_RETRY_AFTER_SECONDS = "10"
_TYPES = {400: "invalid_request_error", 404: "not_found_error", 408: "timeout_error", 429: "rate_limit_error"}
_RAY_WRAPPING = re.compile(r"^Message: (.*?)(?: \(Request ID: [^)]*\))?, Internal exception: .*$", re.DOTALL)
_REQUEST_ID = re.compile(r" ?\(Request ID: [^)]*\)")
# A client learns nothing it can use from where the server's code lies; a traceback begins at its own heading.
_TRACEBACK = re.compile(r"\s*(?:Traceback \(most recent call last\)|\S*ray::).*", re.DOTALL)
_PATH = re.compile(r"(?<![\w/.:])/(?:[\w.+-]+/)+[\w.+-]*")


class OpenAIErrorIngress(OpenAiIngress):
    """Ray's OpenAI ingress with clean errors, bounded waits and retries before the first token.

    Args:
        recovery_seconds: how long a request may wait for a dead replica or engine to come back.
        first_token_seconds: the longest wait for a stream's first token.
        next_token_seconds: the longest silence within a stream.
        answer_seconds: the longest wait for an answer that is not streamed.
    """

    def __init__(
        self,
        *arguments: Any,
        recovery_seconds: float = 120.0,
        first_token_seconds: float = 180.0,
        next_token_seconds: float = 60.0,
        answer_seconds: float = 600.0,
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._recovery_seconds = recovery_seconds
        self._first_token_seconds = first_token_seconds
        self._next_token_seconds = next_token_seconds
        self._answer_seconds = answer_seconds

    def _set_asgi_app(self, app: Any) -> None:
        """Called by Ray Serve with the app that this replica runs: all it answers passes through ErrorForm."""
        app.add_middleware(ErrorForm)
        super()._set_asgi_app(app)

    async def _process_llm_request(self, body: Any, call_method: str, raw_request: Any = None) -> Response:
        if getattr(body, "kv_transfer_params", None) is not None:
            return error_response(
                400, "kv_transfer_params are set by the server; leave them out", param="kv_transfer_params"
            )
        streams = bool(getattr(body, "stream", False))
        longest = self._first_token_seconds if streams else self._answer_seconds
        try:
            async with asyncio.timeout(longest):
                first, rest = await self._first_chunk(body, call_method, raw_request)
        except TimeoutError:
            return error_response(503, f"No answer within {longest:.0f} seconds; try again later")
        except Exception as error:
            return _failure(error)
        chunk = first[0] if isinstance(first, list) else first
        if error := getattr(chunk, "error", None):
            return error_response(int(error.code or 500), str(error.message), param=error.param)
        if not streams and hasattr(chunk, "model_dump"):
            return JSONResponse(chunk.model_dump())
        return StreamingResponse(self._events(first, rest), media_type="text/event-stream")

    async def _first_chunk(
        self, body: Any, call_method: str, raw_request: Any
    ) -> tuple[Any, AsyncGenerator[Any, None]]:
        """The first chunk and the rest; tried again while what failed can come back by itself."""
        deadline = time.monotonic() + self._recovery_seconds
        attempts = 0
        while True:
            attempts += 1
            chunks = self._get_response(body=body, call_method=call_method, raw_request=raw_request)
            try:
                return await anext(chunks), chunks
            except Exception as error:
                await chunks.aclose()
                if not is_transient(error) or time.monotonic() + _RETRY_PAUSE_SECONDS > deadline:
                    raise
                logger.warning(
                    "attempt %d failed before the first token (%s)", attempts, type(error).__name__
                )
            await asyncio.sleep(_RETRY_PAUSE_SECONDS)

    async def _events(self, first: Any, rest: AsyncGenerator[Any, None]) -> AsyncIterator[str]:
        """The stream as server-sent events; a failure is an event of its own and leaves out `[DONE]`."""
        done = False
        try:
            chunk = first
            while True:
                event = as_events(chunk)
                done = done or event.rstrip().endswith("data: [DONE]")
                yield event
                async with asyncio.timeout(self._next_token_seconds):
                    chunk = await anext(rest)
        except StopAsyncIteration:
            if not done:
                yield "data: [DONE]\n\n"
        except TimeoutError:
            seconds = self._next_token_seconds
            yield _error_event(f"The stream was silent for {seconds:.0f} seconds and was cut")
        except Exception as error:
            logger.warning("a stream broke after its first token (%s)", type(error).__name__)
            yield _error_event("The server that was answering failed; this answer is incomplete, ask again")
        finally:
            # A client that hung up ends this generator: the request behind it ends too, on both engines.
            await rest.aclose()


class ErrorForm:
    """ASGI middleware: whatever error the app inside answers or raises leaves in OpenAI's form."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Message, receive: Any, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held = _HeldErrors(send)
        if scope["method"] == "POST":
            body, receive = await _read_ahead(receive)
            if _is_json_but_no_object(body):
                # vLLM's own checks ask it for keys before anything has looked at its type, and fail.
                refusal = error_response(400, "The body is JSON, but no object: it must be {...}")
                await refusal(scope, receive, send)
                return
        try:
            await self._app(scope, receive, held.send)
        except Exception as error:
            if held.begun:
                raise  # The connection breaks: a cut answer must not look like a whole one.
            await _failure(error)(scope, receive, send)


async def _read_ahead(receive: Receive) -> tuple[bytes, Receive]:
    """The whole body of a request, and a `receive` that gives it once more; later calls tell of a hang-up as ever."""
    messages: list[Message] = []
    while not messages or messages[-1].get("more_body"):
        messages.append(await receive())
    again = iter(messages)

    async def replay() -> Message:
        return next(again, None) or await receive()

    return b"".join(message.get("body", b"") for message in messages), replay


def _is_json_but_no_object(body: bytes) -> bool:
    try:
        return not isinstance(json.loads(body), dict)
    except ValueError:
        return False


class _HeldErrors:
    """Passes ASGI messages on, but holds an error response back until it is whole and can be rewritten."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""
        self.begun = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= 400:
            self._start = message
            return
        if self._start is None:
            self.begun = True
            await self._send(message)
            return
        self._body += message.get("body", b"")
        if message.get("more_body"):
            return
        self.begun = True
        status = self._start["status"]
        content = json.dumps(openai_error(status, self._body)).encode()
        kept = [
            (name, value)
            for name, value in self._start["headers"]
            if name.lower() not in (b"content-length", b"content-type")
        ]
        headers = [
            *kept,
            (b"content-type", b"application/json"),
            (b"content-length", str(len(content)).encode()),
        ]
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": content})


def openai_error(status: int, body: bytes) -> Message:
    """Any error body, of Ray, FastAPI or a plain text, as `{"error": {message, type, param, code}}`."""
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        found = {}
    inner = found.get("error")
    if not isinstance(inner, dict):
        inner = {"message": found.get("detail")}
    message, param, code = inner.get("message"), inner.get("param"), inner.get("code")
    if not isinstance(message, str) or not message:
        message = "Not found" if status == 404 else "The request failed"
    return error_body(
        status,
        message,
        param=param if isinstance(param, str) else None,
        code=code if isinstance(code, str) and not code.isdigit() else None,
    )


def error_body(status: int, message: str, param: str | None = None, code: str | None = None) -> Message:
    """One error in OpenAI's form, its message cleaned of what only the server's owner should see."""
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    message = "The server failed on this request; its log says why" if status == 500 else clean(message)
    if code is None and status == 404 and "model" in message:
        code = "model_not_found"
    if code is None and "context length" in message:
        code = "context_length_exceeded"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def clean(message: str) -> str:
    """The message without Ray's wrapping, tracebacks, request ids and file paths."""
    wrapped = _RAY_WRAPPING.match(message)
    text = wrapped.group(1) if wrapped else message
    text = _PATH.sub("[path]", _TRACEBACK.sub("", _REQUEST_ID.sub("", text))).strip()
    return text or "The request failed"


def error_response(status: int, message: str, param: str | None = None) -> Response:
    headers = {"Retry-After": _RETRY_AFTER_SECONDS} if status == 503 else None
    return JSONResponse(error_body(status, message, param), status_code=status, headers=headers)


def is_transient(error: BaseException | None) -> bool:
    """Whether a replica or engine died, here or behind the replica that reports it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if any(kind.__name__ in _TRANSIENT for kind in type(error).__mro__):
            return True
        error = getattr(error, "cause", None) or error.__cause__
    return False


def as_events(chunk: Any) -> str:
    """A chunk, or a batch of them, as server-sent events."""
    if isinstance(chunk, list):
        return "".join(as_events(part) for part in chunk)
    if isinstance(chunk, str):
        return chunk
    text = json.dumps(chunk) if isinstance(chunk, dict) else chunk.model_dump_json()
    return f"data: {text}\n\n"


def _error_event(message: str) -> str:
    return as_events(error_body(503, message))


def _failure(error: Exception) -> Response:
    """The response for an exception: its own status where it has one, else 503 or 500."""
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and 400 <= status < 500:
        message = getattr(error, "message", None) or getattr(error, "detail", None) or str(error)
        return error_response(status, str(message))
    if is_transient(error):
        return error_response(503, "The model is restarting; try again later")
    logger.error("a request failed", exc_info=error)
    return error_response(500, "")
