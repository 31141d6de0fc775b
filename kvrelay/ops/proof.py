"""Proves from evidence that prefill handed its KV cache to decode, whole, and that answers stayed right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from kvrelay.ops.answers import Answer
from kvrelay.ops.engine_metrics import EngineCounts, bucket_of
from kvrelay.ops.proof_prompts import ProofPrompt

ANSWERS_EQUAL = "answers equal one ordinary engine's"
BYTES_MATCH = "bytes moved match prompts x bytes a token"


@dataclass(frozen=True, slots=True)
class KvGeometry:
    """The size of a model's KV cache: bytes a token (all layers, keys and values), tokens a block."""

    bytes_per_token: int
    block_size: int

    def transfer_bytes(self, tokens: int) -> int:
        """Bytes of the whole blocks that hold `tokens`: NIXL moves no part of a block."""
        return -(-tokens // self.block_size) * self.block_size * self.bytes_per_token


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was asked, what came, and what the engines counted meanwhile."""

    prompts: Sequence[ProofPrompt]
    answers: Sequence[Answer]
    reference: Sequence[Answer]
    geometry: KvGeometry
    prefill: EngineCounts
    decode: EngineCounts


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim, whether it held, and what was seen."""

    claim: str
    held: bool
    saw: str


def verdicts(evidence: Evidence, tolerance: float = 0.0) -> list[Verdict]:
    """All claims. `tolerance` is the log-probability lead below which two engines may choose differently.

    Zero is right where both compute alike (one CPU); GPU kernels differ in their last bits by batch and shape.
    """
    return [
        same_answers(evidence, tolerance),
        cache_moved(evidence),
        bytes_match(evidence),
        nothing_recomputed(evidence),
        nothing_lost(evidence),
        nothing_held(evidence),
    ]


def same_answers(evidence: Evidence, tolerance: float) -> Verdict:
    """Greedy answers equal those of one ordinary engine."""
    differences = [
        f"prompt of {prompt.length} tokens: {difference}"
        for prompt, answer, reference in zip(
            evidence.prompts, evidence.answers, evidence.reference, strict=True
        )
        for difference in _differences(answer, reference, tolerance)
    ]
    count = len(evidence.prompts)
    lengths = [prompt.length for prompt in evidence.prompts]
    saw = f"{count - len(differences)} of {count} answers equal, for prompts of {min(lengths)} to {max(lengths)} tokens"
    return Verdict(ANSWERS_EQUAL, not differences, _with_first(saw, differences))


def _differences(answer: Answer, reference: Answer, tolerance: float) -> Iterator[str]:
    if answer.error or reference.error:
        yield answer.error or f"the reference: {reference.error}"
        return
    for index, (got, wanted) in enumerate(zip_longest(answer.tokens, reference.tokens)):
        if got != wanted:
            lead = reference.margins[index] if index < len(reference.margins) else float("inf")
            if lead > tolerance:
                yield f"token {index} is {got!r}, should be {wanted!r} (lead {lead:.3g})"
            # After a permitted fork the two texts have nothing to say of each other.
            return


def cache_moved(evidence: Evidence) -> Verdict:
    """Every prompt's cache came to decode in a transfer of its own."""
    asked = sum(prompt.length for prompt in evidence.prompts)
    external = round(evidence.decode.prompt_tokens.get("external_kv_transfer", 0))
    transfers = round(evidence.decode.transfers)
    # A prompt's last token may be computed on decode: its logits are needed there.
    held = asked - len(evidence.prompts) <= external <= asked and transfers == len(evidence.prompts)
    saw = f"{external} of {asked} prompt tokens came from prefill, in {transfers} transfers"
    return Verdict(f"KV moved for each of {len(evidence.prompts)} prompts", held, saw)


def bytes_match(evidence: Evidence) -> Verdict:
    """The transfers have the sizes that the prompts' blocks have, as far as the metric's buckets tell."""
    bounds = sorted(evidence.decode.transfer_buckets)
    sizes = [evidence.geometry.transfer_bytes(prompt.length) for prompt in evidence.prompts]
    expected = dict(sorted(Counter(bucket_of(size, bounds) for size in sizes).items()))
    seen = evidence.decode.transfers_by_bound()
    saw = f"{sum(sizes):,} bytes expected; transfers by size: {_by_size(seen)}"
    if expected != seen:
        saw += f"; expected: {_by_size(expected)}"
    return Verdict(BYTES_MATCH, expected == seen, saw)


def nothing_recomputed(evidence: Evidence) -> Verdict:
    """Decode computed no prompt, but for the one last token of each that some engines need."""
    computed = round(evidence.decode.prompt_tokens.get("local_compute", 0))
    counted = round(sum(evidence.decode.prompt_tokens.values()))
    held = computed <= len(evidence.prompts) and counted > 0
    saw = f"{computed} of {counted} prompt tokens computed on decode"
    prefilled = round(evidence.prefill.prompt_tokens.get("local_compute", 0))
    return Verdict("decode recomputed nothing", held, f"{saw}, {prefilled} on prefill")


def nothing_lost(evidence: Evidence) -> Verdict:
    """No transfer or notification failed, and no cache expired unread."""
    both = (evidence.prefill, evidence.decode)
    failed = round(sum(counts.failed_transfers for counts in both))
    unnotified = round(sum(counts.failed_notifications for counts in both))
    expired = round(sum(counts.expired_requests for counts in both))
    saw = f"{failed} failed transfers, {unnotified} failed notifications, {expired} expired"
    return Verdict("no transfer failed or expired", failed == unnotified == expired == 0, saw)


def nothing_held(evidence: Evidence) -> Verdict:
    """With all answers given, both engines have freed every block: none is kept for a peer that will not ask."""
    prefill, decode = evidence.prefill.cache_usage, evidence.decode.cache_usage
    saw = f"prefill holds {prefill:.2%} of its blocks, decode {decode:.2%}"
    return Verdict("no KV cache is left held", prefill == decode == 0, saw)


def _by_size(counts: dict[float, int]) -> str:
    return ", ".join(f"{count} up to {bound:,.0f} B" for bound, count in counts.items()) or "none"


def _with_first(saw: str, differences: Sequence[str]) -> str:
    if not differences:
        return saw
    more = f" (and {len(differences) - 1} more)" if len(differences) > 1 else ""
    return f"{saw}; {differences[0]}{more}"
