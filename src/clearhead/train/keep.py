"""What a run keeps besides its last checkpoint: the models before it, the best, and the mean of some; and room for all.

kept/<step>/ are the models of the last checkpoints, best/ is the one with the lowest validation loss so far.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn
from torch.optim import Optimizer

from clearhead.families.load import load
from clearhead.families.store import new_folder, write_tensors
from clearhead.model.transformer import Transformer
from clearhead.train.folder import CHECKPOINT, publish
from clearhead.train.lora import write_model
from clearhead.train.optimizer import moments
from clearhead.train.recipe import Saving

KEPT, BEST, MEAN, WEIGHTS = "kept", "best", ".mean", "model.safetensors"


def keep(folder: Path, step: int, count: int) -> None:
    """The model of the checkpoint as one of the last `count`; older ones go. Links take no room on the disk."""
    if count > 1 and not (folder / KEPT / f"{step:08}").exists():
        with new_folder(folder / KEPT / f"{step:08}") as fresh:
            for file in (folder / CHECKPOINT).iterdir():
                if file.is_file() and not file.name.startswith("training."):
                    _link(file, fresh / file.name)
    for old in kept(folder)[: -count if count > 1 else None]:
        shutil.rmtree(old)
    for left in (folder / KEPT).glob(".*"):  # of a process that was killed
        shutil.rmtree(left)


def kept(folder: Path) -> list[Path]:
    """The models of the last checkpoints, the newest last."""
    return sorted(place for place in (folder / KEPT).glob("[0-9]*"))


def _link(file: Path, place: Path) -> None:
    try:
        os.link(file, place)
    except OSError:  # this disk knows no links
        shutil.copyfile(file, place)


def keep_best(folder: Path, model: Transformer) -> None:
    """This model as the best so far."""
    with new_folder(folder / BEST) as fresh:
        write_model(model, fresh)


def write_mean(models: Iterable[Path], place: Path) -> None:
    """A model whose every weight is the mean of these models' (Vaswani et al. 2017, section 6.1).

    Raises ValueError for no models at all.
    """
    models = list(models)
    if not models:
        raise ValueError(f"there is no checkpoint to average; save some before {place}")
    files = [safe_open(model / WEIGHTS, "pt") for model in models]
    with new_folder(place) as fresh:
        for file in models[-1].iterdir():
            if file.name != WEIGHTS:
                shutil.copyfile(file, fresh / file.name)
        tensors = {}
        for name in files[0].keys():  # noqa: SIM118
            given = [file.get_tensor(name) for file in files]
            mean = torch.stack([one.double() for one in given]).mean(0)
            tensors[name] = mean.to(given[0].dtype)
        write_tensors(fresh / WEIGHTS, tensors)


def given(
    folder: Path, model: Transformer, asked: Saving, loss: Callable[[Transformer], float]
) -> tuple[str, Transformer]:
    """The model that the run gives at the end, published in its folder, and which it is.

    The last one (which is `model`), or what the recipe asks for: the moving average, the mean of some, the best,
    and of two the one with the lower loss.
    """
    found: dict[str, Path] = {}
    last = kept(folder)[-asked.average :] if asked.average > 1 else []
    if last:
        write_mean(last, folder / MEAN)
        found[f"the mean of the last {len(last)} checkpoints"] = folder / MEAN
    if asked.ema:
        found["the moving average"] = folder / CHECKPOINT
    if asked.keep_best and (folder / BEST).exists():
        found["the best by validation loss"] = folder / BEST
    if not found:
        publish(folder)
        return "the last", model
    models = {name: load(place, device=model.last.table.device) for name, place in found.items()}
    name = min(models, key=lambda name: loss(models[name]))
    publish(folder, found[name].name)
    shutil.rmtree(folder / MEAN, ignore_errors=True)
    return name, models[name]


def check_space(folder: Path, model: nn.Module, movers: list[Optimizer], asked: Saving, begun: bool) -> None:
    """ValueError, with both numbers, unless the disk has room for what the run will keep.

    A new checkpoint is written beside the old one, and its weights once more as the folder's model, and again while
    they are exchanged.
    """
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    checkpoint = (3 if asked.ema else 1) * weights + moments(movers)
    needed = checkpoint + weights  # what is exchanged
    if not begun:
        needed += checkpoint + weights + weights * max(asked.keep - 1, 0) + (2 * weights if asked.keep_best else 0)
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise ValueError(
            f"{folder} has {_size(free)} free, but checkpoints need {_size(needed)}; make room, choose another folder, "
            "or keep fewer"
        )


def _size(count: int) -> str:
    """Bytes for people."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count / 1e3:.1f} kB"
