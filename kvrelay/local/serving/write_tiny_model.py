"""Writes a tiny random Qwen3 with its tokenizer; run by the serving environment's interpreter, offline.

Usage: python write_tiny_model.py FOLDER. The same file writes the same bytes: its hash names the cached model.
"""

# ruff: noqa: T201 - a script of its own, run where kvrelay is not installed
# mypy: disable-error-code="import-not-found,import-untyped"

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SEED = 20_480
LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FEED_FORWARD = 4, 256, 4, 2, 64, 768
VOCABULARY = 512
MAX_POSITIONS = 32_768
# Transformers' usual 0.02 would leave answers that hardly depend on the prompt: a parity check on them proves nothing.
WEIGHT_SCALE = 0.15
SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = """\
{%- if tools %}<|im_start|>system
Tools: {{ tools | tojson }}<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content or '' }}
{%- for call in message.tool_calls or [] %}
<tool_call>
{{ call.function | tojson }}
</tool_call>
{%- endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
CORPUS = [
    "Prefill reads the whole prompt at once and leaves its keys and values in the cache.",
    "Decode writes the answer one token after another, and reads that cache at every step.",
    "What is the capital of France? Please explain it in three short sentences.",
    "The quick brown fox jumps over the lazy dog while the relay hands over its baton.",
    '{"name": "get_weather", "arguments": {"city": "Paris", "unit": "celsius"}}',
    "Zero one two three four five six seven eight nine ten; 0 1 2 3 4 5 6 7 8 9.",
]


def write_tokenizer(folder: Path) -> list[str]:
    """Trains a byte-level BPE on CORPUS. Returns the vocabulary, by token id."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    write_json(
        folder / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": MAX_POSITIONS,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return sorted(vocabulary, key=vocabulary.__getitem__)


def write_config(folder: Path) -> None:
    write_json(
        folder / "config.json",
        {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "num_hidden_layers": LAYERS,
            "hidden_size": HIDDEN,
            "intermediate_size": FEED_FORWARD,
            "num_attention_heads": HEADS,
            "num_key_value_heads": KV_HEADS,
            "head_dim": HEAD_DIM,
            "vocab_size": VOCABULARY,
            "max_position_embeddings": MAX_POSITIONS,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_theta": 1_000_000.0,
            "attention_bias": False,
            "tie_word_embeddings": False,
            "torch_dtype": "float32",
            "bos_token_id": 0,
            "eos_token_id": 2,
        },
    )


def write_weights(folder: Path, vocabulary: list[str]) -> None:
    import numpy
    from safetensors.numpy import save_file

    random = numpy.random.Generator(numpy.random.PCG64(SEED))

    def matrix(rows: int, columns: int) -> Any:
        return (random.standard_normal((rows, columns)) * WEIGHT_SCALE).astype(numpy.float32)

    def ones(size: int) -> Any:
        return numpy.ones(size, dtype=numpy.float32)

    tensors = {
        "model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN),
        "lm_head.weight": matrix(VOCABULARY, HIDDEN),
        "model.norm.weight": ones(HIDDEN),
    }
    # A zero row gives the logit 0, which never wins: answers hold printable ASCII, and end at max_tokens.
    for token_id, token in enumerate(vocabulary):
        if token in SPECIAL_TOKENS or not token.replace("Ġ", " ").isascii():
            tensors["lm_head.weight"][token_id] = 0
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        tensors |= {
            prefix + "input_layernorm.weight": ones(HIDDEN),
            prefix + "post_attention_layernorm.weight": ones(HIDDEN),
            prefix + "self_attn.q_norm.weight": ones(HEAD_DIM),
            prefix + "self_attn.k_norm.weight": ones(HEAD_DIM),
            prefix + "self_attn.q_proj.weight": matrix(HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.k_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.v_proj.weight": matrix(KV_HEADS * HEAD_DIM, HIDDEN),
            prefix + "self_attn.o_proj.weight": matrix(HIDDEN, HEADS * HEAD_DIM),
            prefix + "mlp.gate_proj.weight": matrix(FEED_FORWARD, HIDDEN),
            prefix + "mlp.up_proj.weight": matrix(FEED_FORWARD, HIDDEN),
            prefix + "mlp.down_proj.weight": matrix(HIDDEN, FEED_FORWARD),
        }
    tensors["lm_head.weight"][len(vocabulary) :] = 0
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = write_tokenizer(folder)
    write_config(folder)
    write_weights(folder, vocabulary)
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(json.dumps({"bytes": size, "vocabulary": len(vocabulary)}))


if __name__ == "__main__":
    main()
