"""One run on a cluster: every claim tried in its turn, so that one that can't be tried hides no other."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from kvrelay.data.performance import fabrics
from kvrelay.errors import UserError
from kvrelay.ops import proof
from kvrelay.ops.answers import Answer, ask_all
from kvrelay.ops.cluster import ClusterError
from kvrelay.ops.endpoint import Endpoint
from kvrelay.ops.proof_prompts import ProofPrompt
from kvrelay.ops.verify import ProofTarget, gather
from kvrelay.ops.verify_cluster import claims, probes, readings
from kvrelay.ops.verify_cluster.claims import Worker
from kvrelay.ops.verify_cluster.geometry import PlannedGeometry, of_one_gpu
from kvrelay.ops.verify_cluster.report import Figure, NotShown, Report
from kvrelay.ops.verify_cluster.subject import Background, Subject
from kvrelay.planner.transfer import fabric_of, prompt_bytes, rate_gb_per_s

# GPU kernels differ in their last bits by batch and shape: on an H200 one ordinary engine's leads differed from its own
# by up to 0.25, a dense pair forked at 0.34, and a hybrid pair's leads differed by up to 0.47 (docs/benchmarks.md). A
# wrong cache turned the first token of all answers, at leads of up to 2.
_TOLERANCE = 0.5
_LONE_TOKEN = (
    "prompts of one token: a hybrid model's decode computes it upon a state that has it already (vLLM 0.26); "
    "chat templates make longer ones"
)
_PROMPTS = 4
_WATCH_S = 20.0
_LEAD_S = 2.0
_RESTART_S = 1200.0
_LOOK_S = 5.0


class Proving:
    """Tries the claims one by one. `say` gets a line at each step."""

    def __init__(
        self, subject: Subject, say: Callable[[str], None], *, reference: Endpoint | None, restart: bool
    ) -> None:
        self._subject = subject
        self._say = say
        self._reference = reference
        self._restart = restart
        self._verdicts: list[proof.Verdict] = []
        self._not_shown: list[NotShown] = []
        self._figures: list[Figure] = []

    def report(self) -> Report:
        """Everything. Raises UserError when there is nothing to look at: no way in, no workers."""
        prefill, decode = self._subject.workers("prefill"), self._subject.workers("decode")
        if not prefill or not decode:
            raise ClusterError(
                f"{len(prefill)} prefill and {len(decode)} decode workers in {self._subject.namespace}: "
                "nothing to prove yet; kvrelay wait follows their start"
            )
        self._describe([*prefill, *decode])
        self._say("where the workers run, and what they were given")
        self._verdicts.append(claims.on_distinct_nodes(prefill, decode))
        self._try("every worker has its EFA devices", lambda: self._devices([*prefill, *decode]))
        self._say("which backend NIXL made, and what is loaded")
        self._try("NIXL's backend is LIBFABRIC", lambda: self._backends([*prefill, *decode]))
        self._try("libfabric is loaded and holds an EFA device", lambda: self._libraries([*prefill, *decode]))
        with self._subject.endpoint([*prefill, *decode]) as endpoint:
            self._try("KV moved, nothing recomputed, nothing lost", lambda: self._core(endpoint))
            self._say(f"{_PROMPTS} long prompts, with EFA's counters beside")
            self._try("the KV cache went over EFA", lambda: self._fabric(endpoint, prefill, decode))
        self._restarted(decode[0])
        deployment = self._subject.deployment
        return Report(
            deployment.name,
            deployment.region,
            datetime.now(UTC),
            self._figures,
            self._verdicts,
            self._not_shown,
        )

    def _try(self, claim: str, attempt: Callable[[], Iterator[proof.Verdict]]) -> None:
        try:
            self._verdicts.extend(attempt())
        except UserError as error:
            self._not_shown.append(NotShown(claim, str(error), blocked=True))

    def _describe(self, workers: list[Worker]) -> None:
        add = self._figures.append
        version = self._subject.cluster.get("/version").get("gitVersion", "not known")
        add(Figure("Kubernetes", str(version)))
        add(Figure("image", self._subject.deployment.serving.image))
        add(Figure("model", self._subject.app.model_source))
        for worker in workers:
            add(Figure(f"{worker.role} worker", f"{worker.name} on {worker.node or 'no node'}"))

    def _devices(self, workers: list[Worker]) -> Iterator[proof.Verdict]:
        seen = {each.name: readings.read_devices(self._subject.run(each, probes.DEVICES)) for each in workers}
        yield claims.efa_allocated(workers, seen)

    def _backends(self, workers: list[Worker]) -> Iterator[proof.Verdict]:
        seen = {
            each.name: readings.read_backends(self._subject.run(each, probes.BACKENDS)) for each in workers
        }
        yield claims.backend_is_libfabric(seen)

    def _libraries(self, workers: list[Worker]) -> Iterator[proof.Verdict]:
        seen = {
            each.name: readings.read_libraries(self._subject.run(each, probes.LIBRARIES)) for each in workers
        }
        yield claims.libfabric_holds_efa(seen)

    def _core(self, endpoint: Endpoint) -> Iterator[proof.Verdict]:
        engine = self._subject.plan.decode.engine
        target = ProofTarget(
            endpoint,
            self._subject.app.model_id,
            PlannedGeometry.of(engine.cache),
            engine.max_model_len,
            self._answers,
            shortest=2 if engine.shape.hybrid else 1,
        )
        evidence = gather(target, self._say)
        evidence = replace(evidence, decode=of_one_gpu(evidence.decode, engine.tensor_parallel))
        if self._reference is None:
            # Each answer against itself: that it came is all that is left of the claim.
            evidence = replace(evidence, reference=evidence.answers)
        elif engine.shape.hybrid:
            self._not_shown.append(NotShown(proof.ANSWERS_EQUAL, _LONE_TOKEN))
        for verdict in proof.verdicts(evidence, _TOLERANCE):
            if verdict.claim == proof.ANSWERS_EQUAL and self._reference is None and verdict.held:
                why = "no ordinary engine of this model is at hand; name one with --reference-url"
                self._not_shown.append(NotShown(proof.ANSWERS_EQUAL, why))
            else:
                yield verdict

    def _answers(
        self, prompts: Sequence[ProofPrompt], say: Callable[[str], None] = lambda line: None
    ) -> list[Answer]:
        if self._reference is None:
            return []
        model = self._reference.model(None)
        return asyncio.run(ask_all(self._reference, model, prompts, secrets.token_hex(8)))

    def _fabric(
        self, endpoint: Endpoint, prefill: list[Worker], decode: list[Worker]
    ) -> Iterator[proof.Verdict]:
        engine = self._subject.plan.decode.engine
        tokens = engine.max_model_len - 1
        prompts = [_prompt(tokens, seed) for seed in range(_PROMPTS)]
        workers = [*prefill, *decode]
        self._ask(endpoint, [_prompt(16, 99)])  # the first request between two engines also shakes hands
        before = {each.name: self._counters(each) for each in workers}
        watches = [Background(lambda each=each: self._watch(each)) for each in decode]  # type: ignore[misc]
        time.sleep(_LEAD_S)
        self._ask(endpoint, prompts)
        speeds = [each.result() for each in watches]
        traffic = {
            each.name: readings.Traffic((*before[each.name].samples, *self._counters(each).samples))
            for each in workers
        }
        expected = sum(prompt_bytes(engine, prompt.length) for prompt in prompts)
        self._figures.append(
            Figure("known prompts", f"{len(prompts)} x {tokens} tokens, {expected:,} bytes of cache")
        )
        yield claims.bytes_over_efa(
            expected, [traffic[each.name] for each in prefill], [traffic[each.name] for each in decode]
        )
        planned = rate_gb_per_s(engine, fabrics()[fabric_of(engine.instance)])
        yield claims.faster_than_tcp(speeds, planned, rate_gb_per_s(engine, fabrics()["tcp"]))

    def _ask(self, endpoint: Endpoint, prompts: list[ProofPrompt]) -> None:
        model, salt = self._subject.app.model_id, secrets.token_hex(8)
        for answer in asyncio.run(ask_all(endpoint, model, prompts, salt, at_once=1)):
            if answer.error:
                raise ClusterError(f"a known prompt got no answer: {answer.error}")

    def _counters(self, worker: Worker) -> readings.Traffic:
        return readings.read_traffic(self._subject.run(worker, probes.watch_ports(0)))

    def _watch(self, worker: Worker) -> readings.Traffic:
        output = self._subject.run(worker, probes.watch_ports(_WATCH_S), seconds=_WATCH_S + 30)
        return readings.read_traffic(output)

    def _restarted(self, worker: Worker) -> None:
        claim = "a restarted worker finds its weights in the cache"
        if not self._restart:
            why = "it ends a decode worker, so that answers stop for minutes; allow it with --restart"
            self._not_shown.append(NotShown(claim, why))
            return
        self._say(f"ending {worker.name}, to see how its successor gets its weights")
        self._try(claim, lambda: self._successor(worker))

    def _successor(self, worker: Worker) -> Iterator[proof.Verdict]:
        known = {each.name for each in self._subject.workers(worker.role)}
        self._subject.delete(worker)
        began = time.monotonic()
        while time.monotonic() - began < _RESTART_S:
            time.sleep(_LOOK_S)
            for each in self._subject.workers(worker.role):
                if each.name in known or not each.ready:
                    continue
                weights = readings.read_weights(self._subject.run(each, probes.WEIGHTS))
                if weights.loading_s is not None:
                    yield claims.weights_were_cached(each.name, weights, time.monotonic() - began)
                    return
        raise ClusterError(
            f"no successor of {worker.name} loaded its weights in {_RESTART_S:.0f} s; kvrelay status says why"
        )


def _prompt(tokens: int, seed: int) -> ProofPrompt:
    """So many ordinary tokens, none like another prompt's."""
    return ProofPrompt.drawn(random.Random(f"{tokens}-{seed}"), tokens, 1)
