"""A model from a folder, and back: config.json, the weights, and the tokenizer if there is one."""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.config import TransformerConfig
from clearhead.families import adapter
from clearhead.families.family import Family, Settings
from clearhead.families.gguf import GgufWeights, gguf_in, open_gguf
from clearhead.families.hub import local
from clearhead.families.known import family_of
from clearhead.families.moves import Placed, unchanged
from clearhead.families.pickled import refuse_pickled
from clearhead.families.sentence import PLAIN, dense_in, files_of, task_of
from clearhead.families.store import new_folder, read_json, recover, write_json, write_tensors
from clearhead.families.tasks import misplaced
from clearhead.families.tokenizers import load_tokenizer
from clearhead.families.weights import WHOLE, Weights
from clearhead.model.transformer import Transformer

LOG = logging.getLogger(__name__)
MODEL_TYPE = "clearhead"
GENERATION = "generation_config.json"
IDS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")


@dataclass(frozen=True)
class Home:
    """Where a model of another library came from (`model.home`), so that `save` can write that format again."""

    content: Mapping[str, Any]  # config.json as it was
    generation: Mapping[str, Any] | None  # generation_config.json
    config: TransformerConfig  # what they came to
    cut: str  # the part of the family's prefix that the names in the file have not
    left: tuple[str, ...]  # learned tensors of the file that the model has no use for; `save` cannot write them
    files: Mapping[str, Any]  # those of a sentence encoder (see sentence.py)


def load(
    folder: str | Path,
    *,
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
    ignore_config: Iterable[str] = (),
    revision: str | None = None,
    base: str | Path | None = None,
) -> Transformer:
    """The model saved in `folder`, in eval mode, with its tokenizer (or None) as `.tokenizer`.

    A folder that `save` wrote, or one of a family listed in families/known.py in the format of its home library, or a
    GGUF file (or a folder with one); the latter two set `.home`. Or, if no such folder is here, the name of a model on
    the hub ("organisation/model"; `revision`: a branch, tag or commit of it): see families/hub.py. Nothing else uses
    the network. A folder with an adapter of the peft library gives the model that it belongs to (`base`, or else the
    one that it names), with the adapter added to its matrices. dtype: of the weights; by default as stored, of a GGUF
    file float32. Strict: every tensor of the file is used exactly once, or is listed as without use; every setting of
    config.json is understood, or is named in `ignore_config`.

    Raises ValueError, naming the file and what is wrong, for a missing, half-written or unknown folder.
    """
    recover(Path(folder))
    folder = local(folder, revision)
    if (file := gguf_in(folder)) is not None:
        said, weights, tokenizer = open_gguf(file, dtype or torch.float32)
        model = _foreign(said, None, weights, dtype, device, ignore_config, {})
        model.tokenizer = tokenizer
        return model.eval()
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder; give the folder that a model was saved in")
    if (folder / adapter.SETTINGS).is_file() and not (folder / "config.json").is_file():
        model = load(base or adapter.base_of(folder), dtype=dtype, device=device, ignore_config=ignore_config)
        adapter.merge(folder, model)
        return model
    if base is not None:
        raise ValueError(f"base={str(base)!r} is for an adapter, but {folder} has no {adapter.SETTINGS}; leave it out")
    content = read_json(folder / "config.json")
    refuse_pickled(folder)
    if content.get("model_type") == MODEL_TYPE:
        model = _own(folder, content, dtype, device)
    else:
        generation = read_json(folder / GENERATION) if (folder / GENERATION).exists() else None
        weights, files = Weights(folder, family_of(content)[0].older), files_of(folder)
        if (place := dense_in(files)) is not None:
            weights.include(folder / place, place)
        model = _foreign(content, generation, weights, dtype, device, ignore_config, files)
    model.tokenizer = load_tokenizer(folder)
    return model.eval()


def save(model: Transformer, folder: str | Path) -> None:
    """Write the model and its tokenizer. A folder that is there already is replaced once the new one is complete.

    A model with a home, whose config has not been changed, is written in the format of that home library, any other as
    model_type "clearhead".
    """
    with new_folder(folder) as fresh:
        write(model, fresh)


def write(model: Transformer, folder: Path) -> None:
    """The files of `save`, into a folder that exists."""
    home = vars(model).get("home")
    tensors: dict[str, Tensor] = dict(model.named_parameters())
    if isinstance(home, Home) and home.config == model.config:
        family, task = family_of(dict(home.content))
        task = task_of(home.files, PLAIN) if home.files else task
        dtype = str(next(iter(tensors.values())).dtype).removeprefix("torch.")
        kept = {key: value for key, value in home.content.items() if key != "torch_dtype"}
        write_json(folder / "config.json", {**kept, "dtype": dtype})
        for path, content in {
            **({} if home.generation is None else {GENERATION: home.generation}),
            **home.files,
        }.items():
            (folder / path).parent.mkdir(exist_ok=True)
            write_json(folder / path, content)
        placed = family.placed(task, model.config, tensors, home.cut)
        tensors = {one.theirs: one.move.write([tensors[name] for name in one.ours]) for one in placed}
        if (place := dense_in(home.files)) is not None:
            own = {name: tensors.pop(name) for name in [*tensors] if name.startswith(f"{place}.")}
            write_tensors(folder / place / WHOLE, {name.removeprefix(f"{place}."): t for name, t in own.items()})
    else:
        write_json(folder / "config.json", {"model_type": MODEL_TYPE, **model.config.to_dict()})
    write_tensors(folder / WHOLE, tensors)
    if model.tokenizer is not None:
        model.tokenizer.save(folder)


def _own(
    folder: Path, content: dict[str, Any], dtype: torch.dtype | None, device: str | torch.device | None
) -> Transformer:
    plain = {key: value for key, value in content.items() if key != "model_type"}
    model = _empty(TransformerConfig.from_dict(plain))
    weights, placed = Weights(folder), unchanged(name for name, _ in model.named_parameters())
    _check_names({one.theirs for one in placed}, weights.names)
    fill(model, weights, placed, dtype, device)
    return model


def _foreign(
    content: dict[str, Any],
    generation: dict[str, Any] | None,
    weights: Weights | GgufWeights,
    dtype: torch.dtype | None,
    device: str | torch.device | None,
    ignore_config: Iterable[str],
    files: Mapping[str, Any],
) -> Transformer:
    family, task = family_of(content)
    task = task_of(files, ignore_config) if files else task
    ids = {key: i for key in IDS if (i := (generation or {}).get(key)) is not None}
    config = family.config(Settings({**content, **ids}, task, weights.names), ignore_config)
    model = _empty(config)
    cut = "" if any(name.startswith(family.prefix) for name in weights.names) else family.prefix
    placed = family.placed(task, config, dict(model.named_parameters()), cut)
    planned = {one.theirs for one in placed}
    named = (content.get("architectures") or [*family.architectures])[0]
    language = (move for move in family.moves(config) if move.ours.startswith("head"))
    hint = misplaced(family, named, language, planned, weights.names)
    left = _left(family, weights, planned, cut, hint)
    fill(model, weights, placed, dtype, device)
    vars(model)["home"] = Home(content, generation, config, cut, left, files)
    return model


def _empty(config: TransformerConfig) -> Transformer:
    with torch.device("meta"):  # no memory and no random numbers for weights that are about to be replaced
        try:
            return Transformer(config)
        except RuntimeError as error:  # sizes beyond what can be counted
            raise ValueError(f"config.json asks for a model that cannot be made ({error})") from error


def _left(family: Family, weights: Weights | GgufWeights, planned: set[str], cut: str, hint: str) -> tuple[str, ...]:
    """The learned tensors that stay unused. ValueError for one that is not listed, and for a copy that is not one."""
    copies = {a.removeprefix(cut): b.removeprefix(cut) for a, b in family.copies.items()}
    spare = weights.names - planned
    copied = {name for name in spare if copies.get(name) in weights.names}
    constant, extra = (_matching(spare, patterns) for patterns in (family.constant, family.extra))
    _check_names(planned, weights.names - copied - constant - extra, hint)
    for name in copied:
        if not torch.equal(weights.read(name), weights.read(copies[name])):
            raise ValueError(
                f"{name} and {copies[name]} differ in the file, but config.json says that they are one "
                f"(tie_word_embeddings); one of the two is wrong{hint}"
            )
    if extra:
        LOG.warning("no part of this model, and not written again by save: %s", _list(sorted(extra)))
    return tuple(sorted(extra))


def _matching(names: Iterable[str], patterns: Iterable[str]) -> set[str]:
    return {name for name in names if any(re.fullmatch(pattern, name) for pattern in patterns)}


def _check_names(planned: set[str], found: Iterable[str], hint: str = "") -> None:
    missing, extra = sorted(planned - set(found)), sorted(set(found) - planned)
    if missing or extra:
        lists = f"missing: {_list(missing)}; not expected: {_list(extra)}"
        raise ValueError(f"the weights do not fit the config; {lists}{hint}")


def fill(
    model: Transformer,
    weights: Weights | GgufWeights,
    placed: Iterable[Placed],
    dtype: torch.dtype | None = None,
    device: str | torch.device | None = None,
) -> None:
    """Put the tensors in the parameters' place, one after the other. Raises ValueError unless their shapes match."""
    wanted = dict(model.named_parameters())
    for one in placed:
        tensor = weights.read(one.theirs)
        if not tensor.is_floating_point():
            raise ValueError(f"{one.theirs} is stored as {tensor.dtype}; quantised weights are not yet supported")
        shapes = [wanted[name].shape for name in one.ours]
        for name, shape, part in zip(one.ours, shapes, one.move.read(tensor, [s[0] for s in shapes]), strict=True):
            if part.shape != shape:
                raise ValueError(
                    f"{one.theirs} is {list(tensor.shape)} in the file, but the config says {list(shape)} for {name}"
                )
            module, leaf = name.rsplit(".", 1)
            setattr(model.get_submodule(module), leaf, nn.Parameter(_converted(part, dtype, device)))


def _converted(tensor: Tensor, dtype: torch.dtype | None, device: str | torch.device | None) -> Tensor:
    """Contiguous, by one copy at most: `to` on a transposed view would leave another to be made. A map stays a map."""
    if tensor.is_contiguous():
        return tensor.to(dtype=dtype, device=device)
    return torch.empty(tensor.shape, dtype=dtype or tensor.dtype, device=device or tensor.device).copy_(tensor)


def _list(names: list[str]) -> str:
    shown = ", ".join(names[:8]) or "none"
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
