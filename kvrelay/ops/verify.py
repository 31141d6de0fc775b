"""The core of kvrelay verify, the same wherever the app runs: asks, gathers what the engines counted, and judges it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kvrelay.errors import UserError
from kvrelay.ops.answers import Answer, ask_all
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.engine_metrics import EngineCounts, EngineRole, engine_counts, scrape
from kvrelay.ops.proof import Evidence, KvGeometry, Verdict, verdicts
from kvrelay.ops.proof_prompts import ProofPrompt, proof_prompts

# Engines report to the node's metrics page every ten seconds or less.
_REPORT_SECONDS = 11.0
_METRICS_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ProofTarget:
    """What is proved: where it answers, how large its cache is, and who knows the right answers."""

    endpoint: Endpoint
    model: str
    geometry: KvGeometry
    max_model_len: int
    reference: Callable[[Sequence[ProofPrompt], Callable[[str], None]], list[Answer]]
    """One ordinary engine's answers to prompts; its second argument takes lines of progress."""
    tolerance: float = 0.0
    shortest: int = 1
    """Tokens of the shortest prompt that is asked."""


class NotProvedError(UserError):
    """A claim did not hold."""

    exit_code = 1


class BusyAppError(UserError):
    """Somebody else's requests are counted too, so nothing can be proved now."""

    exit_code = 1


def prove(target: ProofTarget, say: Callable[[str], None]) -> list[Verdict]:
    """Asks, gathers what the engines counted meanwhile, and judges it."""
    return verdicts(gather(target, say), target.tolerance)


def gather(target: ProofTarget, say: Callable[[str], None]) -> Evidence:
    """The evidence of one run. The app must be idle otherwise: its counters are of all requests."""
    prompts = proof_prompts(target.geometry.block_size, target.max_model_len, shortest=target.shortest)
    counts, read_at = _counts(target), time.monotonic()
    say(
        f"{len(prompts)} prompts of {prompts[0].length} to {prompts[-1].length} tokens; reference answers first"
    )
    reference = target.reference(prompts, say)
    before = _all_reported(target, counts, read_at)
    say("asking the same of prefill and decode")
    answers = asyncio.run(ask_all(target.endpoint, target.model, prompts, secrets.token_hex(8)))
    say("answered; reading the engines' metrics")
    expected = sum(prompt.length for prompt in prompts)
    prefill, decode = _settled(target, before, expected)
    return Evidence(prompts, answers, reference, target.geometry, prefill, decode)


def _all_reported(
    target: ProofTarget, counts: dict[EngineRole, EngineCounts], read_at: float
) -> dict[EngineRole, EngineCounts]:
    """The counts once they have not moved for a whole report: requests from before verify are in them then."""
    deadline = time.monotonic() + _METRICS_SECONDS
    while True:
        now, moment = _counts(target), time.monotonic()
        if now != counts:
            counts, read_at = now, moment
        if moment > read_at + _REPORT_SECONDS:
            return counts
        if moment > deadline:
            running = sum(each.running + each.waiting for each in now.values())
            raise BusyAppError(
                f"the app answers other requests ({running:.0f} now; its counters moved while verify asked nothing): "
                "verify needs it to itself, as its counters are of all requests"
            )
        time.sleep(1.0)


def _settled(
    target: ProofTarget, before: dict[EngineRole, EngineCounts], prompt_tokens: int
) -> tuple[EngineCounts, EngineCounts]:
    """What was counted since `before`: once all prompt tokens show on decode and a full report came after.

    A failed transfer, or a cache still held, shows only in a report that follows the answers. Where tokens never
    show, or a cache is never freed, the metrics' time runs up and what is seen then is the evidence.
    """
    deadline = time.monotonic() + _METRICS_SECONDS
    complete_since: float | None = None
    while True:
        now = _counts(target)
        prefill, decode = (
            now.get(role, EngineCounts()).since(before.get(role, EngineCounts()))
            for role in (EngineRole.PREFILL, EngineRole.DECODE)
        )
        moment = time.monotonic()
        seen = sum(decode.prompt_tokens.values())
        if seen >= prompt_tokens and decode.transfers > 0 and complete_since is None:
            complete_since = moment
        freed = prefill.cache_usage == 0 and decode.cache_usage == 0
        reported = complete_since is not None and moment > complete_since + _REPORT_SECONDS
        if (reported and freed) or moment > deadline:
            return prefill, decode
        time.sleep(1.0)


def _counts(target: ProofTarget) -> dict[EngineRole, EngineCounts]:
    return engine_counts(scrape(target.endpoint.metrics_urls))
