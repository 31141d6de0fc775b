"""kvrelay chat: one streamed answer, with how it came."""

from __future__ import annotations

import asyncio

import click

from kvrelay.ops.endpoint import EndpointError, endpoint
from kvrelay.ops.stream import Ending, Streamed, stream


@click.command()
@click.argument("prompt")
@click.option("--url", help="The endpoint; default: the one served on this machine.")
@click.option("--model", help="The model's id; default: the only one served.")
@click.option("--api-key", envvar="OPENAI_API_KEY", help="Sent as a bearer token; default: $OPENAI_API_KEY.")
@click.option("--system", help="A system message.")
@click.option("--max-tokens", default=128, show_default=True)
@click.option("--temperature", default=0.0, show_default=True)
def chat(
    prompt: str,
    url: str | None,
    model: str | None,
    api_key: str | None,
    system: str | None,
    max_tokens: int,
    temperature: float,
) -> None:
    """Ask PROMPT and stream the answer, then say how fast it came.

    Any OpenAI-compatible endpoint will do, also one behind kubectl port-forward.
    """
    target = endpoint(url, api_key=api_key)
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
