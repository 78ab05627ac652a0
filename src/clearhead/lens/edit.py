"""Change what a model computes, at any address, while a block runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.lens.edits import Edit
from clearhead.lens.listen import bare, chosen, listening
from clearhead.model.transformer import Transformer

Change = Edit | Callable[[Tensor], Tensor]


class Editor:
    """Changes by address, each in the order in which it was given."""

    def __init__(self, changes: Mapping[str, tuple[Change, ...]]) -> None:
        self.changes = dict(changes)
        self.opened = {
            address.rpartition(".")[0] + "." for address in changes if address.endswith((".scores", ".weights"))
        }
        self.missed = {(address, change) for address, several in changes.items() for change in several}
        self.ran = False

    def opens(self, address: str) -> bool:
        return address in self.opened

    def text(self, stack: str, ids: Tensor | None, cache: Any) -> None:
        self.ran = True

    def changed(self, address: str, value: Tensor, start: int) -> Tensor:
        """Raises ValueError if a change gives another shape, type or device back."""
        if address not in self.changes:
            return value
        for change in self.changes[address]:
            new = change(value, start) if isinstance(change, Edit) else change(value)
            _check(address, value, new)
            if not torch.compiler.is_compiling() and (not isinstance(change, Edit) or change.touches(value, start)):
                self.missed.discard((address, change))
            value = new
        return value


def _check(address: str, value: Tensor, new: object) -> None:
    if not isinstance(new, Tensor):
        raise ValueError(f"the edit of {address} returned {type(new).__name__}; it must return a tensor")
    for what in ("shape", "dtype", "device"):
        was, came = getattr(value, what), getattr(new, what)
        if was != came:
            raise ValueError(
                f"the edit of {address} made {what} {_plain(came)} out of {_plain(was)}; keep it as it was"
            )


def _plain(value: object) -> object:
    return list(value) if isinstance(value, torch.Size) else value


@contextmanager
def edit(model: nn.Module, changes: Mapping[str, Change]) -> Generator[Transformer]:
    """Within the block, whatever runs the model is changed at these addresses (globs; `*` crosses dots).

    A change is one of edits.py (`ablate`, `steer`, `patch` ...) or a function of the value there. Several changes of
    one address are made in the order of `changes`, blocks from the outermost in; recorders hear the result. Only an
    edit of `scores` or `weights` has attention written out, in the layers that it names. In training the gradient flows
    through the change; with a cache it is made once, to the tokens that a call adds.

    Raises ValueError when the block is entered for an address or a head that does not exist, in a call for a change
    that returns another shape or type, and when the block ends for one that the running model never came by.
    """
    inner = bare(model)
    found = chosen(inner.config, changes)
    placed: dict[str, tuple[Change, ...]] = {}
    for pattern, change in changes.items():
        for address in found[pattern]:
            ready = change.at(address, inner.config) if isinstance(change, Edit) else change
            placed[address] = (*placed.get(address, ()), ready)
    editor = Editor(placed)
    with listening(inner, hands=(editor,)):
        yield inner
    if editor.ran and editor.missed:
        missed = ", ".join(sorted({address for address, _ in editor.missed}))
        raise ValueError(f"the model ran, but never came by {missed}, or by the tokens named: the edit had no effect")
