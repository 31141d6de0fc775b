"""Writes a model with the shape of a real one and seeded random weights whose answers depend on the whole prompt.

Names and shapes of the weights come from transformers itself, on its meta device. The tokenizer is made on the spot.
Scales, since vLLM's own dummy weights are so small that an answer ignores its context: matrices keep the length of
what they map (2 / sqrt(inputs)), and queries are long enough for attention to settle on few tokens.
"""

# mypy: disable-error-code="import-not-found,import-untyped,no-any-unimported"

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kvrelay.data.models import model
from kvrelay.local.serving import write_tiny_model
from kvrelay.ops.proof import KvGeometry
from kvrelay.ops.verify_cluster.geometry import PlannedGeometry
from kvrelay.planner.cache import cache_shape
from kvrelay.planner.model_config import shape_of

SEED = 20_480
GAIN = 2.0
QUERY_NORM = 4.0
_SHARD_BYTES = 4_000_000_000
SMALL_HYBRID_BLOCK = 256
"""Tokens a block that vLLM 0.26 makes for the small hybrid on a CPU: its log says so, and the bytes moved agree."""
_BYTES = {"bfloat16": 2, "float32": 4}


@dataclass(frozen=True, slots=True)
class Shape:
    """A model's dimensions: `text` is the part of its config that says them, with fewer layers where wanted."""

    name: str
    text: Mapping[str, Any]
    dtype: str = "bfloat16"

    @classmethod
    def of(cls, name: str, layers: int | None = None, dtype: str = "bfloat16") -> Shape:
        """The shape of a model that kvrelay describes, such as Qwen/Qwen3-8B. Raises UnknownNameError."""
        config = model(name).config
        text = dict(config.get("text_config", config))
        if layers is not None:
            text["num_hidden_layers"] = layers
        return cls(name, text, dtype)

    @classmethod
    def tiny(cls, dtype: str = "float32") -> Shape:
        """The shape of the tiny model of `kvrelay local serve`."""
        text = {
            "model_type": "qwen3",
            "hidden_size": write_tiny_model.HIDDEN,
            "intermediate_size": write_tiny_model.FEED_FORWARD,
            "num_hidden_layers": write_tiny_model.LAYERS,
            "num_attention_heads": write_tiny_model.HEADS,
            "num_key_value_heads": write_tiny_model.KV_HEADS,
            "head_dim": write_tiny_model.HEAD_DIM,
            "vocab_size": write_tiny_model.VOCABULARY,
            "max_position_embeddings": write_tiny_model.MAX_POSITIONS,
        }
        return cls("tiny", text, dtype)

    @classmethod
    def part_of_hybrid(cls) -> Shape:
        """Qwen3.5-9B with 8 of its 32 layers: gated delta nets, and full attention in every fourth."""
        return cls.of("Qwen/Qwen3.5-9B", 8)

    @classmethod
    def small_hybrid(cls) -> Shape:
        """The same kinds of layers for a CPU, whose kernels of gated delta nets take bfloat16 alone."""
        sizes = {"hidden_size": 256, "intermediate_size": 512, "vocab_size": 1024, "num_attention_heads": 4}
        sizes |= {"num_key_value_heads": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
        return cls("small hybrid", {**cls.part_of_hybrid().text, **sizes}, "bfloat16")

    @property
    def hybrid(self) -> bool:
        return "full_attention_interval" in self.text

    @property
    def attention_layers(self) -> int:
        """Layers whose cache grows with the prompt."""
        return int(self.text["num_hidden_layers"]) // int(self.text.get("full_attention_interval", 1))

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of KV cache a token; a hybrid model's states, which do not grow, come on top."""
        heads = int(self.text["num_key_value_heads"]) * int(self.text["head_dim"])
        return 2 * self.attention_layers * heads * _BYTES[self.dtype]

    def geometry(self, block_size: int) -> KvGeometry:
        """What travels of a prompt's cache; a hybrid model's blocks are larger than `block_size` asks for."""
        if not self.hybrid:
            return KvGeometry(self.kv_bytes_per_token, block_size)
        return PlannedGeometry.of(cache_shape(shape_of(self.config(), self.name), block=block_size))

    def config(self) -> dict[str, Any]:
        """The model's config.json."""
        text = dict(self.text) | {"dtype": self.dtype, "tie_word_embeddings": False, "rms_norm_eps": 1e-6}
        if not self.hybrid:
            names = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "torch_dtype": self.dtype}
            rest = {"hidden_act": "silu", "rope_theta": 1e6, "attention_bias": False}
            return names | text | rest | {"bos_token_id": 0, "eos_token_id": 2}
        text |= {"model_type": "qwen3_5_text", "mtp_num_hidden_layers": 0, "eos_token_id": 2}
        rope = {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25}
        text["rope_parameters"] = rope | {"mrope_interleaved": True, "mrope_section": [11, 11, 10]}
        # Not served (language_model_only), so as small as it may be.
        vision = {
            "model_type": "qwen3_5",
            "depth": 1,
            "hidden_size": 64,
            "intermediate_size": 64,
            "num_heads": 1,
        }
        vision |= {"out_hidden_size": text["hidden_size"], "patch_size": 16, "spatial_merge_size": 2}
        return {
            "architectures": ["Qwen3_5ForConditionalGeneration"],
            "model_type": "qwen3_5",
            "torch_dtype": self.dtype,
            "tie_word_embeddings": False,
            "text_config": text,
            "vision_config": vision
            | {"temporal_patch_size": 2, "num_position_embeddings": 64, "in_channels": 3},
            "image_token_id": 3,
            "video_token_id": 4,
            "vision_start_token_id": 5,
            "vision_end_token_id": 6,
        }


def write_model(shape: Shape, folder: Path, device: str) -> int:
    """Writes config, tokenizer and weights. `device` (cuda, cpu) draws the numbers. Returns bytes of weights."""
    import torch
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tiny_model.write_tokenizer(folder)
    write_tiny_model.write_json(folder / "config.json", shape.config())
    if shape.hybrid:
        _write_processor(folder)
    silent = _silent_rows(vocabulary)
    generator = torch.Generator(device).manual_seed(SEED)
    shard: dict[str, Any] = {}
    index: dict[str, str] = {}
    total = held = number = 0

    def flush() -> None:
        nonlocal shard, held, number
        name = f"model-{number:05}.safetensors"
        save_file(shard, folder / name, metadata={"format": "pt"})
        index.update(dict.fromkeys(shard, name))
        shard, held, number = {}, 0, number + 1

    for name, size in weights(shape):
        tensor = _drawn(name, size, generator, device)
        if name.endswith("lm_head.weight"):
            # A zero row gives the logit 0, which never wins: answers hold printable tokens.
            tensor[silent] = 0
            tensor[len(vocabulary) :] = 0
        shard[name] = tensor.to(getattr(torch, shape.dtype)).cpu().contiguous()
        bytes_ = shard[name].numel() * shard[name].element_size()
        total, held = total + bytes_, held + bytes_
        if held > _SHARD_BYTES:
            flush()
    flush()
    write_tiny_model.write_json(
        folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": index}
    )
    return total


def weights(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and sizes of the text model's weights, as transformers saves them."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = shape.config()
    settings = settings.get("text_config", settings)
    config = AutoConfig.for_model(**settings)
    with torch.device("meta"):
        made = AutoModelForCausalLM.from_config(config)
    for name, tensor in made.state_dict().items():
        # Qwen3.5's checkpoints hold the text model one level deeper, beside the vision tower.
        inside = shape.hybrid and name.startswith("model.")
        yield (name.replace("model.", "model.language_model.", 1) if inside else name), tuple(tensor.shape)


def _drawn(name: str, size: tuple[int, ...], generator: Any, device: str) -> Any:
    import torch

    if name.endswith("A_log"):
        # Decay rates of a gated delta net: exp of this, from 1 to 16.
        return torch.empty(size, device=device).uniform_(1, 16, generator=generator).log()
    if name.endswith("dt_bias"):
        return torch.full(size, -2.0, device=device)
    if len(size) == 1:
        return _norm(name, size, device)
    inputs = math.prod(size[1:])
    scale = 1.0 if "embed_tokens" in name else GAIN / math.sqrt(inputs)
    return torch.randn(size, generator=generator, device=device) * scale


def _norm(name: str, size: tuple[int, ...], device: str) -> Any:
    """Weights of a normalization. Qwen3.5's (all but the gated one) multiply by 1 + weight, others by weight."""
    import torch

    around_zero = "language_model" in name and "linear_attn.norm" not in name
    wanted = QUERY_NORM if name.endswith("q_norm.weight") else 1.0
    return torch.full(size, wanted - 1 if around_zero else wanted, device=device)


def _silent_rows(vocabulary: list[str]) -> list[int]:
    return [
        token_id
        for token_id, token in enumerate(vocabulary)
        if token in write_tiny_model.SPECIAL_TOKENS or not token.replace("Ġ", " ").isascii()
    ]


def _write_processor(folder: Path) -> None:
    """What vLLM looks up of a model that could see, before it is told that this one does not."""
    pixels = {"shortest_edge": 65_536, "longest_edge": 16_777_216}
    common = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2, "size": pixels}
    image = common | {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
    }
    video = common | {"video_processor_type": "Qwen3VLVideoProcessor", "processor_class": "Qwen3VLProcessor"}
    write_tiny_model.write_json(folder / "preprocessor_config.json", image)
    write_tiny_model.write_json(folder / "video_preprocessor_config.json", video)
    tokens = folder / "tokenizer_config.json"
    named = ("image", "video", "vision_bos", "vision_eos")
    texts = ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")
    extra = {f"{name}_token": text for name, text in zip(named, texts, strict=True)}
    write_tiny_model.write_json(tokens, json.loads(tokens.read_text()) | extra)
