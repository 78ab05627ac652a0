"""Whisper as CTranslate2 stores it (binary version 6): name, shape, type and bytes of each variable."""

import re
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

TYPES = {0: np.float32, 1: np.int8, 2: np.int16, 4: np.float16}
# Theirs to the home library's, in this order. Projections of one input are one matrix; keys got biases of zeros.
NAMES = {
    r"^(encoder|decoder)/": r"model.\1.",
    "position_encodings/encodings": "embed_positions/weight",
    "embeddings/weight": "embed_tokens/weight",
    r"layer_(\d+)/": r"layers.\1.",
    "self_attention/layer_norm": "self_attn_layer_norm",
    r"\.attention/layer_norm": ".encoder_attn_layer_norm",
    "ffn/layer_norm": "final_layer_norm",
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
    "self_attention/linear_0": "self_attn.*/q_proj,k_proj,v_proj",
    "self_attention/linear_1": "self_attn.out_proj",
    r"\.attention/linear_0": ".encoder_attn.q_proj",
    r"\.attention/linear_1": ".encoder_attn.*/k_proj,v_proj",
    r"\.attention/linear_2": ".encoder_attn.out_proj",
    "gamma$": "weight",
    "beta$": "bias",
}


def variables(file: BytesIO) -> dict[str, Tensor]:
    def number(size: int = 4) -> int:
        return int.from_bytes(file.read(size), "little")

    def name() -> str:
        return file.read(number(2)).rstrip(b"\0").decode()

    assert (number(), name(), number()) == (6, "WhisperSpec", 3)
    found: dict[str, Tensor] = {}
    for _ in range(number()):
        key, shape, kind = name(), [number() for _ in range(number(1))], TYPES[number(1)]
        found[key] = torch.from_numpy(np.frombuffer(file.read(number()), kind).reshape(shape).copy())
    return found


def write(model: Path, folder: Path) -> None:
    """The weights in the home library's format."""
    tensors: dict[str, Tensor] = {}
    for key, value in variables(BytesIO((model / "model.bin").read_bytes())).items():
        for old, new in NAMES.items():
            key = re.sub(old, new, key)
        place, _, leaf = key.rpartition("/")
        place, _, names = place.rpartition("*/")
        for name, part in zip(names.split(","), value.chunk(names.count(",") + 1) if value.dim() else (), strict=False):
            tensors[f"{place}{name}.{leaf}".replace("/", ".")] = part.float().contiguous()
    tensors = {name: value for name, value in tensors.items() if not name.endswith("k_proj.bias")}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
