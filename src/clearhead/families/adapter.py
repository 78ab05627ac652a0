"""Low-rank adapters (LoRA; Hu et al. 2021) in folders as the peft library writes them.

adapter_config.json says how strong they are, adapter_model.safetensors holds lora_A [rank, inputs] and lora_B [outputs,
rank] of each module of the home library. A module that holds several of our matrices, such as q, k and v in one, has
one adapter for all: the ranks add up, and every matrix has columns of its own. Nothing is lost on the way.
"""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from clearhead.config import Head, TransformerConfig
from clearhead.families.family import LANGUAGE
from clearhead.families.known import family_of
from clearhead.families.moves import Placed, SplitTransposed, Transpose, unchanged
from clearhead.families.store import new_folder, read_json, read_tensors, write_json, write_tensors
from clearhead.model.transformer import Transformer

SETTINGS, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
BEFORE, DOWN, UP = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
FIXED: dict[str, tuple[Any, ...]] = {  # settings of which only these values can be run
    "peft_type": ("LORA",),
    "bias": ("none", None),
    "use_dora": (False, None),
    "modules_to_save": (None, []),
    "init_lora_weights": (True, False, None, "gaussian", "orthogonal", "eva"),  # others change the model itself too
}


class Adapter(NamedTuple):
    """What is added to a matrix [outputs, inputs]: scale * up @ down."""

    down: Tensor  # A, [rank, inputs]
    up: Tensor  # B, [outputs, rank]
    scale: float

    @property
    def product(self) -> Tensor:
        """[outputs, inputs], in float32 or wider."""
        wide = torch.promote_types(self.down.dtype, torch.float32)
        return self.scale * (self.up.to(wide) @ self.down.to(wide))


def write_adapters(adapters: Mapping[str, Adapter], model: Transformer, folder: Path, base: str) -> None:
    """The adapters of the model's matrices, by name; `base`: what the model was loaded from."""
    modules = [one for one in _places(model) if any(name in adapters for name in one.ours)]
    rows = {name: len(parameter) for name, parameter in model.named_parameters()}
    found = {one.theirs.removesuffix(".weight"): _together(one, adapters, rows) for one in modules}
    first = next(iter(found.values()))
    rank, alpha = len(first.down), first.scale * len(first.down)
    ranks = {name: len(one.down) for name, one in found.items()}
    settings = {
        "peft_type": "LORA",
        "task_type": _task(model.config),
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "rank_pattern": {name: own for name, own in ranks.items() if own != rank},
        "alpha_pattern": {name: one.scale * ranks[name] for name, one in found.items() if ranks[name] != rank},
        "target_modules": [*found],
        "fan_in_fan_out": any(isinstance(one.move, Transpose | SplitTransposed) for one in modules),
        "bias": "none",
        "lora_dropout": 0.0,
        "inference_mode": True,
    }
    with new_folder(folder) as fresh:
        write_json(fresh / SETTINGS, settings)
        tensors = {BEFORE + name + DOWN: one.down for name, one in found.items()}
        write_tensors(fresh / WEIGHTS, tensors | {BEFORE + name + UP: one.up for name, one in found.items()})


def read_adapters(folder: Path, model: Transformer) -> dict[str, Adapter]:
    """The adapters in a folder, by the names of the model's matrices.

    Raises ValueError, naming the folder, for a kind that is not a plain LoRA, and for a tensor that has no place.
    """
    said, tensors = read_json(folder / SETTINGS), read_tensors(folder / WEIGHTS)
    for key, known in FIXED.items():
        if said.get(key) not in known:
            raise ValueError(
                f"{folder / SETTINGS} sets {key} to {said.get(key)!r}; this version runs {known[0]!r} only"
            )
    places = {one.theirs: one for one in [*_places(model, ""), *_places(model)]}
    found: dict[str, Adapter] = {}
    for name in [name for name in tensors if name.endswith(DOWN)]:
        module = name.removesuffix(DOWN)
        down, up = tensors.pop(name), tensors.pop(module + UP, None)
        one = places.get(f"{module.removeprefix(BEFORE)}.weight")
        if one is None or up is None or up.shape[1] != len(down):
            raise ValueError(f"{folder / WEIGHTS} has {name}, for which there is no module in the model, or no {UP}")
        found |= _apart(one, Adapter(down, up, _scale(said, module.removeprefix(BEFORE), len(down))), model)
    if tensors:
        raise ValueError(f"{folder / WEIGHTS} has {min(tensors)}, which is no LoRA of a matrix; train without it")
    return found


def base_of(folder: Path) -> str:
    """The model that the adapters in a folder say they belong to. Raises ValueError where they do not say it."""
    named = read_json(folder / SETTINGS).get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise ValueError(f"{folder / SETTINGS} does not name the model it belongs to; give it: load(..., base=MODEL)")
    return named


def merge(folder: Path, model: Transformer) -> None:
    """Add the adapters in a folder to the model's matrices, whose type stays. Raises ValueError as above."""
    for name, one in read_adapters(folder, model).items():
        matrix = model.get_parameter(name)
        matrix.data = (matrix.data + one.product.to(matrix.device)).to(matrix.dtype)


def _together(one: Placed, adapters: Mapping[str, Adapter], rows: Mapping[str, int]) -> Adapter:
    """The adapter of their module: A one below the other, and in B a block of columns for each of our matrices."""
    own = {name: adapters[name] for name in one.ours if name in adapters}
    down, scale = torch.cat([part.down for part in own.values()]), next(iter(own.values())).scale
    parts, at = list[Tensor](), 0
    for name in one.ours:
        block = down.new_zeros(rows[name], len(down))
        if name in own:
            rank = own[name].up.shape[1]
            block[:, at : at + rank] = own[name].up
            at += rank
        parts.append(block)
    written = one.move.write(parts)
    return Adapter(down, written.T if isinstance(one.move, Transpose | SplitTransposed) else written, scale)


def _apart(one: Placed, adapter: Adapter, model: Transformer) -> dict[str, Adapter]:
    """The same adapter for each of our matrices."""
    up = adapter.up.T if isinstance(one.move, Transpose | SplitTransposed) else adapter.up
    shapes = {name: model.get_parameter(name).shape for name in one.ours}
    wanted = (sum(shape[0] for shape in shapes.values()), next(iter(shapes.values()))[1])
    if (given := (len(adapter.up), adapter.down.shape[1])) != wanted:
        raise ValueError(
            f"the adapter of {one.theirs} is for a matrix {list(given)}, but the model's is {list(wanted)}"
        )
    parts = one.move.read(up, [shape[0] for shape in shapes.values()])
    return {name: adapter._replace(up=part) for name, part in zip(one.ours, parts, strict=True)}


def _places(model: Transformer, cut: str | None = None) -> list[Placed]:
    """Where the model's matrices are in its home library; `cut`: of the family's prefix, None: what its class lacks."""
    names = [name for name, _ in model.named_parameters()]
    home: Any = vars(model).get("home")
    if home is None or home.config != model.config:
        return unchanged(names)
    family, task = family_of(dict(home.content))
    if cut is None and task is LANGUAGE:
        cut = "" if family.prefixed else family.prefix
    return family.placed(task, model.config, names, home.cut if cut is None else cut)


def _scale(said: Mapping[str, Any], module: str, rank: int) -> float:
    own = said.get("alpha_pattern") or {}
    alpha = next((own[key] for key in own if re.fullmatch(rf"(.*\.)?({key})", module)), said.get("lora_alpha", 8))
    return alpha / (math.sqrt(rank) if said.get("use_rslora") else rank)


def _task(config: TransformerConfig) -> str | None:
    if not isinstance(config.head, Head) or config.decoder is None:
        return None
    return "CAUSAL_LM" if config.encoder is None else "SEQ_2_SEQ_LM"
