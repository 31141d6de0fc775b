"""Whether an engine fits its GPUs, what is left, and how far length and concurrency may go."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.planner.engine import Engine
from kvrelay.planner.weights import weight_bytes_per_gpu

GIB = 1 << 30
MIB = 1 << 20

_LOGIT_COPIES = 3
"""Logits of every sequence in float32, once as they are and twice while they are sampled."""
_GRAPH_BYTES_A_LAYER = 18 * MIB
"""CUDA graphs, as vLLM logs them: about 0.6 GiB for 32 layers at its default sizes."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Memory of one GPU of the engine, in bytes, and what its cache can hold."""

    gpu: int
    budget: int
    """What vLLM may fill: utilization times the GPU's memory."""
    weights: int
    activations: int
    graphs: int
    sequence: int
    """One sequence of max_model_len."""
    sequences: int
    """How many sequences of max_model_len the cache holds at once; 0: vLLM refuses to start."""
    longest: int
    """The largest max_model_len at the wanted concurrency; 0 if there is none."""
    fits: bool

    @property
    def cache(self) -> int:
        """What is left for the KV cache; negative when the weights alone are too much."""
        return self.budget - self.weights - self.activations - self.graphs

    @property
    def before_activations(self) -> int:
        """What weights alone leave of the budget."""
        return self.budget - self.weights


def fit(engine: Engine) -> Fit:
    """How the engine fits one of its GPUs."""
    memory = engine.gpu.memory_mib * MIB
    budget = int(memory * engine.utilization)
    weights = weight_bytes_per_gpu(engine.shape, engine.stored, engine.tensor_parallel, vision=engine.vision)
    held, graphs = activation_bytes(engine), 0 if engine.eager else engine.shape.layers * _GRAPH_BYTES_A_LAYER
    room = budget - weights - held - graphs
    cache = engine.cache
    sequence = cache.sequence(engine.max_model_len)
    sequences = min(max(0, room // sequence), engine.sequences)
    longest = min(cache.longest(room, engine.concurrency), engine.shape.longest)
    return Fit(
        gpu=memory,
        budget=budget,
        weights=weights,
        activations=held,
        graphs=graphs,
        sequence=sequence,
        sequences=sequences,
        longest=longest,
        fits=sequences >= max(1, engine.concurrency),
    )


def activation_bytes(engine: Engine) -> int:
    """The peak that vLLM measures at start: one full step's states and the logits of every sequence.

    An estimate, good to about half a gibibyte: kernels' workspaces differ.
    """
    shape, step = engine.shape, engine.batched_tokens
    widest = max(shape.ffn_width, shape.experts.width * shape.experts.active if shape.experts else 0)
    states = step * 2 * (4 * shape.hidden + 3 * widest // engine.tensor_parallel)
    # Logits are gathered on the first GPU; more sequences than a step has tokens can't be in it.
    logits = min(engine.sequences, step) * shape.vocabulary * 4 * _LOGIT_COPIES
    return states + logits
