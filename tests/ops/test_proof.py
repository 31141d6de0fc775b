"""Verdicts on a prefill/decode pair: each claim fails on just the evidence that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvrelay.ops.answers import Answer, answer_of
from kvrelay.ops.engine_metrics import EngineCounts, EngineRole, bucket_of, engine_counts, parse
from kvrelay.ops.proof import Evidence, KvGeometry, Verdict, same_answers, verdicts
from kvrelay.ops.proof_prompts import proof_prompts

GEOMETRY = KvGeometry(bytes_per_token=4096, block_size=16)
BOUNDS = (131072.0, 524288.0, 2097152.0, 8388608.0, float("inf"))
PROMPTS = proof_prompts(16, 512)
TOTAL = sum(prompt.length for prompt in PROMPTS)


def cumulative(sizes: list[int]) -> dict[float, float]:
    return {bound: float(sum(size <= bound for size in sizes)) for bound in BOUNDS}


def healthy() -> Evidence:
    """What a right pair leaves behind."""
    answers = [Answer(("a", "b"), (1.0, 0.5)) for _ in PROMPTS]
    sizes = [GEOMETRY.transfer_bytes(prompt.length) for prompt in PROMPTS]
    prefill = EngineCounts(prompt_tokens={"local_compute": float(TOTAL)})
    decode = EngineCounts(
        prompt_tokens={"external_kv_transfer": TOTAL - 1.0, "local_compute": 1.0},
        transfers=len(PROMPTS),
        transfer_buckets=cumulative(sizes),
    )
    return Evidence(PROMPTS, answers, answers, GEOMETRY, prefill, decode)


def failing(evidence: Evidence) -> set[str]:
    return {verdict.claim for verdict in verdicts(evidence) if not verdict.held}


def with_decode(**changes: object) -> Evidence:
    evidence = healthy()
    return replace(evidence, decode=replace(evidence.decode, **changes))  # type: ignore[arg-type]


def with_prefill(**changes: object) -> Evidence:
    evidence = healthy()
    return replace(evidence, prefill=replace(evidence.prefill, **changes))  # type: ignore[arg-type]


def with_answer(answer: Answer) -> Evidence:
    evidence = healthy()
    return replace(evidence, answers=[answer, *evidence.answers[1:]])


def test_a_right_pair_is_proved() -> None:
    assert failing(healthy()) == set()


ANSWERS = "answers equal one ordinary engine's"
MOVED = f"KV moved for each of {len(PROMPTS)} prompts"
BYTES = "bytes moved match prompts x bytes a token"
RECOMPUTED = "decode recomputed nothing"
LOST = "no transfer failed or expired"
HELD = "no KV cache is left held"


@pytest.mark.parametrize(
    ("broken", "claims"),
    [
        (lambda: with_answer(Answer(("a", "x"), (1.0, 0.5))), {ANSWERS}),
        (lambda: with_answer(Answer(("a",), (1.0,))), {ANSWERS}),
        (lambda: with_answer(Answer(("a", "b", "c"), (1.0, 0.5, 0.1))), {ANSWERS}),
        (lambda: with_answer(Answer((), (), "503: the model is restarting")), {ANSWERS}),
        # No connector: decode computes all prompts itself and nothing moves.
        (
            lambda: with_decode(
                prompt_tokens={"local_compute": float(TOTAL)}, transfers=0, transfer_buckets={}
            ),
            {MOVED, BYTES, RECOMPUTED},
        ),
        # One prompt fell back to decode's own computing.
        (
            lambda: with_decode(
                prompt_tokens={"local_compute": 1.0 + 400, "external_kv_transfer": TOTAL - 401.0},
                transfers=len(PROMPTS) - 1,
            ),
            {MOVED, RECOMPUTED},
        ),
        (lambda: with_decode(transfer_buckets=cumulative([200000] * len(PROMPTS))), {BYTES}),
        (lambda: with_decode(failed_transfers=1), {LOST}),
        (lambda: with_decode(failed_notifications=1), {LOST}),
        (lambda: with_prefill(expired_requests=1), {LOST}),
        (lambda: with_prefill(cache_usage=0.01), {HELD}),
        (lambda: with_decode(cache_usage=0.01), {HELD}),
        # The metrics could not be read at all: silence proves nothing.
        (lambda: replace(healthy(), decode=EngineCounts()), {MOVED, BYTES, RECOMPUTED}),
    ],
)
def test_each_break_fails_its_own_claims(broken: Callable[[], Evidence], claims: set[str]) -> None:
    assert failing(broken()) == claims


@pytest.mark.parametrize(("tolerance", "held"), [(0.0, False), (0.4, False), (0.6, True)])
def test_a_different_token_is_allowed_only_within_the_references_lead(tolerance: float, held: bool) -> None:
    assert same_answers(with_answer(Answer(("a", "x"), (1.0, 0.5))), tolerance).held is held


def test_a_verdict_says_where_the_answers_part() -> None:
    (verdict,) = [each for each in verdicts(with_answer(Answer(("a", "x"), (1.0, 0.5)))) if not each.held]
    assert verdict == Verdict(ANSWERS, False, verdict.saw)
    assert "token 1 is 'x', should be 'b'" in verdict.saw
    assert f"prompt of {PROMPTS[0].length} tokens" in verdict.saw


@given(tokens=st.integers(1, 10_000), block=st.sampled_from([1, 16, 32, 64, 128]))
def test_only_whole_blocks_move(tokens: int, block: int) -> None:
    moved = KvGeometry(100, block).transfer_bytes(tokens)
    assert moved % (block * 100) == 0
    assert tokens * 100 <= moved < (tokens + block) * 100


@pytest.mark.parametrize("block", [16, 32, 64])
def test_prompts_have_every_block_edge_and_leave_room(block: int) -> None:
    prompts = proof_prompts(block, 2048)
    lengths = [prompt.length for prompt in prompts]
    assert {1, block - 1, block, block + 1, 2 * block, 2048 - 16} <= set(lengths)
    assert len(set(lengths)) == len(lengths)
    assert all(prompt.length + prompt.max_tokens <= 2048 for prompt in prompts)
    assert prompts == proof_prompts(block, 2048)


PAGE = """\
# HELP vllm:prompt_tokens_by_source_total Prompt tokens.
ray_vllm_prompt_tokens_by_source_total{ReplicaId="p1",source="local_compute"} 40
ray_vllm_prompt_tokens_by_source_total{ReplicaId="d1",source="external_kv_transfer"} 39.0
ray_vllm_nixl_bytes_transferred_count{ReplicaId="d1"} 2
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="d1",le="1024"} 1
ray_vllm_nixl_bytes_transferred_bucket{ReplicaId="d1",le="+Inf"} 2
ray_vllm_nixl_num_failed_transfers_total{ReplicaId="d1"} 1
ray_vllm_nixl_num_kv_expired_reqs_total{ReplicaId="p1"} 3
ray_vllm_kv_cache_usage_perc{ReplicaId="p1"} 0.25
ray_vllm_kv_cache_usage_perc{ReplicaId="p2"} 0.5
ray_serve_replica_up{replica="p1",deployment="Prefill:model"} 1
ray_serve_replica_up{replica="p2",deployment="Prefill:model"} 1
ray_serve_replica_up{replica="d1",deployment="Decode:model"} 1
"""


def test_counts_are_told_apart_by_the_replicas_role() -> None:
    counts = engine_counts(parse(PAGE))
    prefill, decode = counts[EngineRole.PREFILL], counts[EngineRole.DECODE]
    assert prefill.prompt_tokens == {"local_compute": 40}
    assert (prefill.expired_requests, prefill.cache_usage) == (3, 0.5)
    assert decode.prompt_tokens == {"external_kv_transfer": 39}
    assert (decode.transfers, decode.failed_transfers) == (2, 1)
    assert decode.transfers_by_bound() == {1024: 1, float("inf"): 1}


def test_what_came_since_leaves_earlier_counts_out_and_keeps_gauges() -> None:
    counts = engine_counts(parse(PAGE))
    since = counts[EngineRole.PREFILL].since(counts[EngineRole.PREFILL])
    assert since.prompt_tokens == {"local_compute": 0}
    assert since.cache_usage == 0.5
    assert counts[EngineRole.DECODE].since(EngineCounts()).transfers == 2


def test_a_size_falls_into_the_smallest_bucket_that_holds_it() -> None:
    assert [bucket_of(size, BOUNDS) for size in (1, 131072, 131073)] == [131072.0, 131072.0, 524288.0]
    assert bucket_of(9e9, BOUNDS) == float("inf")


def test_an_answers_leads_come_from_the_two_best() -> None:
    logprobs = {
        "tokens": ["x", "y"],
        "token_logprobs": [-0.1, -0.2],
        "top_logprobs": [{"x": -0.1, "z": -2.1}, {"y": -0.2}],
    }
    answer = answer_of(logprobs)
    assert answer.text == "xy"
    assert answer.margins == pytest.approx((2.0, float("inf")))
