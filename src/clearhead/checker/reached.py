"""The points that two models both come by on their way, in order, with what each has there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import Tensor, nn

from clearhead.lens.record import record
from clearhead.lens.rows import Scores
from clearhead.model.transformer import Transformer
from clearhead.tap import sites

Point = tuple[str, Tensor, Tensor]
Run = Callable[[Any], Any]


def points(a: nn.Module, b: nn.Module, run: Run) -> Iterator[Point]:
    """(name, a's, b's): the addresses of two models of ours, else submodules that correspond."""
    if isinstance(a, Transformer) and isinstance(b, Transformer):
        return addresses(a, b, run)
    left, right = outputs(a, run), outputs(b, run)
    return iter(same_names(left, right) or same_order(a, b, left, right) or same_blocks(a, b, left, right))


def addresses(a: Transformer, b: Transformer, run: Run) -> Iterator[Point]:
    with record(a, ["*"]) as left:
        run(a)
    with record(b, ["*"]) as right:
        run(b)
    for site in sites(a.config):
        if site in left and site in right:
            yield site, dense(left[site]), dense(right[site])


def dense(value: Tensor | Scores) -> Tensor:
    return value.dense() if isinstance(value, Scores) else value


def outputs(model: nn.Module, run: Run) -> dict[str, Tensor]:
    """What each submodule gave the first time, by name, in the order in which they finished."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(_module: nn.Module, _inputs: Any, out: Any) -> None:
            value = out[0] if isinstance(out, tuple | list) and out else out
            if isinstance(value, Tensor):
                found.setdefault(name, value.detach())

        return hook

    handles = [part.register_forward_hook(keep(name)) for name, part in model.named_modules() if name]
    try:
        run(model)
    finally:
        for handle in handles:
            handle.remove()
    return found


def same_names(left: dict[str, Tensor], right: dict[str, Tensor]) -> list[Point]:
    return [(name, value, right[name]) for name, value in left.items() if name in right]


def same_order(a: nn.Module, b: nn.Module, left: dict[str, Tensor], right: dict[str, Tensor]) -> list[Point]:
    """Leaves one by one, where both have as many, of the same shapes."""
    ours, others = leaves(a, left), leaves(b, right)
    if [left[name].shape for name in ours] != [right[name].shape for name in others]:
        return []
    return [(f"{n} / {m}", left[n], right[m]) for n, m in zip(ours, others, strict=True)]


def leaves(model: nn.Module, found: dict[str, Tensor]) -> list[str]:
    return [name for name in found if not any(True for _ in model.get_submodule(name).children())]


def same_blocks(a: nn.Module, b: nn.Module, left: dict[str, Tensor], right: dict[str, Tensor]) -> list[Point]:
    """The blocks of the longest list of layers, where both have as many."""
    ours, others = blocks(a), blocks(b)
    if len(ours) != len(others):
        return []
    pairs = zip(ours, others, strict=True)
    return [(f"{n} / {m}", left[n], right[m]) for n, m in pairs if n in left and m in right]


def blocks(model: nn.Module) -> list[str]:
    lists = [(name, len(part)) for name, part in model.named_modules() if isinstance(part, nn.ModuleList)]
    name, count = max(lists, key=lambda one: one[1], default=("", 0))
    return [f"{name}.{i}" for i in range(count)]
