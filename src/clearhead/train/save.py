"""Checkpoints: a model's folder with the state of its training beside it. Complete or invisible, and no pickle.

training.json holds the step, the scores and the optimizers' settings, training.safetensors their moments, and
training.random.safetensors each process's random states. Where a model is saved in another form than it is trained in,
with adapters added to its matrices or as a moving average, training.weights.safetensors has what is trained, and
training.mean.safetensors the average of that. One process or many, replicated
or sharded: the files are the same, so that the number of processes may change in between.
"""

import logging
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
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.optim import Optimizer

from clearhead.families.load import load
from clearhead.families.store import new_folder, read_json, read_tensors, write_json, write_tensors
from clearhead.model.transformer import Transformer
from clearhead.train.ema import Mean, averaged
from clearhead.train.lora import small_of, write_model
from clearhead.train.optimizer import Rates, freeze, optimizers
from clearhead.train.spread import ALONE, Spread

NOTES = logging.getLogger(__name__)
SETTINGS, MOMENTS, RANDOM = "training.json", "training.safetensors", "training.random.safetensors"
WEIGHTS, MEAN = "training.weights.safetensors", "training.mean.safetensors"


class Checkpoint(NamedTuple):
    """A training run between two steps."""

    model: Transformer
    movers: list[Optimizer]
    step: int  # steps done
    scores: tuple[tuple[int, float], ...] = ()  # (step, score) of every evaluation so far
    mark: Any = None  # of a stream that is trained on (data.streamed.Mark)
    mean: Mean | None = None  # the moving average of what is trained


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
    chance = random_states(here)
    whole, mean = here.whole(checkpoint.model), checkpoint.mean
    shown = whole if mean is None else here.whole(averaged(checkpoint.model, mean))
    with _shared(folder, here) as fresh:
        if here.first:
            write_model(shown, fresh)
            for file, model, names in ((WEIGHTS, whole, mean or small_of(whole)), (MEAN, shown, mean or ())):
                if names:
                    write_tensors(fresh / file, {name: model.get_parameter(name) for name in names})
            said = {"step": checkpoint.step, "scores": checkpoint.scores, "mark": checkpoint.mark}
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


def random_states(here: Spread) -> dict[str, Tensor]:
    """Each process's, as bytes by name: "0" is that of the first one's processor, "0.cuda" that of its device."""
    kind, own = torch.device(here.device).type, {"": torch.get_rng_state()}
    if kind == "cuda":
        own[".cuda"] = torch.cuda.get_rng_state(here.device)
    elif kind == "mps":
        own[".mps"] = torch.mps.get_rng_state()
    return {f"{rank}{name}": state for name, mine in own.items() for rank, state in enumerate(here.gathered(mine))}


def set_random_states(states: dict[str, Tensor], here: Spread, step: int) -> None:
    """This process's, as they were saved after so many steps; new ones where there were fewer processes.

    On another device than before numbers are new too, which is said.
    """
    kind = torch.device(here.device).type
    before = next((name.partition(".")[2] for name in states if "." in name), "cpu")
    if here.first and before != kind:
        NOTES.warning("this run was on %s and goes on on %s: dropout draws other numbers there", before, kind)
    torch.manual_seed(1000 * step + here.rank)
    own, device = states.get(str(here.rank)), states.get(f"{here.rank}.{kind}")
    if own is not None:
        torch.set_rng_state(own)
    if device is not None and kind == "cuda":
        torch.cuda.set_rng_state(device, here.device)
    elif device is not None:
        torch.mps.set_rng_state(device)


def load_checkpoint(
    folder: str | Path, rates: Rates, here: Spread = ALONE, begun: Transformer | None = None
) -> Checkpoint:
    """The run as it was saved, and the random states with it; the model is in train mode.

    `rates` say which optimizer moves what, as when the run began. begun: a model with adapters, as it was then, which
    gets what they have learned. Raises ValueError for a folder that holds a model
    only: one can start from it (`load`), but not go on.
    """
    folder = Path(folder)
    model = load(folder, device=here.device) if begun is None else begun
    if not (folder / SETTINGS).is_file():
        raise ValueError(f"{folder} holds weights only: start from them with `load`; going on needs {SETTINGS}")
    said = read_json(folder / SETTINGS)
    if (folder / WEIGHTS).is_file():
        for name, tensor in read_tensors(folder / WEIGHTS).items():
            model.get_parameter(name).data.copy_(tensor)
    freeze(model, rates.frozen)
    here.shard(model)
    movers = optimizers(model, rates)
    if len(movers) != len(said["groups"]):
        raise ValueError(f"{folder} was trained by {len(said['groups'])} optimizers, but the rates name {len(movers)}")
    tensors = _own_shards(folder, movers) if here.sharded else read_tensors(folder / MOMENTS)
    for i, (mover, groups) in enumerate(zip(movers, said["groups"], strict=True)):
        mover.load_state_dict({"state": _moments(tensors, i), "param_groups": [_tuples(group) for group in groups]})
    set_random_states(read_tensors(folder / RANDOM), here, said["step"])
    scores = tuple((int(step), float(score)) for step, score in said["scores"])
    return Checkpoint(model.train(), movers, said["step"], scores, said.get("mark"), _mean(folder, model))


def _mean(folder: Path, model: Transformer) -> Mean | None:
    """The moving average, of each tensor what this process has of the parameter."""
    if not (folder / MEAN).is_file():
        return None
    tensors, found = read_tensors(folder / MEAN), Mean()
    for name, parameter in model.named_parameters():
        if name in tensors:
            own = tensors[name].to(parameter.device)
            shares = isinstance(parameter, DTensor)
            found[name] = distribute_tensor(own, parameter.device_mesh, parameter.placements) if shares else own
    return found


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
