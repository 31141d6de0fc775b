"""kvrelay chat: one streamed answer, with how it came."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import click

from kvrelay.errors import UserError
from kvrelay.ops.endpoint import Endpoint, EndpointError, endpoint
from kvrelay.ops.stream import Ending, Streamed, stream


@click.command()
@click.argument("prompt")
@click.option("--url", help="The endpoint; default: the one served on this machine, or forwarded to it.")
@click.option(
    "--deployment",
    "path",
    type=click.Path(path_type=Path),
    help="A deployment file: ask inside its cluster, through a port-forward of this command's own.",
)
@click.option("--model", help="The model's id; default: the only one served.")
@click.option("--api-key", envvar="OPENAI_API_KEY", help="Sent as a bearer token; default: $OPENAI_API_KEY.")
@click.option("--system", help="A system message.")
@click.option("--max-tokens", default=128, show_default=True)
@click.option("--temperature", default=0.0, show_default=True)
def chat(
    prompt: str,
    url: str | None,
    path: Path | None,
    model: str | None,
    api_key: str | None,
    system: str | None,
    max_tokens: int,
    temperature: float,
) -> None:
    """Ask PROMPT and stream the answer, then say how fast it came.

    Any OpenAI-compatible endpoint will do; with --deployment also one that only the cluster can reach.

    Exit codes: 0 a whole answer; 1 none, or it broke off; 2 wrong input; 130 interrupted.
    """
    with _target(url, path, api_key) as target:
        _ask(target, prompt, model, system, max_tokens, temperature)


@contextlib.contextmanager
def _target(url: str | None, path: Path | None, api_key: str | None) -> Iterator[Endpoint]:
    if path is None:
        yield endpoint(url, api_key=api_key)
        return
    if url is not None:
        raise UserError("--url and --deployment name two endpoints; give one of them")
    from kvrelay.ops.endpoint.command import forward_to
    from kvrelay.ops.endpoint.forward import forwarded
    from kvrelay.settings import read_deployment

    forward = forward_to(read_deployment(path).deployment, say=lambda line: click.echo(line, err=True))
    with forwarded(forward):
        yield Endpoint(forward.url, (), api_key)


def _ask(
    target: Endpoint, prompt: str, model: str | None, system: str | None, max_tokens: int, temperature: float
) -> None:
    messages = [{"role": "system", "content": system}] if system else []
    body = {
        "model": target.model(model),
        "messages": [*messages, {"role": "user", "content": prompt}],
        "max_tokens": max_tokens,
        "temperature": temperature,
    }

    async def ask() -> Streamed:
        async with target.client() as client:
            return await stream(client, "/v1/chat/completions", body, lambda text: click.echo(text, nl=False))

    answer = asyncio.run(ask())
    if answer.text:
        click.echo()
    if answer.ending is not Ending.WHOLE:
        what = "was refused" if not answer.text else "broke off"
        raise EndpointError(f"the answer {what}: {answer.error or 'the connection ended'}")
    click.echo(
        f"{answer.prompt_tokens} tokens in, {answer.completion_tokens} out; "
        f"first token after {answer.chunk_times[0] * 1000 if answer.chunk_times else 0:.0f} ms, "
        f"all after {answer.seconds:.1f} s; finish: {answer.finish_reason}",
        err=True,
    )
