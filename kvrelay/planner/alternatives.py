"""The nearest changes that let an engine fit: length, precision, tensor parallel, instance type, with prices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from kvrelay.data import InstanceType, instance_types, price
from kvrelay.planner.engine import Engine
from kvrelay.planner.fit import Fit, fit
from kvrelay.planner.shape import LatentAttention, ModelShape

_SMALLER = {"bf16": ("fp8", "awq"), "fp8": ("awq",), "int8": ("awq",)}
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Alternative:
    """A changed engine that fits."""

    engine: Engine
    fit: Fit
    changes: tuple[str, ...]
    """Each change, in words of the settings it touches."""
    usd_per_hour: float | None
    """Of one node; None where no price is known."""


def alternatives(engine: Engine, region: str) -> list[Alternative]:
    """The fewest changes first, then the cheapest; each further one costs less than all before it.

    Types without a known price are named only where no priced one fits.
    """
    found = sorted(_fitting(engine, region), key=_distance)
    priced = [each for each in found if each.usd_per_hour is not None]
    kept: list[Alternative] = []
    for each in priced:
        if all(_cost(each) < _cost(other) for other in kept):
            kept.append(each)
    return (kept or found)[:_SHOWN]


def tensor_parallel_sizes(shape: ModelShape, gpus: int) -> list[int]:
    """Sizes that split the heads evenly on at most `gpus` GPUs of one node."""
    attention = shape.attention
    kv_heads = attention.heads if isinstance(attention, LatentAttention) else attention.kv_heads
    return [
        size
        for size in (1, 2, 4, 8)
        if size <= gpus and attention.heads % size == 0 and (kv_heads % size == 0 or size % kv_heads == 0)
    ]


def _fitting(engine: Engine, region: str) -> Iterator[Alternative]:
    for instance in _nodes(engine):
        assert instance.gpu is not None
        stored_as = (engine.stored, *_SMALLER.get(engine.stored, ()))
        sizes = tensor_parallel_sizes(engine.shape, instance.gpu.count)
        for stored, size in product(stored_as, sizes):
            if size < engine.tensor_parallel and instance == engine.instance:
                continue
            changed = replace(engine, instance=instance, stored=stored, tensor_parallel=size)
            fitting = _shrunk(changed)
            if fitting is not None:
                yield Alternative(
                    fitting, fit(fitting), _changes(engine, fitting), price(instance.name, region)
                )


def _nodes(engine: Engine) -> list[InstanceType]:
    """Its own type, and every type with EFA."""
    others = [each for each in instance_types() if each.gpu and each.efa and each != engine.instance]
    return [engine.instance, *others]


def _shrunk(engine: Engine) -> Engine | None:
    """The engine itself if it fits, else with the least given up; None where its weights leave no room."""
    if fit(engine).fits:
        return engine
    room = fit(engine)
    if room.cache <= 0:
        return None
    if engine.vision and engine.shape.vision_parameters and fit(replace(engine, vision=False)).fits:
        return replace(engine, vision=False)
    if engine.kv_dtype == "auto" and not engine.shape.hybrid and fit(replace(engine, kv_dtype="fp8")).fits:
        return replace(engine, kv_dtype="fp8")
    if room.sequences >= 1:
        return replace(engine, concurrency=room.sequences)
    if room.longest >= 1024:
        return replace(engine, max_model_len=room.longest // 16 * 16)
    return None


def _changes(before: Engine, after: Engine) -> tuple[str, ...]:
    words = []
    if after.instance != before.instance:
        words.append(f"instance_type: {after.instance.name}")
    if after.tensor_parallel != before.tensor_parallel:
        words.append(f"tensor_parallel_size: {after.tensor_parallel}")
    if after.stored != before.stored:
        words.append(f"weights in {after.stored}")
    if after.vision != before.vision:
        words.append("language_model_only: true")
    if after.kv_dtype != before.kv_dtype:
        words.append(f"kv_cache_dtype: {after.kv_dtype}")
    if after.max_model_len != before.max_model_len:
        words.append(f"max_model_len: {after.max_model_len}")
    if after.concurrency != before.concurrency:
        words.append(f"{after.concurrency} sequences at once")
    return tuple(words)


def _distance(each: Alternative) -> tuple[int, float, int]:
    # Holding less than was asked for is worse than any setting; 4 bits cost more accuracy than 8.
    given_up = sum(
        change.startswith("max_model_len") or change.endswith("at once") for change in each.changes
    )
    coarser = sum(change == "weights in awq" for change in each.changes)
    return len(each.changes) + 2 * given_up + coarser, _cost(each), each.engine.tensor_parallel


def _cost(each: Alternative) -> float:
    return float("inf") if each.usd_per_hour is None else each.usd_per_hour
