"""What OpenAI's own Python client meets at the served endpoint."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import openai
import pytest

from kvrelay.local.serving.session import Session
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.engine_metrics import EngineCounts, EngineRole, engine_counts, scrape

MESSAGES: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Hello there"}]


@pytest.fixture
def client(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> Iterator[openai.OpenAI]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    url = f"{endpoint.url}/v1"
    with openai.OpenAI(base_url=url, api_key="unused", max_retries=0, timeout=300) as made:
        yield made


@pytest.fixture
def model(session: Session) -> str:
    return session.model_id


def test_the_model_is_listed(client: openai.OpenAI, model: str) -> None:
    assert [entry.id for entry in client.models.list()] == [model]


def test_a_chat_is_answered_and_its_usage_counted(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=6, temperature=0)
    assert answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 6
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 6


def test_a_streamed_chat_says_the_same_and_ends_with_its_usage(client: openai.OpenAI, model: str) -> None:
    whole = client.chat.completions.create(model=model, messages=MESSAGES, max_tokens=12, temperature=0)
    chunks = list(
        client.chat.completions.create(
            model=model,
            messages=MESSAGES,
            max_tokens=12,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert sum(bool(chunk.choices and chunk.choices[0].delta.content) for chunk in chunks) > 1
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.completion_tokens == 12


def test_a_stop_text_ends_the_answer_before_it(client: openai.OpenAI, model: str) -> None:
    free = client.completions.create(model=model, prompt="Hello there", max_tokens=16, temperature=0)
    text = free.choices[0].text
    stop = text[len(text) // 2 : len(text) // 2 + 2]
    stopped = client.completions.create(
        model=model, prompt="Hello there", max_tokens=16, temperature=0, stop=[stop]
    )
    assert stopped.choices[0].text == text[: text.index(stop)]
    assert stopped.choices[0].finish_reason == "stop"


def test_logprobs_come_for_each_token(client: openai.OpenAI, model: str) -> None:
    answer = client.chat.completions.create(
        model=model, messages=MESSAGES, max_tokens=5, temperature=0, logprobs=True, top_logprobs=2
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    assert len(logprobs.content) == 5
    assert all(entry.logprob <= 0 and len(entry.top_logprobs) == 2 for entry in logprobs.content)


def test_several_answers_are_given(client: openai.OpenAI, model: str) -> None:
    answer = client.completions.create(model=model, prompt="Hello", max_tokens=4, n=2, temperature=1, seed=3)
    assert len(answer.choices) == 2
    assert all(choice.text for choice in answer.choices)


def test_tools_are_refused_in_words_where_no_parser_is_set(client: openai.OpenAI, model: str) -> None:
    tool: openai.types.chat.ChatCompletionToolParam = {
        "type": "function",
        "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}},
    }
    with pytest.raises(openai.BadRequestError, match="tool"):
        client.chat.completions.create(
            model=model, messages=MESSAGES, tools=[tool], tool_choice="auto", max_tokens=4
        )


def test_an_unknown_model_is_not_found_and_named(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="no-such-model", messages=MESSAGES)
    assert "no-such-model" in str(caught.value)
    assert caught.value.code == "model_not_found"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_prompt_too_long_is_refused_with_the_limit(
    client: openai.OpenAI, model: str, served_lengths: tuple[int, int], streamed: bool
) -> None:
    longest = served_lengths[1]
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model=model, prompt=[100] * (longest + 1), max_tokens=1, stream=streamed)
    assert str(longest) in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"{not json",
        b"[]",
        b"5",
        b"null",
        b"{}",
        b'{"model": 5, "messages": "x"}',
        b'{"model": "m", "temperature": "hot"}',
    ],
)
def test_a_body_that_is_none_gets_an_error_in_openais_form(endpoint: Endpoint, content: bytes) -> None:
    response = httpx.post(
        f"{endpoint.url}/v1/chat/completions",
        content=content,
        headers={"Content-Type": "application/json"},
        trust_env=False,
        timeout=60,
    )
    assert 400 <= response.status_code < 500, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"]
    assert "Traceback" not in response.text


def test_a_clients_own_transfer_parameters_are_refused(client: openai.OpenAI, model: str) -> None:
    with pytest.raises(openai.BadRequestError, match="kv_transfer_params"):
        client.completions.create(
            model=model,
            prompt="Hello",
            max_tokens=1,
            extra_body={"kv_transfer_params": {"remote_host": "10.0.0.1", "do_remote_prefill": True}},
        )


def test_an_unknown_path_is_a_404_in_openais_form(endpoint: Endpoint) -> None:
    response = httpx.get(f"{endpoint.url}/v1/nothing-here", trust_env=False, timeout=60)
    assert response.status_code == 404
    assert response.json()["error"]["message"]


def test_a_client_that_hangs_up_frees_both_engines(endpoint: Endpoint, model: str) -> None:
    body = {
        "model": model,
        "prompt": [100] * 500,
        "max_tokens": 1500,
        "ignore_eos": True,
        "stream": True,
        "temperature": 0,
    }
    with (
        httpx.Client(trust_env=False, timeout=300) as http,
        http.stream("POST", f"{endpoint.url}/v1/completions", json=body) as response,
    ):
        assert response.status_code == 200
        for count, _ in enumerate(response.iter_lines()):
            if count > 10:
                break
    # Well within the time that 1,500 tokens take; metrics come every ten seconds, a lease lasts thirty.
    deadline = time.monotonic() + 90
    while busy := _busy(endpoint):
        assert time.monotonic() < deadline, f"still held after 90 s: {busy}"
        time.sleep(1)


def _busy(endpoint: Endpoint) -> dict[EngineRole, EngineCounts]:
    counts = engine_counts(scrape(endpoint.metrics_urls))
    return {role: seen for role, seen in counts.items() if seen.running or seen.waiting or seen.cache_usage}
