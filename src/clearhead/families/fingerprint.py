"""What a converted model answers to fixed ids, kept beside it: so that a later change of folder or program shows."""

import hashlib
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.config import Stack, TransformerConfig
from clearhead.families.load import load
from clearhead.families.store import read_json, write_json
from clearhead.model.transformer import Transformer

FILE = "clearhead.json"
TOKENS, COLUMNS = 24, 16


def probe(config: TransformerConfig, tokens: int = TOKENS) -> dict[str, Tensor]:
    """What a model of this config is asked: fixed ids [1, T] for every stack, none of them padding, or fixed sound.

    Fewer than `tokens` where a position table ends before.
    """
    made: dict[str, Tensor] = {}
    for name, stack in config.stacks.items():
        second = name == "decoder" and config.encoder is not None
        if second and config.reads_twice:
            continue
        if stack.audio is not None:
            made["input_features"] = _sound(stack.audio.bins, 2 * _most(stack, 1500))
        else:
            made["decoder_input_ids" if second else "input_ids"] = _ids(
                stack, min(tokens, _most(stack, tokens)), config
            )
    if getattr(config.head, "pool", None) == "eos":
        made["input_ids"][:, -1] = config.eos_ids[0]
    return made


def answers(model: Transformer) -> Tensor:
    """The logits (or hidden states) for the probe, in every so manieth column. [T, C] float32."""
    with torch.no_grad():
        out = model(**probe(model.config))
    found = next((value for value in (out.logits, out.embedding, out.hidden) if value is not None), None)
    assert found is not None
    columns = torch.arange(COLUMNS) * found.shape[-1] // COLUMNS
    return found.flatten(0, -2)[:, columns].float()


def write_fingerprint(folder: Path) -> None:
    """Load the model in `folder` in float32, and write clearhead.json with what it answers."""
    from clearhead import __version__

    model = load(folder, dtype=torch.float32)
    said = {"clearhead": __version__, "weights": checksums(folder), "config": model.config.to_dict()}
    write_json(folder / FILE, {**said, "answers": answers(model).tolist()})


def read_fingerprint(folder: Path) -> dict[str, Any] | None:
    """What was written; None if nothing was. Raises ValueError for a file that is damaged."""
    if not (folder / FILE).exists():
        return None
    said = read_json(folder / FILE)
    if not {"clearhead", "weights", "config", "answers"} <= set(said):
        raise ValueError(f"{folder / FILE} is no fingerprint of a model; convert it again")
    return said


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256 of each file of weights."""
    found: dict[str, str] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _most(stack: Stack, otherwise: int) -> int:
    return otherwise if stack.positions is None or stack.positions.count is None else stack.positions.count


def _ids(stack: Stack, count: int, config: TransformerConfig) -> Tensor:
    ids = (torch.arange(count) * 7919 + 5).remainder(stack.vocab)
    return torch.where(ids.eq(-1 if config.pad is None else config.pad), (ids + 1).remainder(stack.vocab), ids)[None]


def _sound(bins: int, frames: int) -> Tensor:
    return torch.sin(torch.arange(bins * frames) / math.e).reshape(1, bins, frames)
