"""A plan as JSON: SI units in every name, null where something is unknown or has no bound."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from kvrelay.planner.alternatives import Alternative
from kvrelay.planner.plan import Plan, Road, RoleFit
from kvrelay.planner.ratio import Comparison, Option


def as_json(plan: Plan) -> dict[str, Any]:
    """Plain values for json.dumps."""
    return {
        "deployment": plan.asked.name,
        "model": plan.asked.shape.name,
        "region": plan.asked.footprint.region,
        "fits": plan.all_fit,
        "roles": [_role(each) for each in plan.fits],
        "transfers": [_road(each) for each in plan.roads],
        "prefill_decode": _comparison(plan.comparison) if plan.comparison else None,
        "cost": {
            "usd_per_hour": plan.cost.usd_per_hour,
            "prices_read": plan.cost.date,
            "parts": [{"name": part.name, "usd_per_hour": part.usd_per_hour} for part in plan.cost.parts],
            "unknown": list(plan.cost.unknown),
        },
        "seconds": {phase: line.seconds for phase, line in plan.timelines.items()},
        "image_pull": {
            "mode": plan.asked.image_pull.mode,
            "size_gb": plan.asked.image_pull.size_gb,
            "seconds": plan.asked.image_pull.seconds,
            "seconds_parallel": plan.asked.image_pull.parallel,
            "seconds_sequential": plan.asked.image_pull.sequential,
        },
        "critical_path": {phase: list(line.critical_path) for phase, line in plan.timelines.items()},
    }


def _role(each: RoleFit) -> dict[str, Any]:
    engine, found = each.role.engine, each.fit
    return {
        "role": each.role.name,
        "replicas": each.role.replicas,
        "instance_type": engine.instance.name,
        "gpu": engine.gpu.kind,
        "tensor_parallel_size": engine.tensor_parallel,
        "weights_stored_as": engine.stored,
        "fits": found.fits,
        "bytes_per_gpu": {
            "memory": found.gpu,
            "budget": found.budget,
            "weights": found.weights,
            "activations": found.activations,
            "cuda_graphs": found.graphs,
            "cache": found.cache,
        },
        "max_model_len": engine.max_model_len,
        "sequence_bytes": found.sequence,
        "sequences": found.sequences,
        "wanted_sequences": engine.concurrency,
        "largest_max_model_len": found.longest,
        "alternatives": [_alternative(other) for other in each.alternatives],
    }


def _alternative(each: Alternative) -> dict[str, Any]:
    return {
        "changes": list(each.changes),
        "instance_type": each.engine.instance.name,
        "usd_per_hour": each.usd_per_hour,
        "sequences": each.fit.sequences,
    }


def _road(road: Road) -> dict[str, Any]:
    return {
        "prompt_tokens": road.tokens,
        "bytes": road.transfers[0].bytes,
        "prefill_seconds": road.prefill_seconds,
        "fabrics": {each.fabric.key: each.seconds for each in road.transfers},
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "requests_per_s": comparison.workload.rate,
        "kinds": [
            {"requests_per_s": kind.rate, "prompt_tokens": kind.prompt, "answer_tokens": kind.answer}
            for kind in comparison.workload.kinds
        ],
        "goals": {"ttft_p90_s": comparison.goals.ttft_p90, "itl_p99_s": comparison.goals.itl_p99},
        "pays": comparison.pays,
        "verdict": comparison.verdict,
        "options": [_option(each) for each in comparison.options],
    }


def _option(option: Option) -> dict[str, Any]:
    latency = option.latency
    return {
        "label": latency.label,
        "prefill_replicas": latency.prefill,
        "decode_replicas": latency.decode,
        "keeps_up": latency.keeps_up,
        "ttft_s": _bounded(latency.ttft),
        "itl_s": _bounded(latency.itl),
        "prefill_load": latency.prefill_load,
        "sequences_held": latency.batch if math.isfinite(latency.batch) else None,
        "sequences_room": latency.room,
        "capacity_requests_per_s": option.capacity,
        "goodput_requests_per_s": option.goodput,
        "usd_per_million_tokens": option.usd_per_million_tokens,
    }


def _bounded(values: Mapping[int, float]) -> dict[str, float | None]:
    return {f"p{each}": value if math.isfinite(value) else None for each, value in values.items()}
