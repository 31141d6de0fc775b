"""Reads a Hugging Face config.json into a ModelShape, or says which field it lacks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvrelay.data.models import model
from kvrelay.planner.fields import Fields, ModelConfigError
from kvrelay.planner.shape import (
    Experts,
    GroupedAttention,
    LatentAttention,
    LinearAttention,
    ModelShape,
)
from kvrelay.planner.vision import vision_parameters

# Layouts that differ only in the fields that are read anyway.
_PLAIN = {"llama", "mistral", "ministral", "ministral3", "phi3", "qwen2", "qwen3", "qwen3_moe"}
_KNOWN = _PLAIN | {"gemma3_text", "gpt_oss", "deepseek_v3", "qwen3_5_text", "qwen3_5_moe_text"}
_FULL_WINDOW = 1 << 17
"""A window this long (phi-3) never binds: the layers count as full attention."""
_STORED_AS = {"fp8": "fp8", "mxfp4": "mxfp4", "awq": "awq", "gptq": "gptq", "compressed-tensors": "int8"}


def known_shape(id: str) -> ModelShape:
    """The shape of a model that kvrelay knows. Raises UnknownNameError with close ids."""
    return shape_of(model(id).config, id)


def read_shape(path: Path) -> ModelShape:
    """The shape from any config.json. Raises ModelConfigError, one line."""
    try:
        config = json.loads(path.read_bytes())
    except OSError as error:
        raise ModelConfigError(f"{path}: can't be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise ModelConfigError(f"{path}: is not JSON; name the config.json of a Hugging Face model") from None
    if not isinstance(config, dict):
        raise ModelConfigError(f"{path}: is not a JSON object; name the config.json of a Hugging Face model")
    return shape_of(config, str(path))


def shape_of(config: Mapping[str, Any], name: str) -> ModelShape:
    """The shape of a model from its config.json fields; `name` stands in messages."""
    outer = Fields(config, name)
    fields = outer.part("text_config") or outer
    model_type = fields.text("model_type")
    if model_type not in _KNOWN:
        raise ModelConfigError(
            f"{name}: model_type {model_type!r} is not one that the planner can size; "
            f"it knows {', '.join(sorted(_KNOWN))}"
        )
    layers = fields.positive("num_hidden_layers")
    full, windowed, linear = _layer_kinds(fields, model_type, layers)
    return ModelShape(
        name=name,
        model_type=model_type,
        hidden=fields.positive("hidden_size"),
        ffn_width=fields.number("intermediate_size", 0),
        vocabulary=fields.positive("vocab_size"),
        tied_embeddings=bool(fields.get("tie_word_embeddings", outer.get("tie_word_embeddings", False))),
        attention=_attention(fields, model_type),
        full_layers=full,
        window_layers=windowed,
        window=fields.number("sliding_window", 0) if windowed else 0,
        linear_layers=linear,
        linear=_linear(fields) if linear else None,
        experts=_experts(fields, model_type, layers),
        norms_per_layer=4 if model_type == "gemma3_text" else 2,
        vision_parameters=vision_parameters(outer, fields.positive("hidden_size")),
        mtp_layers=fields.number("mtp_num_hidden_layers", fields.number("num_nextn_predict_layers", 0)),
        longest=fields.positive("max_position_embeddings"),
        weights=_stored_as(outer, name),
    )


def _layer_kinds(fields: Fields, model_type: str, layers: int) -> tuple[int, int, int]:
    """How many layers attend fully, within a window, or keep a state."""
    kinds = fields.get("layer_types")
    if isinstance(kinds, list) and kinds:
        windowed, linear = kinds.count("sliding_attention"), kinds.count("linear_attention")
        return len(kinds) - windowed - linear, windowed, linear
    if model_type.startswith("qwen3_5"):
        full = layers // fields.positive("full_attention_interval", 4)
        return full, 0, layers - full
    window = fields.number("sliding_window", 0)
    if not window or window > _FULL_WINDOW or fields.get("use_sliding_window") is False:
        return layers, 0, 0
    if model_type in {"gemma3_text", "gpt_oss"}:
        full = layers // fields.positive("sliding_window_pattern", 6 if model_type == "gemma3_text" else 2)
        return full, layers - full, 0
    return 0, layers, 0


def _attention(fields: Fields, model_type: str) -> GroupedAttention | LatentAttention:
    heads = fields.positive("num_attention_heads")
    if model_type == "deepseek_v3":
        return LatentAttention(
            heads=heads,
            query_rank=fields.positive("q_lora_rank"),
            kv_rank=fields.positive("kv_lora_rank"),
            nope_dim=fields.positive("qk_nope_head_dim"),
            rope_dim=fields.positive("qk_rope_head_dim"),
            value_dim=fields.positive("v_head_dim"),
        )
    return GroupedAttention(
        heads=heads,
        kv_heads=fields.positive("num_key_value_heads", heads),
        head_dim=fields.positive("head_dim", fields.positive("hidden_size") // heads),
        output_gate=model_type.startswith("qwen3_5") and bool(fields.get("attn_output_gate", True)),
        bias=model_type == "gpt_oss",
        head_norms=model_type.startswith(("qwen3", "gemma3")),
    )


def _linear(fields: Fields) -> LinearAttention:
    return LinearAttention(
        key_heads=fields.positive("linear_num_key_heads"),
        value_heads=fields.positive("linear_num_value_heads"),
        key_dim=fields.positive("linear_key_head_dim"),
        value_dim=fields.positive("linear_value_head_dim"),
        conv_kernel=fields.positive("linear_conv_kernel_dim", 4),
        state_bytes=2 if fields.get("mamba_ssm_dtype") in ("bfloat16", "float16") else 4,
    )


def _experts(fields: Fields, model_type: str, layers: int) -> Experts | None:
    count = fields.number(
        "num_experts", fields.number("num_local_experts", fields.number("n_routed_experts", 0))
    )
    if not count:
        return None
    width = fields.positive(
        "moe_intermediate_size", fields.number("intermediate_size") if model_type == "gpt_oss" else None
    )
    return Experts(
        count=count,
        active=fields.positive("num_experts_per_tok"),
        width=width,
        shared_width=fields.number(
            "shared_expert_intermediate_size", fields.number("n_shared_experts", 0) * width
        ),
        shared_gate=model_type.startswith("qwen3_5"),
        bias=model_type == "gpt_oss",
        layers=layers - fields.number("first_k_dense_replace", 0),
    )


def _stored_as(outer: Fields, name: str) -> str:
    quantization = outer.get("quantization_config")
    if not isinstance(quantization, Mapping):
        return "bf16"
    method = quantization.get("quant_method")
    if not isinstance(method, str) or method not in _STORED_AS:
        raise ModelConfigError(
            f"{name}: quantization_config.quant_method {method!r} is not one that the planner can size; "
            f"it knows {', '.join(_STORED_AS)}"
        )
    return _STORED_AS[method]
