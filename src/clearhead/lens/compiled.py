"""How a recorder hears a compiled model: through one opaque operator, so that the graph has nothing to guess about it.

A Python list that grows with each call would make the compiler look again each time. The operator writes to nothing
that the graph knows but a number, the recorder's, which keeps it from being left out or reordered.
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakValueDictionary

import torch
from torch import Tensor

from clearhead.formulas.attention import Scoring
from clearhead.formulas.mask import Visible


class Heard(Protocol):
    """Whom the operator calls when the graph runs."""

    number: Tensor

    def keep(self, address: str, value: Tensor) -> None: ...
    def keep_product(self, address: str, q: Tensor, k: Tensor, v: Tensor, scoring: Scoring) -> None: ...


EARS: WeakValueDictionary[int, Any] = WeakValueDictionary()


def number_of(ear: Any) -> Tensor:
    """A number that stands for this recorder in a graph: data, not a constant, so that one graph serves them all."""
    number = max(EARS, default=-1) + 1
    EARS[number] = ear
    return torch.tensor(number)


@torch.library.custom_op("clearhead::hear", mutates_args=("ear",))
def _hear(ear: Tensor, address: str, form: str, values: list[Tensor]) -> None:
    who: Heard = EARS[int(ear)]
    values = [value.clone() for value in values]  # the graph uses its buffers again
    if form:
        q, k, v, *rest = values
        who.keep_product(address, q, k, v, _scoring(form, rest))
    else:
        who.keep(address, values[0])


def hear(ear: Heard, address: str, value: Tensor) -> None:
    """Have `ear.keep(address, value)` called when the graph runs."""
    _hear(ear.number, address, "", [value.detach()])


def hear_product(ear: Heard, address: str, q: Tensor, k: Tensor, v: Tensor, scoring: Scoring) -> None:
    """Have `ear.keep_product(...)` called when the graph runs."""
    s = scoring.visible
    optional = (s.mask, s.q_documents, s.k_documents, scoring.added())
    given = [t for t in optional if t is not None]
    there = "".join("1" if t is not None else "0" for t in optional)
    flags = f"{int(s.causal)}{int(s.aligned)}{int(s.seeing)}"
    form = f"{there} {flags} {s.window} {scoring.scale} {scoring.softcap}"
    _hear(ear.number, address, form, [t.detach() for t in (q, k, v, s.q_positions, s.k_positions, *given)])


def _scoring(form: str, tensors: list[Tensor]) -> Scoring:
    there, flags, window, scale, softcap = form.split(" ")
    q_positions, k_positions, *rest = tensors
    left = iter(rest)
    mask, q_documents, k_documents, bias = (next(left) if bit == "1" else None for bit in there)
    causal, aligned, seeing = (bit == "1" for bit in flags)
    width = None if window == "None" else int(window)
    visible = Visible(q_positions, k_positions, causal, width, mask, q_documents, k_documents, aligned, seeing)
    return Scoring(visible, float(scale), None if softcap == "None" else float(softcap), bias)
