"""One process, or several that train one model together: replicated (DDP) or sharded (FSDP2).

The same command under `torchrun` is what starts several; each finds its place in the environment that torchrun sets.
"""

import os
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from clearhead.model.transformer import Transformer
from clearhead.train.lora import twin

T = TypeVar("T")
Kind = Literal["auto", "ddp", "fsdp"]  # auto: ddp
PATIENCE = timedelta(days=7)  # how long the others wait for the one that reads the texts


class OtherProcessError(ValueError):
    """Another process has failed, with this sentence, and says it."""


@dataclass(frozen=True)
class Spread:
    """This process's place among all. Every method but `first` must be called by all of them alike."""

    rank: int = 0
    ranks: int = 1
    device: str = "cpu"
    sharded: bool = False
    local: int = 0  # its rank among those of its machine
    patient: Any = None  # the processes as a group that waits for PATIENCE

    @property
    def first(self) -> bool:
        """Whether this is the one process that writes and speaks."""
        return self.rank == 0

    def shard(self, model: Transformer) -> None:
        """Leave each process its part of every parameter, if that is asked for; optimizers are made afterwards."""
        if not self.sharded or isinstance(model, FSDPModule):
            return
        mesh = init_device_mesh(torch.device(self.device).type, (self.ranks,))
        for stack in filter(None, (model.encoder, model.decoder)):
            for layer in stack.layers:
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)  # tables, a head tied to one of them, and norms: one group

    def wrapped(self, model: Transformer) -> nn.Module:
        """What to call instead of the model in training."""
        return model if self.ranks == 1 or self.sharded else DistributedDataParallel(model)

    def last(self, called: nn.Module, last: bool) -> AbstractContextManager[None]:
        """Within it a batch's gradients stay in this process unless it is the last of its step."""
        if isinstance(called, DistributedDataParallel) and not last:
            return cast(AbstractContextManager[None], called.no_sync())
        if isinstance(called, FSDPModule):
            called.set_requires_gradient_sync(last)
        return nullcontext()

    def total(self, *numbers: float) -> list[float]:
        """The sums of these numbers over all processes."""
        if self.ranks == 1:
            return list(numbers)
        kind = torch.float32 if torch.device(self.device).type == "mps" else torch.float64
        sums = torch.tensor(numbers, dtype=kind, device=self.device)
        dist.all_reduce(sums)
        return sums.tolist()

    def agreed(self, what: Any) -> Any:
        """What the first process says."""
        if self.ranks == 1:
            return what
        said = [what]
        dist.broadcast_object_list(said, 0, device=torch.device(self.device))
        return said[0]

    def alike(self, make: Callable[[], T]) -> T:
        """What `make` gives here, however long it takes.

        If it raises ValueError in one process, all end: that one with its error, the others with OtherProcessError.
        """
        made: list[T] = []
        problem: ValueError | None = None
        try:
            made.append(make())
        except ValueError as error:
            problem = error
        said: list[str | None] = [None if problem is None else str(problem)]
        if self.ranks > 1:
            said *= self.ranks
            dist.all_gather_object(said, said[0], self.patient)
        for rank, sentence in enumerate(said):
            if sentence is not None:
                raise problem if problem is not None and rank == self.rank else OtherProcessError(sentence)
        return made[0]

    def once(self, make: Callable[[], T]) -> T:
        """What `make` gives to the first process, which alone calls it."""
        made = self.alike(lambda: make() if self.first else None)
        return cast(T, self.agreed(made))

    def ahead(self, make: Callable[[], T]) -> T:
        """What `make` gives here, after the first process of each machine has called it and left files for the rest."""
        made = self.alike(lambda: make() if self.local == 0 else None)
        return self.alike(lambda: make() if made is None else made)

    def gathered(self, values: Tensor) -> list[Tensor]:
        """Everybody's, in order; all of one shape."""
        if self.ranks == 1:
            return [values]
        found = [torch.empty_like(values, device=self.device) for _ in range(self.ranks)]
        dist.all_gather(found, values.to(self.device))
        return [one.to(values.device) for one in found]

    def whole(self, model: Transformer) -> Transformer:
        """The model itself, or of a sharded one a copy with all parameters; each process must have room for it."""
        if not self.sharded:
            return model
        numbers = {name: parameter.detach() for name, parameter in model.named_parameters()}
        return twin(model, {name: n.full_tensor() if isinstance(n, DTensor) else n for name, n in numbers.items()})


ALONE = Spread()


@contextmanager
def spread(kind: Kind = "auto", device: str = "cpu") -> Generator[Spread]:
    """This process's place, until the block ends. gloo connects processors, nccl CUDA devices, one for each process.

    Raises ValueError for a device that is not there, and for fsdp without torchrun.
    """
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if ranks == 1:
        if kind == "fsdp":
            raise ValueError("spread is fsdp, but there is 1 process; start several with torchrun, or leave spread out")
        check_device(device)
        yield Spread(device=device)
        return
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    own = f"cuda:{local}" if device == "cuda" else device
    check_device(own)
    if own.startswith("cuda"):
        torch.cuda.set_device(own)
    dist.init_process_group("nccl" if own.startswith("cuda") else "gloo")
    patient = dist.new_group(backend="gloo", timeout=PATIENCE)
    try:
        yield Spread(rank, ranks, own, kind == "fsdp", local, patient)
    finally:
        dist.destroy_process_group()


def check_device(device: str) -> None:
    """ValueError, with both numbers, for a device that is not there."""
    kind, _, number = device.partition(":")
    count = torch.cuda.device_count()
    if kind == "cuda" and int(number or 0) >= count:
        raise ValueError(
            f"device is {device}, but this machine has {count} CUDA devices, counted from 0; use cpu, or start no more "
            "processes on it than it has devices"
        )
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device {device!r} cannot be used here: {str(error).splitlines()[0]}") from error
