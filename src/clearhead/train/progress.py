"""The live line of a training run, on stderr."""

import resource
import sys
from types import TracebackType

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    """`with Progress(steps) as progress:` shows loss, tokens per second, memory and the time left."""

    def __init__(self, steps: int, title: str = "training", done: int = 0, shown: bool = True):
        """done: steps of an earlier process. shown: False for all but one of several processes."""
        columns = (
            TextColumn(title),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} tokens/s"),
            TextColumn("{task.fields[memory]:.1f} GB"),
            TimeRemainingColumn(),
        )
        self._bars = Bars(*columns, console=Console(stderr=True), disable=not shown)
        nothing = float("nan")
        self._task = self._bars.add_task(title, total=steps, completed=done, loss=nothing, speed=0.0, memory=memory())

    def show(self, loss: float, speed: float) -> None:
        """One more step is done. speed: target tokens per second so far."""
        self._bars.update(self._task, advance=1, loss=loss, speed=speed, memory=memory())

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()


def memory() -> float:
    """The most that this process has held so far, in GB: of the CUDA device if it uses one, else of the machine."""
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated() / 1e9
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e9 if sys.platform == "darwin" else peak / 1e6  # macOS counts bytes, Linux kB
