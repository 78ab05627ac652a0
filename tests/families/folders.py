"""Folders of tiny models in their home libraries' format, and ways to change them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import clearhead
from clearhead.config import TransformerConfig
from clearhead.families.family import Settings
from clearhead.families.known import family_of
from truth.cases import text


def edit(folder: Path, drop: tuple[str, ...] = (), **changes: Any) -> None:
    file = folder / "config.json"
    content = {**json.loads(file.read_text()), **changes}
    file.write_text(json.dumps({key: value for key, value in content.items() if key not in drop}))


def rename(folder: Path, change: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, metadata={"format": "pt"})


def logits(folder: Path) -> Tensor:
    with torch.no_grad():
        return clearhead.load(folder)(text(2, 9)).logits


def config_of(content: dict[str, Any]) -> TransformerConfig:
    family, task = family_of(content)
    return family.config(Settings(content, task, frozenset()))


def said(config: TransformerConfig) -> dict[str, Any]:
    """As plain data, with the width of heads in numbers, which some files leave to be worked out."""
    plain = config.to_dict()
    forms = [run["layer"]["self_attention"] for name in config.stacks for run in plain[name]["layers"]]
    for form in forms:
        form["head_dim"] = form["head_dim"] or config.dim // form["heads"]
    return plain
