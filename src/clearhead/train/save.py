"""Checkpoints: a model's folder with the state of its training beside it. Complete or invisible, and no pickle.

training.json holds the step, the scores and the optimizers' settings, training.safetensors their moments, and
training.random.safetensors each process's random state. One process or many, replicated or sharded: the files are the
same, so that the number of processes may change in between.
"""

import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load as load_shards
from torch.distributed.checkpoint.state_dict_saver import save as save_shards
from torch.optim import Optimizer

from clearhead.families.load import load, write
from clearhead.families.store import new_folder, read_json, read_tensors, write_json, write_tensors
from clearhead.model.transformer import Transformer
from clearhead.train.optimizer import Rates, freeze, optimizers
from clearhead.train.spread import ALONE, Spread

SETTINGS, MOMENTS, RANDOM = "training.json", "training.safetensors", "training.random.safetensors"


class Checkpoint(NamedTuple):
    """A training run between two steps."""

    model: Transformer
    movers: list[Optimizer]
    step: int  # steps done
    scores: tuple[tuple[int, float], ...] = ()  # (step, score) of every evaluation so far


def save_checkpoint(checkpoint: Checkpoint, folder: str | Path, here: Spread = ALONE) -> None:
    """Write everything that going on needs; a folder that is there is replaced once the new one is complete.

    Several processes write their shards side by side, so that all must see the same folder.
    """
    states = [mover.state_dict() for mover in checkpoint.movers]
    tensors = {
        f"{i}.{p}.{name}": value.view(1) if value.dim() == 0 else value  # torch writes no scalars in shards
        for i, state in enumerate(states)
        for p, moments in state["state"].items()
        for name, value in moments.items()
    }
    chance = {str(rank): state for rank, state in enumerate(here.gathered(torch.get_rng_state()))}
    whole = here.whole(checkpoint.model)
    with _shared(folder, here) as fresh:
        if here.first:
            write(whole, fresh)
            said = {"step": checkpoint.step, "scores": checkpoint.scores}
            write_tensors(fresh / RANDOM, chance)
            write_json(fresh / SETTINGS, {**said, "groups": [state["param_groups"] for state in states]})
        if not here.sharded:
            if here.first:
                write_tensors(fresh / MOMENTS, tensors)
            return
        place = fresh / "shards"
        writer = HuggingFaceStorageWriter(str(place), save_distributed=True, enable_consolidation=True)
        save_shards(tensors, storage_writer=writer)
        if here.first:
            (together,) = place.glob("*.safetensors")
            together.rename(fresh / MOMENTS)
            shutil.rmtree(place)


@contextmanager
def _shared(folder: str | Path, here: Spread) -> Generator[Path]:
    """A new folder that the first process makes, and completes when all are done with it."""
    if here.first:
        with new_folder(folder) as fresh:
            here.agreed(str(fresh))
            yield fresh
            here.agreed(True)
    else:
        yield Path(here.agreed(None))
        here.agreed(None)


def load_checkpoint(folder: str | Path, rates: Rates, device: str = "cpu", here: Spread = ALONE) -> Checkpoint:
    """The run as it was saved, and torch's random state with it; the model is in train mode.

    `rates` say which optimizer moves what, as when the run began. Raises ValueError for a folder that holds a model
    only: one can start from it (`load`), but not go on.
    """
    folder = Path(folder)
    model = load(folder, device=device)
    if not (folder / SETTINGS).is_file():
        raise ValueError(f"{folder} holds weights only: start from them with `load`; going on needs {SETTINGS}")
    said = read_json(folder / SETTINGS)
    freeze(model, rates.frozen)
    here.shard(model)
    movers = optimizers(model, rates)
    if len(movers) != len(said["groups"]):
        raise ValueError(f"{folder} was trained by {len(said['groups'])} optimizers, but the rates name {len(movers)}")
    tensors = _own_shards(folder, movers) if here.sharded else read_tensors(folder / MOMENTS)
    for i, (mover, groups) in enumerate(zip(movers, said["groups"], strict=True)):
        mover.load_state_dict({"state": _moments(tensors, i), "param_groups": [_tuples(group) for group in groups]})
    state = read_tensors(folder / RANDOM).get(str(here.rank))
    if state is None:  # there were fewer processes
        torch.manual_seed(1000 * said["step"] + here.rank)
    else:
        torch.set_rng_state(state)
    scores = tuple((int(step), float(score)) for step, score in said["scores"])
    return Checkpoint(model.train(), movers, said["step"], scores)


def _own_shards(folder: Path, movers: list[Optimizer]) -> dict[str, Tensor]:
    """Of each tensor what belongs to this process: of a moment the same part as of its parameter."""
    parameters = {
        f"{i}.{p}": parameter
        for i, mover in enumerate(movers)
        for p, parameter in enumerate(parameter for group in mover.param_groups for parameter in group["params"])
    }
    reader = HuggingFaceStorageReader(str(folder))
    found: dict[str, Tensor] = {}
    for address, form in reader.read_metadata().state_dict_metadata.items():
        place, _, name = address.rpartition(".")
        if place in parameters and name != "step":
            found[address] = torch.zeros_like(parameters[place])
        elif place in parameters:
            assert isinstance(form, TensorStorageMetadata)
            found[address] = torch.zeros(form.size, dtype=form.properties.dtype)
    with torch.no_grad():
        load_shards(found, storage_reader=reader)
    return found


def _moments(tensors: dict[str, Tensor], mover: int) -> dict[int, dict[str, Tensor]]:
    """{parameter: {name: tensor}} of one optimizer, out of names like 0.12.exp_avg."""
    found: dict[int, dict[str, Tensor]] = {}
    for address, tensor in tensors.items():
        i, p, name = address.split(".", 2)
        if int(i) == mover:
            found.setdefault(int(p), {})[name] = tensor[0] if name == "step" else tensor
    return found


def _tuples(group: dict[str, Any]) -> dict[str, Any]:
    """JSON knows lists only; optimizers keep their pairs as tuples."""
    pairs = {name: tuple(cast(list[float], v)) for name, v in group.items() if isinstance(v, list) and name != "params"}
    return {**group, **pairs}
