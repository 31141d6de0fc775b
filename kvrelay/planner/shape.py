"""The shape of a language model: what its memory and speed follow from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupedAttention:
    """Attention with `kv_heads` cached heads of `head_dim` each (multi-head when they equal `heads`)."""

    heads: int
    kv_heads: int
    head_dim: int
    output_gate: bool = False
    """The query projection is twice as wide: the other half gates the output (Qwen3.5)."""
    bias: bool = False
    """Biases on all four projections, and a sink for each head (gpt-oss)."""
    head_norms: bool = False
    """A norm on each query and key head."""


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek): one compressed cache entry a token, for all heads."""

    heads: int
    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int


@dataclass(frozen=True, slots=True)
class LinearAttention:
    """A gated delta net layer: a state of fixed size for each sequence, no cache that grows."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    state_bytes: int
    """Bytes of one number of the recurrent state (4: kept in float32)."""

    @property
    def conv_channels(self) -> int:
        """Channels that pass the short convolution: queries, keys and values."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts in the layers that have one."""

    count: int
    active: int
    width: int
    shared_width: int
    shared_gate: bool
    bias: bool
    layers: int
    """How many layers hold experts; the others have a plain feed-forward of the model's width."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """A decoder, with a vision tower and MTP heads where it has them. Widths in numbers, not bytes."""

    name: str
    model_type: str
    hidden: int
    ffn_width: int
    vocabulary: int
    tied_embeddings: bool
    attention: GroupedAttention | LatentAttention
    full_layers: int
    """Layers whose cache grows with the whole sequence."""
    window_layers: int
    """Layers whose cache stops growing at `window` tokens."""
    window: int
    linear_layers: int
    linear: LinearAttention | None
    experts: Experts | None
    norms_per_layer: int
    vision_parameters: int
    mtp_layers: int
    longest: int
    """The most tokens the model was made for (max_position_embeddings)."""
    weights: str
    """How the published weights are stored: bf16, fp8, mxfp4, awq, gptq, int8."""

    @property
    def layers(self) -> int:
        """Layers of the decoder, without MTP."""
        return self.full_layers + self.window_layers + self.linear_layers

    @property
    def dense_ffn_layers(self) -> int:
        """Layers with a plain feed-forward."""
        return self.layers - (self.experts.layers if self.experts else 0)

    @property
    def hybrid(self) -> bool:
        """Whether some layers keep a state instead of a cache."""
        return self.linear_layers > 0
