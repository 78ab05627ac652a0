"""The settings of a GGUF file as the config.json of the family that it belongs to.

GGUF leaves out what llama.cpp, for which it is made, has in its code; the families' defaults are the same.
"""

import math
from typing import Any

import torch

from clearhead.families.gguf_file import GgufFile
from clearhead.families.known import FAMILIES

KINDS = {  # general.architecture: model_type
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
}
KEYS = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.sliding_window": "sliding_window",
    "attention.sliding_window_pattern": "sliding_window_pattern",
    "rope.freq_base": "rope_theta",
    "rope.freq_base_swa": "rope_local_base_freq",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
FRACTIONS = {  # the other numbers are whole
    "attention.layer_norm_rms_epsilon",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scaling.factor",
    "attn_logit_softcapping",
    "final_logit_softcapping",
}
IDLE = ("vocab_size", "tensor_data_layout")  # the table says the first, and nobody reads the second
NEEDED = ("embedding_length", "block_count", "feed_forward_length", "attention.head_count")
ENDS = ("eos", "eot", "eom")
FREQUENCIES = "rope_freqs.weight"
LARGEST = {"gemma2": 46, "gemma3": 62}  # layers of the 27B models, which scale scores by the width over the heads


def content_of(file: GgufFile) -> dict[str, Any]:
    """What config.json would say. A setting of the architecture that has no translation keeps its name, so that the
    family refuses it. Raises ValueError for an unknown architecture and for a missing setting.
    """
    name = file.settings.get("general.architecture")
    if name not in KINDS:
        raise ValueError(f"{file.path} has the architecture {name!r}; known in GGUF files are {', '.join(KINDS)}")
    left = {key.removeprefix(f"{name}."): v for key, v in file.settings.items() if key.startswith(f"{name}.")}
    _check(file, left)
    content = {ours: left.pop(key) for key, ours in KEYS.items() if key in left}
    width: int = content.get("head_dim", content["hidden_size"] // content["num_attention_heads"])
    for key in ("attention.value_length", "rope.dimension_count"):
        if (found := left.pop(key, width)) != width:
            raise ValueError(f"{file.path}: {key} is {found}, not the width of a head, {width}; that cannot be run")
    return {
        **content,
        "model_type": KINDS[name],
        "architectures": [next(iter(FAMILIES[KINDS[name]].architectures))],
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "tie_word_embeddings": "output.weight" not in file.tensors,
        **_scaling(file, left, width, content.get("rope_theta", 10000.0)),
        **_biases(file, name),
        **_scale(name, content),
        **_ids(file),
        **{f"{name}.{key}": str(value) for key, value in left.items() if key not in IDLE},
    }


def _check(file: GgufFile, given: dict[str, Any]) -> None:
    """ValueError unless what is needed is there, and a number is one number, the same for all layers."""
    for key in [*KEYS, "rope.scaling.factor", "rope.scaling.original_context_length"]:
        value, kinds = given.get(key, 0), int | float if key in FRACTIONS else int
        if not isinstance(value, kinds) or not (key in NEEDED) <= value < 2**31:
            raise ValueError(f"{file.path}: {key} is {value!r}; one number for all layers is needed")
    if "token_embd.weight" not in file.tensors:
        raise ValueError(f"{file.path} has no token_embd.weight; is it a language model?")
    if not any(name.startswith(f"blk.{given['block_count'] - 1}.") for name in file.tensors):
        raise ValueError(f"{file.path} is damaged: block_count is {given['block_count']}, but there are fewer layers")


def _scaling(file: GgufFile, left: dict[str, Any], width: int, theta: float) -> dict[str, Any]:
    """How rotary positions are scaled for long texts: by settings, or by a factor for each frequency."""
    if FREQUENCIES in file.tensors:
        return {"rope_scaling": _bands(file, width, theta)}
    left.pop("rope.scaling.finetuned", None)
    name, factor = left.pop("rope.scaling.type", "none"), left.pop("rope.scaling.factor", 1.0)
    length = left.pop("rope.scaling.original_context_length", None)
    if name == "none" or factor in (0.0, 1.0):
        return {}
    betas = {key: left.pop(f"rope.scaling.yarn_{key}", None) for key in ("beta_fast", "beta_slow")}
    known = {"rope_type": name, "factor": factor, "original_max_position_embeddings": length, **betas}
    return {"rope_scaling": {key: value for key, value in known.items() if value is not None}}


def _bands(file: GgufFile, width: int, theta: float) -> dict[str, Any]:
    """Llama 3's settings, found again from the factors that they lead to; 1 and 4 are those of every release.

    Between the bands 1 / factor is s + (1 - s) / largest, where s = (length / wavelength - 1) / 3.
    """
    given = file.read(FREQUENCIES).double().flatten()
    if 2 * len(given) != width:
        raise ValueError(
            f"{file.path}: {FREQUENCIES} has {len(given)} numbers; a head of {width} turns {width // 2} pairs"
        )
    largest = float(given.max())
    waves = 2 * math.pi * theta ** (torch.arange(0, width, 2).double() / width)
    inside = (given > 1 + 1e-4) & (given < largest * (1 - 1e-4))

    def lengths() -> torch.Tensor:
        share = (1 / given - 1 / largest) / (1 - 1 / largest)
        return waves[inside] * (1 + 3 * share[inside])

    def factors(length: float) -> torch.Tensor:
        share = ((length / waves - 1) / 3).clamp(0, 1)
        return 1 / (share + (1 - share) / largest)

    length = float(lengths().mean().round()) if inside.any() else float(waves[given == largest][0])
    if largest <= 1 or not torch.allclose(factors(length), given, rtol=1e-3):
        raise ValueError(f"{file.path}: {FREQUENCIES} are not the factors of a scaling that is known")
    names = {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": int(length)}
    return {"rope_type": "llama3", "factor": float(round(largest, 4)), **names}


def _biases(file: GgufFile, name: str) -> dict[str, Any]:
    """Qwen2 has its biases always and Gemma never; the others say so by having them."""
    parts = {"llama": ("attn_q", "ffn_up"), "qwen3": ("attn_q",)}.get(name, ())
    keys = {"attn_q": "attention_bias", "ffn_up": "mlp_bias"}
    return {keys[part]: f"blk.0.{part}.bias" in file.tensors for part in parts}


def _scale(name: str, content: dict[str, Any]) -> dict[str, Any]:
    """Of the scores of Gemma 2 and 3."""
    if name not in LARGEST:
        return {}
    per_head = content["hidden_size"] // content["num_attention_heads"]
    width = content.get("head_dim", per_head)
    return {"query_pre_attn_scalar": per_head if content["num_hidden_layers"] == LARGEST[name] else width}


def _ids(file: GgufFile) -> dict[str, Any]:
    """Special tokens. Of the several that end a text or a turn, all end a text here."""
    said = {kind: file.settings.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("padding", "bos", *ENDS)}
    found = {kind: i if isinstance(i, int) else None for kind, i in said.items()}
    ends = list(dict.fromkeys(found[kind] for kind in ENDS if found[kind] is not None))
    named = {"pad_token_id": found["padding"], "bos_token_id": found["bos"]}
    return {key: i for key, i in named.items() if i is not None} | (
        {} if not ends else {"eos_token_id": ends if len(ends) > 1 else ends[0]}
    )
