"""What is made of answers, metrics pages and what UCX says."""

from __future__ import annotations

import pytest

from benchmarks.gpu.evidence import (
    altered,
    compared,
    equal_tokens,
    noticed,
    one_token_further,
    per_transfer,
    telling_prompts,
    transfer_sums,
)
from benchmarks.gpu.relay import first_half, labelled
from benchmarks.gpu.steps import roads
from benchmarks.gpu.transport import descriptors, loads_of
from kvrelay.ops.answers import Answer
from kvrelay.ops.engine_metrics import EngineRole, engine_counts, parse
from kvrelay.ops.proof_prompts import ProofPrompt

RIGHT = Answer(("a", "b", "c"), (0.5, 0.25, 0.125))
PAGE = """\
# HELP vllm:nixl_bytes_transferred Histogram
vllm:nixl_bytes_transferred_bucket{engine="0",le="131072.0"} 2.0
vllm:nixl_bytes_transferred_bucket{engine="0",le="+Inf"} 4.0
vllm:nixl_bytes_transferred_count{engine="0"} 4.0
vllm:nixl_bytes_transferred_sum{engine="0"} 4e+09
vllm:nixl_num_descriptors_sum{engine="0"} 144.0
vllm:nixl_post_time_seconds_sum{engine="0"} 0.02
vllm:nixl_xfer_time_seconds_sum{engine="0"} 0.4
vllm:prompt_tokens_by_source_total{source="external_kv_transfer"} 7.0
process_open_fds 3.0
"""


def test_answers_agree_up_to_the_first_other_token() -> None:
    assert equal_tokens(Answer(("a", "x", "c"), (0.5, 0.2, 0.1)), RIGHT) == 1
    (found,) = compared([ProofPrompt((60,), 3)], [Answer(("a", "x", "c"), (0.4, 9, 9))], [RIGHT])
    assert found["equal_tokens"] == 1
    assert found["tokens"] == 3
    assert found["largest_lead_difference"] == pytest.approx(0.1)


def test_an_answer_that_ignores_its_prompt_is_noticed() -> None:
    prompts = telling_prompts(16, 64)
    assert all(altered(prompt).length == prompt.length for prompt in prompts)
    assert all(altered(prompt).tokens[0] != prompt.tokens[0] for prompt in prompts)
    answers = [RIGHT] * len(prompts)
    assert noticed(prompts, answers, answers) == {
        "prompts": len(prompts),
        "tokens_changed": 0,
        "leads_changed": 0,
    }


def test_prompts_are_verifys_and_the_lengths_asked_for() -> None:
    lengths = [prompt.length for prompt in telling_prompts(16, 16_640, (4095, 12_000))]
    assert lengths == sorted(lengths)
    assert {1, 15, 16, 17, 4095, 12_000, 16_624} <= set(lengths)


def test_means_of_transfers_are_those_since_the_last_reading() -> None:
    sums = transfer_sums(PAGE)
    assert per_transfer(sums, sums) == {}
    assert per_transfer(transfer_sums(""), sums) == {
        "transfers": 4,
        "bytes": 1e9,
        "descriptors": 36,
        "post_s": 0.005,
        "transfer_s": pytest.approx(0.1),
        "gb_per_s": pytest.approx(10),
    }


def test_verify_tells_the_relays_engines_apart() -> None:
    counts = engine_counts(parse(labelled("", "prefill") + labelled(PAGE, "decode")))
    assert counts[EngineRole.DECODE].transfers == 4
    assert counts[EngineRole.DECODE].transfers_by_bound() == {131072.0: 2, float("inf"): 2}
    assert counts[EngineRole.DECODE].prompt_tokens == {"external_kv_transfer": 7}
    assert set(counts) == {EngineRole.DECODE}


def test_prefill_is_asked_for_one_token_and_a_hand_over() -> None:
    body = {"prompt": [60], "max_tokens": 9, "stream": True, "stream_options": {}, "cache_salt": "s"}
    asked = first_half(body)
    assert asked["kv_transfer_params"]["do_remote_decode"] is True
    assert {key: asked[key] for key in ("max_tokens", "stream", "cache_salt")} == {
        "max_tokens": 1,
        "stream": False,
        "cache_salt": "s",
    }
    assert "stream_options" not in asked
    assert "kv_transfer_params" not in first_half(body, forgetful=True)


def test_pieces_do_not_lie_beside_each_other() -> None:
    pieces = descriptors(1000, 80, 4, 0)
    assert loads_of("75:36/1188,1770:36") == [(75_000_000, 36), (75_000_000, 1188), (1_770_000_000, 36)]
    assert pieces == [(1000, 20, 0), (1040, 20, 0), (1080, 20, 0), (1120, 20, 0)]


def test_ucx_is_read_for_what_moves_remote_memory_only() -> None:
    said = """\
[17.8] [vm:8550 :0]   ucp_worker.c:1984 UCX  INFO    ucp_context_0 intra-node cfg#1 rma_am(tcp/lo)
[17.8] [vm:8550 :0]   +-----------+------------------------------------------------+
[17.8] [vm:8550 :0]   | cfg#1     | remote memory read by ucp_get* into cuda       |
[17.8] [vm:8550 :0]   +-----------+--------------------------------+---------------+
[17.8] [vm:8550 :0]   |    0..inf | (!) software emulation         | tcp/lo        |
[17.8] [vm:8550 :0]   +-----------+--------------------------------+---------------+
[17.8] [vm:8550 :0]   | cfg#1     | active message by ucp_am_send* from host       |
[17.8] [vm:8550 :0]   |  0..16515 | short                          | tcp/lo        |
"""
    assert roads(said.splitlines() * 2) == [
        "ucp_context_0 intra-node cfg#1 rma_am(tcp/lo)",
        "remote memory read by ucp_get* into cuda: 0..inf: (!) software emulation, tcp/lo",
    ]


def test_one_token_further_prefill_reads_what_decode_computed() -> None:
    prompts = [ProofPrompt((60,), 16), ProofPrompt((61,), 16), ProofPrompt((62,), 16)]
    spaced = Answer((" b", "c"), (0.5, 0.25))
    failed = Answer((), (), "500: no")
    longer, expected = one_token_further(prompts, [RIGHT, spaced, failed], {"a": 7, "\u0120b": 8})
    assert [prompt.tokens for prompt in longer] == [(60, 7), (61, 8)]
    assert [prompt.max_tokens for prompt in longer] == [2, 1]
    assert expected == [Answer(("b", "c"), (0.25, 0.125)), Answer(("c",), (0.25,))]
