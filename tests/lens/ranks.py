"""What each of two processes does to a model that they share: run it plain, recorded and edited."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from clearhead.lens.edit import edit
from clearhead.lens.edits import ablate
from clearhead.lens.record import record
from clearhead.lens.rows import Scores
from clearhead.model import position
from clearhead.model.transformer import Transformer
from lens.products import inputs
from model.tiny import ALL, build, text

RANKS = 2
EDITED = "decoder.0.self.{}"


def replicated(model: Transformer) -> nn.Module:
    return DistributedDataParallel(model)


def sharded(model: Transformer) -> nn.Module:
    for stack in (model.encoder, model.decoder):
        for layer in () if stack is None else stack.layers:
            fully_shard(layer)
    return fully_shard(model)


WRAPPERS = {"alone": lambda model: model, "replicated": replicated, "sharded": sharded}


def given(kind: str, rank: int) -> dict[str, Tensor]:
    """Every process reads another text."""
    return {**inputs(kind), "input_ids": text(2, 9, vocab=31, seed=5 + rank)}


def trained(model: nn.Module, kind: str, rank: int) -> tuple[Tensor, dict[str, Tensor]]:
    """What it gives, and the whole gradients, by parameter."""
    model.zero_grad()
    out = model(**given(kind, rank)).logits
    out.square().mean().backward()
    found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    whole = {name: (g.full_tensor() if isinstance(g, DTensor) else g).clone() for name, g in found.items()}
    return out.detach(), {name.removeprefix("module."): grad for name, grad in whole.items()}


def looked(model: nn.Module, kind: str, rank: int) -> dict[str, Any]:
    """Each of the results is an output and gradients; `seen` and `slopes` are what was recorded beside."""
    found: dict[str, Any] = {"plain": trained(model, kind, rank)}
    with record(model, "*", grad=True) as seen:
        found["recorded"] = trained(model, kind, rank)
    found["seen"], found["slopes"] = written(seen), written(seen.grads)
    for site in ("heads", "weights"):
        with edit(model, {EDITED.format(site): ablate(heads=[1])}):
            found[site] = trained(model, kind, rank)
    found["again"] = trained(model, kind, rank)
    return found


def written(values: Any) -> dict[str, Tensor]:
    return {address: v.dense() if isinstance(v, Scores) else v for address, v in values.items()}


def work(rank: int, folder: Path, wrapper: str, kind: str) -> None:
    """One process of the two. A file takes the place of a port."""
    torch.set_num_threads(1)
    position.BLOCK = 0  # a bias by distance stays a rule with a parameter, which a sharded model takes away again
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=RANKS)
    try:
        model = WRAPPERS[wrapper](build(ALL[kind]()).float())
        torch.save(looked(model, kind, rank), folder / f"{rank}.pt")
    finally:
        dist.destroy_process_group()
