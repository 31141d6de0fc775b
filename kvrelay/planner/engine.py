"""One vLLM engine as the planner sees it: a model on so many GPUs of one kind, with its limits."""

from __future__ import annotations

from dataclasses import dataclass

from kvrelay.data import Gpu, InstanceType, gpu
from kvrelay.planner.cache import CacheShape, cache_shape
from kvrelay.planner.shape import ModelShape

_LARGE_GPU_MIB = 70 * 1024


@dataclass(frozen=True, slots=True)
class Engine:
    """What decides an engine's memory. Defaults are vLLM's own (0.26)."""

    shape: ModelShape
    instance: InstanceType
    """The node it runs on; its GPUs must be as many as `tensor_parallel` at least."""
    stored: str = "bf16"
    """How weights are stored: a key of `weights.BITS`."""
    kv_dtype: str = "auto"
    tensor_parallel: int = 1
    utilization: float = 0.9
    """gpu_memory_utilization: the share of a GPU's memory that vLLM may fill."""
    max_model_len: int = 4096
    concurrency: int = 1
    """Sequences of full length that must be held at once."""
    vision: bool = True
    eager: bool = False
    block: int | None = None
    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None

    @property
    def gpu(self) -> Gpu:
        """The kind of GPU. Raises UnknownNameError for a GPU that is not described."""
        assert self.instance.gpu is not None
        return gpu(self.instance.gpu)

    @property
    def sequences(self) -> int:
        """max_num_seqs, by default 1024 on the largest GPUs and 256 on others."""
        return self.max_num_seqs or (1024 if self._large else 256)

    @property
    def batched_tokens(self) -> int:
        """max_num_batched_tokens, by default 8192 on the largest GPUs and 2048 on others."""
        return self.max_num_batched_tokens or (8192 if self._large else 2048)

    @property
    def cache(self) -> CacheShape:
        """The cache on one of its GPUs."""
        return cache_shape(self.shape, self.kv_dtype, self.tensor_parallel, self.block)

    @property
    def _large(self) -> bool:
        # vLLM leaves the A100 out: its many tokens a step would slow decode down too much.
        return self.gpu.memory_mib >= _LARGE_GPU_MIB and self.gpu.kind != "A100"
