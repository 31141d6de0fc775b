"""What was asked of a relay or a Serve app, what came, and what kvrelay verify says to it, as plain data."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kvrelay.ops.answers import Answer, ask_all
from kvrelay.ops.endpoint import Endpoint, EndpointError
from kvrelay.ops.engine_metrics import EngineCounts, EngineRole, Sample, engine_counts, parse, scrape
from kvrelay.ops.proof import Evidence, KvGeometry, Verdict, verdicts
from kvrelay.ops.proof_prompts import PLAIN_TOKENS, ProofPrompt, proof_prompts

_SUMS = {
    "vllm_nixl_xfer_time_seconds": "transfer_s",
    "vllm_nixl_post_time_seconds": "post_s",
    "vllm_nixl_bytes_transferred": "bytes",
    "vllm_nixl_num_descriptors": "descriptors",
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A relay before two engines of this machine, whose metrics are their own and therefore up to date."""

    url: str
    model: str
    geometry: KvGeometry

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(self.url, (f"{self.url}/metrics",))


def judged(
    pair: Pair,
    prompts: Sequence[ProofPrompt],
    reference: Sequence[Answer],
    seconds: float,
    tolerance: float = 0.0,
    at_once: int = 1,
) -> dict[str, Any]:
    """kvrelay verify's verdicts on one run through a relay. What has not been answered after `seconds` has failed.

    `kvrelay.ops.verify.prove` waits for a metrics page that is seconds old; these engines' pages are not.
    """
    before = engine_counts(scrape(pair.endpoint.metrics_urls))
    began = time.monotonic()
    answers = answers_of(pair.endpoint, pair.model, prompts, seconds, at_once)
    took = time.monotonic() - began
    try:
        prefill, decode = _counts_since(pair, before)
    except EndpointError:
        # An engine that has ended counts nothing.
        prefill, decode = EngineCounts(), EngineCounts()
    evidence = Evidence(prompts, answers, reference, pair.geometry, prefill, decode)
    return {
        "seconds": round(took, 2),
        "verdicts": [as_data(verdict) for verdict in verdicts(evidence, tolerance)],
        "answers": compared(prompts, answers, reference),
        "prompt_tokens_by_source": {
            "prefill": dict(prefill.prompt_tokens),
            "decode": dict(decode.prompt_tokens),
        },
    }


def _counts_since(
    pair: Pair, before: dict[EngineRole, EngineCounts], patience: float = 5.0
) -> tuple[EngineCounts, EngineCounts]:
    """What both engines counted since `before`, read when both have freed their caches or after `patience` seconds."""
    deadline = time.monotonic() + patience
    while True:
        # A transfer is counted with the engine's next step.
        time.sleep(1.0)
        now = engine_counts(scrape(pair.endpoint.metrics_urls))
        prefill, decode = (
            now.get(role, EngineCounts()).since(before.get(role, EngineCounts()))
            for role in (EngineRole.PREFILL, EngineRole.DECODE)
        )
        freed = prefill.cache_usage == 0 and decode.cache_usage == 0
        if (freed and decode.transfers > 0) or time.monotonic() > deadline:
            return prefill, decode


def answers_of(
    where: Endpoint, model: str, prompts: Sequence[ProofPrompt], seconds: float, at_once: int = 1
) -> list[Answer]:
    """Greedy answers, all of them within `seconds`, or an error in the place of each."""

    async def ask() -> list[Answer]:
        async with asyncio.timeout(seconds):
            return await ask_all(where, model, prompts, secrets.token_hex(8), at_once)

    try:
        return asyncio.run(ask())
    except TimeoutError:
        return [Answer((), (), f"no answer within {seconds:.0f} s")] * len(prompts)


def compared(
    prompts: Sequence[ProofPrompt], answers: Sequence[Answer], reference: Sequence[Answer]
) -> list[dict[str, Any]]:
    """Each answer beside its reference: tokens that agree from the start, and how far log-probability leads differ."""
    return [
        {
            "prompt_tokens": prompt.length,
            "tokens": len(right.tokens),
            "equal_tokens": equal_tokens(answer, right),
            "largest_lead_difference": _lead_difference(answer, right),
            "error": answer.error or right.error,
        }
        for prompt, answer, right in zip(prompts, answers, reference, strict=True)
    ]


def equal_tokens(answer: Answer, right: Answer) -> int:
    """Tokens from the start on which both agree."""
    count = 0
    for one, other in zip(answer.tokens, right.tokens, strict=False):
        if one != other:
            break
        count += 1
    return count


def _lead_difference(answer: Answer, right: Answer) -> float | None:
    """The largest difference of the leads over the tokens that agree; 0 when both computed the same bits."""
    count = equal_tokens(answer, right)
    pairs = zip(answer.margins[:count], right.margins[:count], strict=False)
    return max((abs(one - other) for one, other in pairs), default=None)


def as_data(verdict: Verdict) -> dict[str, Any]:
    return {"claim": verdict.claim, "held": verdict.held, "saw": verdict.saw}


def telling_prompts(block_size: int, max_model_len: int, more: Sequence[int] = ()) -> list[ProofPrompt]:
    """kvrelay verify's prompts, and prompts of the lengths `more`."""
    source = random.Random(11)
    extra = [ProofPrompt.drawn(source, length, 16) for length in more]
    return sorted([*proof_prompts(block_size, max_model_len), *extra], key=lambda prompt: prompt.length)


def one_token_further(
    prompts: Sequence[ProofPrompt], answers: Sequence[Answer], vocabulary: Mapping[str, int]
) -> tuple[list[ProofPrompt], list[Answer]]:
    """Each prompt with its answer's first token at its end, and the rest of the answer as what must come.

    An engine computes that token in prefill now, where it computed it in decode: so far may one engine's kernels
    differ. A pair hands over all before it and computes it in decode, as the engine did: there the bits must be equal.
    """
    longer, expected = [], []
    for prompt, answer in zip(prompts, answers, strict=True):
        # Byte-level vocabularies write a space so.
        token = vocabulary.get(answer.tokens[0].replace(" ", "\u0120")) if len(answer.tokens) > 1 else None
        if token is not None:
            longer.append(ProofPrompt((*prompt.tokens, token), len(answer.tokens) - 1))
            expected.append(Answer(answer.tokens[1:], answer.margins[1:]))
    return longer, expected


def altered(prompt: ProofPrompt) -> ProofPrompt:
    """The same prompt with another first token: an answer that ignores its context would not notice."""
    first = PLAIN_TOKENS[(prompt.tokens[0] - PLAIN_TOKENS[0] + 1) % len(PLAIN_TOKENS)]
    return ProofPrompt((first, *prompt.tokens[1:]), prompt.max_tokens)


def noticed(
    prompts: Sequence[ProofPrompt], before: Sequence[Answer], after: Sequence[Answer]
) -> dict[str, int]:
    """How many answers an altered first token changed: their tokens, or at least their leads."""
    pairs = list(zip(before, after, strict=True))
    return {
        "prompts": len(prompts),
        "tokens_changed": sum(one.tokens != other.tokens for one, other in pairs),
        "leads_changed": sum(one.margins != other.margins for one, other in pairs),
    }


def transfer_sums(page: str) -> dict[str, float]:
    """Sums and counts of a decode engine's own metrics page: exact, other than Ray's."""
    found: dict[str, float] = dict.fromkeys((*_SUMS.values(), "transfers"), 0.0)
    for sample in parse(page):
        _add(found, sample)
    return found


def _add(found: dict[str, float], sample: Sample) -> None:
    for name, short in _SUMS.items():
        if sample.name == f"{name}_sum":
            found[short] += sample.value
    if sample.name == "vllm_nixl_bytes_transferred_count":
        found["transfers"] += sample.value


def per_transfer(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """Means of the transfers between two readings; empty when there was none."""
    new = {name: after[name] - before[name] for name in after}
    count = new.pop("transfers")
    if not count:
        return {}
    means = {name: value / count for name, value in new.items()}
    speed = new["bytes"] / new["transfer_s"] / 1e9 if new["transfer_s"] else 0.0
    return {"transfers": count, **means, "gb_per_s": speed}
