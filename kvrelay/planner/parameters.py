"""Counts a model's parameters by the part that holds them, exactly as its layers are laid out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from kvrelay.planner.shape import Experts, GroupedAttention, LatentAttention, LinearAttention, ModelShape


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters by part, of the whole model (all layers). Units: numbers."""

    embedding: int
    head: int
    """0 where the head shares the embedding."""
    attention: int
    linear_attention: int
    ffn: int
    """Plain and shared feed-forwards, which every token passes."""
    experts: int
    routers: int
    small: int
    """Norms, biases, sinks, convolutions: kept in the model's own precision and on every GPU."""
    vision: int
    mtp: int

    @property
    def text(self) -> int:
        """The language model: without vision tower and MTP head."""
        return (
            self.embedding
            + self.head
            + self.attention
            + self.linear_attention
            + self.ffn
            + self.experts
            + self.routers
            + self.small
        )

    @property
    def total(self) -> int:
        """Everything, the MTP head included."""
        return self.text + self.vision + self.mtp


@cache
def count(shape: ModelShape) -> Parameters:
    """The parameters of a model."""
    attention, attention_small = _attention(shape.attention, shape.hidden)
    attending = shape.full_layers + shape.window_layers
    linear, linear_small = _linear(shape.linear, shape.hidden) if shape.linear else (0, 0)
    experts, shared, routers, expert_small = _experts(shape.experts, shape.hidden)
    expert_layers = shape.experts.layers if shape.experts else 0
    embedding = shape.vocabulary * shape.hidden
    small = (
        attending * attention_small
        + shape.linear_layers * linear_small
        + expert_layers * expert_small
        + shape.layers * shape.norms_per_layer * shape.hidden
        + shape.hidden
    )
    return Parameters(
        embedding=embedding,
        head=0 if shape.tied_embeddings else embedding,
        attention=attending * attention,
        linear_attention=shape.linear_layers * linear,
        ffn=shape.dense_ffn_layers * 3 * shape.hidden * shape.ffn_width + expert_layers * shared,
        experts=expert_layers * experts,
        routers=expert_layers * routers,
        small=small,
        vision=shape.vision_parameters,
        mtp=shape.mtp_layers
        * _mtp(shape, attention + attention_small, experts + shared + routers + expert_small),
    )


@cache
def active(shape: ModelShape) -> int:
    """Parameters that multiply each token: the experts chosen for it, no embedding table."""
    parts = count(shape)
    chosen = parts.experts * shape.experts.active // shape.experts.count if shape.experts else 0
    head = shape.vocabulary * shape.hidden
    return parts.attention + parts.linear_attention + parts.ffn + parts.routers + chosen + head


def _attention(attention: GroupedAttention | LatentAttention, hidden: int) -> tuple[int, int]:
    """One layer's matrices, and its small parameters."""
    if isinstance(attention, LatentAttention):
        per_head = attention.nope_dim + attention.rope_dim
        matrices = (
            hidden * attention.query_rank
            + attention.query_rank * attention.heads * per_head
            + hidden * (attention.kv_rank + attention.rope_dim)
            + attention.kv_rank * attention.heads * (attention.nope_dim + attention.value_dim)
            + attention.heads * attention.value_dim * hidden
        )
        return matrices, attention.query_rank + attention.kv_rank
    queries = attention.heads * attention.head_dim
    keys = attention.kv_heads * attention.head_dim
    matrices = hidden * (queries * (2 if attention.output_gate else 1) + 2 * keys) + queries * hidden
    small = 2 * attention.head_dim if attention.head_norms else 0
    if attention.bias:
        small += queries + 2 * keys + hidden + attention.heads
    return matrices, small


def _linear(linear: LinearAttention, hidden: int) -> tuple[int, int]:
    values = linear.value_heads * linear.value_dim
    matrices = hidden * (linear.conv_channels + values + 2 * linear.value_heads) + values * hidden
    small = linear.conv_channels * linear.conv_kernel + 2 * linear.value_heads + linear.value_dim
    return matrices, small


def _experts(experts: Experts | None, hidden: int) -> tuple[int, int, int, int]:
    """One layer's experts, shared expert, router and small parameters."""
    if experts is None:
        return 0, 0, 0, 0
    routed = experts.count * 3 * hidden * experts.width
    shared = 3 * hidden * experts.shared_width
    small = hidden if experts.shared_gate else 0
    if experts.bias:
        small += experts.count * (2 * experts.width + hidden + 1)
    return routed, shared, hidden * experts.count, small


def _mtp(shape: ModelShape, attention: int, experts: int) -> int:
    """One head: a layer of the model's own kind behind a projection of two joined states."""
    ffn = experts if shape.experts else 3 * shape.hidden * shape.ffn_width
    norms = (shape.norms_per_layer + 3) * shape.hidden
    return attention + ffn + 2 * shape.hidden * shape.hidden + norms
