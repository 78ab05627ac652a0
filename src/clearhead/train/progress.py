"""The live line of a training run, on stderr."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars


class Progress:
    """`with Progress(steps) as progress:` shows loss, tokens per second and the time left."""

    def __init__(self, steps: int, title: str = "training", done: int = 0):
        """done: steps of an earlier process."""
        columns = (
            TextColumn(title),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.3f}  {task.fields[speed]:,.0f} tokens/s"),
            TimeRemainingColumn(),
        )
        self._bars = Bars(*columns, console=Console(stderr=True))
        self._task = self._bars.add_task(title, total=steps, completed=done, loss=float("nan"), speed=0.0)

    def show(self, loss: float, speed: float) -> None:
        """One more step is done. speed: target tokens per second so far."""
        self._bars.update(self._task, advance=1, loss=loss, speed=speed)

    def __enter__(self) -> "Progress":
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
