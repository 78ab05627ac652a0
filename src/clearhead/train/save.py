"""Checkpoints: a model's folder with the state of its training beside it. Complete or invisible, and no pickle.

training.json holds the step and the optimizers' settings, training.safetensors their moments and torch's random state.
"""

from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.optim import Optimizer

from clearhead.families.load import load, write
from clearhead.families.store import new_folder, read_json, read_tensors, write_json, write_tensors
from clearhead.model.transformer import Transformer
from clearhead.train.optimizer import Rates, optimizers


class Checkpoint(NamedTuple):
    """A training run between two steps."""

    model: Transformer
    movers: list[Optimizer]
    step: int  # steps done


def save_checkpoint(checkpoint: Checkpoint, folder: str | Path) -> None:
    """Write everything that going on needs; a folder that is there is replaced once the new one is complete."""
    states = [mover.state_dict() for mover in checkpoint.movers]
    tensors: dict[str, Tensor] = {"random": torch.get_rng_state()}
    for i, state in enumerate(states):
        for p, moments in state["state"].items():
            tensors |= {f"{i}.{p}.{name}": value for name, value in moments.items()}
    with new_folder(folder) as fresh:
        write(checkpoint.model, fresh)
        write_tensors(fresh / "training.safetensors", tensors)
        groups = [state["param_groups"] for state in states]
        write_json(fresh / "training.json", {"step": checkpoint.step, "groups": groups})


def load_checkpoint(folder: str | Path, rates: Rates, device: str = "cpu") -> Checkpoint:
    """The run as it was saved, and torch's random state with it; the model is in train mode.

    `rates` say which optimizer moves what, as when the run began. Raises ValueError for a folder that holds a model
    only: one can start from it (`load`), but not go on.
    """
    folder = Path(folder)
    model = load(folder, device=device)
    if not (folder / "training.json").is_file():
        raise ValueError(f"{folder} holds weights only: start from them with `load`; going on needs training.json")
    said, tensors = read_json(folder / "training.json"), read_tensors(folder / "training.safetensors")
    movers = optimizers(model, rates)
    if len(movers) != len(said["groups"]):
        raise ValueError(f"{folder} was trained by {len(said['groups'])} optimizers, but the rates name {len(movers)}")
    torch.set_rng_state(tensors.pop("random"))
    for i, (mover, groups) in enumerate(zip(movers, said["groups"], strict=True)):
        mover.load_state_dict({"state": _moments(tensors, i), "param_groups": [_tuples(group) for group in groups]})
    return Checkpoint(model.train(), movers, said["step"])


def _moments(tensors: dict[str, Tensor], mover: int) -> dict[int, dict[str, Tensor]]:
    """{parameter: {name: tensor}} of one optimizer, out of names like 0.12.exp_avg."""
    found: dict[int, dict[str, Tensor]] = {}
    for address, tensor in tensors.items():
        i, p, name = address.split(".", 2)
        if int(i) == mover:
            found.setdefault(int(p), {})[name] = tensor
    return found


def _tuples(group: dict[str, Any]) -> dict[str, Any]:
    """JSON knows lists only; optimizers keep their pairs as tuples."""
    pairs = {name: tuple(cast(list[float], v)) for name, v in group.items() if isinstance(v, list) and name != "params"}
    return {**group, **pairs}
