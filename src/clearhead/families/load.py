"""A model from a folder, and back: config.json, model.safetensors, and the tokenizer if there is one."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.config import TransformerConfig
from clearhead.families.store import new_folder, read_json, read_tensors, recover, write_json, write_tensors
from clearhead.model.transformer import Transformer
from clearhead.text.pair import load_tokenizer

MODEL_TYPE = "clearhead"


def load(
    folder: str | Path, *, dtype: torch.dtype | None = None, device: str | torch.device | None = None
) -> Transformer:
    """The model saved in `folder`, in eval mode, with its tokenizer (or None) as `.tokenizer`.

    dtype: of the weights; by default as stored. Strict: every tensor of the file is used exactly once.
    Raises ValueError, naming the file and what is wrong, for a missing, half-written or foreign folder.
    """
    folder = Path(folder)
    recover(folder)
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give the folder that a model was saved in")
    content = read_json(folder / "config.json")
    kind = content.pop("model_type", None)
    if kind != MODEL_TYPE:
        raise ValueError(f"{folder / 'config.json'} has model_type {kind!r}; this version loads {MODEL_TYPE!r} only")
    with torch.device("meta"):  # no memory and no random numbers for weights that are about to be replaced
        model = Transformer(TransformerConfig.from_dict(content))
    fill(model, read_tensors(folder / "model.safetensors"))
    model.tokenizer = load_tokenizer(folder)
    return model.to(dtype=dtype, device=device).eval()


def save(model: Transformer, folder: str | Path) -> None:
    """Write the model and its tokenizer. A folder that is there already is replaced once the new one is complete."""
    with new_folder(folder) as fresh:
        write(model, fresh)


def write(model: Transformer, folder: Path) -> None:
    """The files of `save`, into a folder that exists."""
    write_json(folder / "config.json", {"model_type": MODEL_TYPE, **model.config.to_dict()})
    write_tensors(folder / "model.safetensors", dict(model.named_parameters()))
    if model.tokenizer is not None:
        model.tokenizer.save(folder)


def fill(model: Transformer, tensors: dict[str, Tensor]) -> None:
    """Put the tensors in the parameters' place. Raises ValueError unless names and shapes match exactly."""
    wanted: dict[str, Any] = dict(model.named_parameters())
    missing, extra = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or extra:
        raise ValueError(f"the weights do not fit the config; missing: {_list(missing)}; not expected: {_list(extra)}")
    for name, tensor in tensors.items():
        if tensor.shape != wanted[name].shape:
            raise ValueError(
                f"{name} is {list(tensor.shape)} in the file, but the config says {list(wanted[name].shape)}"
            )
    if model.config.shared_embeddings:
        tensors = {**tensors, "decoder.embedding.weight": tensors["encoder.embedding.weight"]}
    model.load_state_dict(tensors, assign=True)


def _list(names: list[str]) -> str:
    shown = ", ".join(names[:8]) or "none"
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
