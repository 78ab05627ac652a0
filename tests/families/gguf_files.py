"""Tiny models of transformers as GGUF files, written as llama.cpp's converter writes them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from torch import Tensor

from truth.homes import rotary_sizes

WIDE = {"hidden_size": 64, "intermediate_size": 96, "head_dim": 32, "num_attention_heads": 4, "vocab_size": 41}
PARTS = {
    "input_layernorm": "attn_norm",
    "self_attn.o_proj": "attn_output",
    **{f"self_attn.{part}_proj": f"attn_{part}" for part in "qkv"},
    **{f"self_attn.{part}_norm": f"attn_{part}_norm" for part in "qk"},
    **{f"mlp.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")},
    "post_attention_layernorm": "ffn_norm",
}
SANDWICH = {
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def sizes(**changes: Any) -> dict[str, Any]:
    """Of rows that a packing in blocks of 32 can hold."""
    return rotary_sizes(**{**WIDE, **changes})


def write(path: Path, home: Any, arch: str, kind: Kind = Kind.F32, **more: Any) -> Any:
    """The model as `path`; gives the model with the weights that are in the file now. more: further settings."""
    writer = gguf.GGUFWriter(path, arch)
    c = home.config
    numbers = {
        "block_count": c.num_hidden_layers,
        "context_length": c.max_position_embeddings,
        "embedding_length": c.hidden_size,
        "feed_forward_length": c.intermediate_size,
        "attention.head_count": c.num_attention_heads,
        "attention.head_count_kv": c.num_key_value_heads,
    }
    if getattr(c, "head_dim", None):
        numbers |= {"attention.key_length": c.head_dim, "attention.value_length": c.head_dim}
    for key, value in numbers.items():
        writer.add_uint32(f"{arch}.{key}", value)
    writer.add_float32(f"{arch}.attention.layer_norm_rms_epsilon", c.rms_norm_eps)
    writer.add_float32(f"{arch}.rope.freq_base", full(c)["rope_theta"])
    for name in ("bos", "eos"):
        writer.add_uint32(f"tokenizer.ggml.{name}_token_id", getattr(c, f"{name}_token_id"))
    writer.add_uint32("tokenizer.ggml.padding_token_id", c.pad_token_id)
    add(writer, **{f"{arch}.{key}": value for key, value in more.items()})
    if full(c)["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", bands(c))
    weights = dict(home.state_dict())
    if c.tie_word_embeddings:
        weights.pop("lm_head.weight", None)
    parts = PARTS | (SANDWICH if any("pre_feedforward" in name for name in weights) else {})
    for name, value in weights.items():
        weights[name] = put(writer, renamed(name, parts), value, arch, kind, c)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    home.load_state_dict(weights, strict=False)
    return home.eval()


def add(writer: gguf.GGUFWriter, **settings: Any) -> None:
    """Settings by the type of their values."""
    for key, value in settings.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        elif isinstance(value, bool):
            writer.add_bool(key, value)
        elif isinstance(value, list):
            writer.add_array(key, value)
        else:
            (writer.add_uint32 if isinstance(value, int) else writer.add_float32)(key, value)


def put(writer: gguf.GGUFWriter, name: str, value: Tensor, arch: str, kind: Kind, c: Any) -> Tensor:
    """One tensor as llama.cpp wants it; gives what comes back when that is undone."""
    data = value.float().numpy()
    gain = arch.startswith("gemma") and name.endswith("norm.weight")
    count = {"attn_q": c.num_attention_heads, "attn_k": c.num_key_value_heads}.get(name.split(".")[-2])
    pairs = arch == "llama" and count is not None
    if pairs:
        data = data.reshape(count, 2, -1, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)
    used = kind if data.ndim == 2 else Kind.F32
    packed = gguf.quants.quantize(data + 1 if gain else data, used)
    writer.add_tensor(name, packed, raw_dtype=used)
    back = gguf.quants.dequantize(packed, used) - gain
    if pairs:
        back = back.reshape(count, -1, 2, *data.shape[1:]).swapaxes(1, 2).reshape(data.shape)
    return torch.from_numpy(np.array(back)).to(value.dtype)


def renamed(name: str, parts: dict[str, str]) -> str:
    stem, leaf = name.rsplit(".", 1)
    if stem in TOP:
        return f"{TOP[stem]}.{leaf}"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{parts[part]}.{leaf}"


def full(config: Any) -> dict[str, Any]:
    """The rotary settings of the layers that see everything."""
    given = config.rope_parameters
    return given.get("full_attention", given)


def bands(config: Any) -> Any:
    """What the frequencies are divided by, as stored in place of Llama 3's settings."""
    r, width = config.rope_parameters, config.head_dim
    waves = 2 * math.pi * r["rope_theta"] ** (torch.arange(0, width, 2) / width)
    low, high, length = r["low_freq_factor"], r["high_freq_factor"], r["original_max_position_embeddings"]
    smooth = ((length / waves - low) / (high - low)).clamp(0, 1)
    return (1 / ((1 - smooth) / r["factor"] + smooth)).float().numpy()
