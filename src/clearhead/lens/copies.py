"""One input, run as many copies in one batch, each with a change of its own at one address.

What comes before the changed layer is known from a plain run and is not computed again. The results are those of one
run for each change.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.lens.edit import edit
from clearhead.lens.edits import Edit
from clearhead.lens.inputs import writes_beside
from clearhead.lens.measure import Metric, number
from clearhead.lens.record import record
from clearhead.model.loss import loss_of
from clearhead.model.stack import Stack
from clearhead.model.transformer import Output, Transformer, shift_right

ROOM, ROWS = 2**26, 64  # numbers in the largest result of one run, and rows, beyond which it gets no faster


class Copies:
    """`plain` is the output without any change."""

    def __init__(self, model: Transformer, arguments: dict[str, Any], batch: int | None = None) -> None:
        """batch: rows of one run, by default ROWS or as many as ROOM allows. Raises ValueError as the model does."""
        if batch is not None and batch < 1:
            raise ValueError(f"batch is {batch}; it is how many rows run at once, 1 or more")
        self.model = model
        self.arguments = {name: value for name, value in arguments.items() if value is not None}
        with torch.no_grad(), record(model, "*.residual") as self.seen:
            self.plain: Output = model(**self.arguments)
        self.labels: Tensor | None = self.arguments.pop("labels", None)  # each copy's loss is computed by itself
        if self.labels is not None and writes_beside(model) and "decoder_input_ids" not in arguments:
            first, pad = model.config.first, model.config.pad
            assert first is not None, "the plain run has shifted them"
            assert pad is not None, "the plain run has shifted them"
            self.arguments["decoder_input_ids"] = shift_right(self.labels, first, pad)
        largest = max(value.numel() for value in _tensors(self.plain))
        assert self.plain.hidden is not None
        self.rows = len(self.plain.hidden)
        self.copies = max(1, (batch or min(ROWS, ROOM * self.rows // largest)) // self.rows)

    def reached(self, addresses: Iterable[str]) -> list[str]:
        """Those that this input comes by. Raises ValueError if there are none."""
        wanted = list(addresses)
        found = [address for address in wanted if f"{address.split('.')[0]}.0.residual" in self.seen]
        if not found:
            raise ValueError(
                f"{wanted[0]} is not computed: encoder_hidden is given; give what the encoder reads instead"
            )
        return found

    def run(self, address: str, changes: Sequence[Edit]) -> Iterator[Output]:
        """The outputs with each of the changes (see `Edit.at`) made at the address."""
        for first in range(0, len(changes), self.copies):
            some = changes[first : first + self.copies]
            with torch.no_grad(), self._from(address, len(some)), edit(self.model, {address: _each(some)}):
                out: Output = self.model(**self._repeated(address, len(some)))
            for i in range(len(some)):
                yield self._part(out, slice(i * self.rows, (i + 1) * self.rows))

    def _repeated(self, address: str, times: int) -> dict[str, Any]:
        """The arguments for so many copies; behind the encoder, with its states instead of what it reads."""
        given = dict(self.arguments)
        if address.startswith("decoder.") and writes_beside(self.model):
            given = {n: t for n, t in given.items() if n not in ("input_ids", "input_features", "token_type_ids")}
            assert self.plain.encoder_hidden is not None
            given["encoder_hidden"] = self.plain.encoder_hidden
        shared = ("positions", "token_type_ids")  # may be [T], the same for every row
        return {n: t if t.dim() == 1 and n in shared else torch.cat([t] * times) for n, t in given.items()}

    def _from(self, address: str, times: int) -> AbstractContextManager[None]:
        stack, *inner = address.split(".")
        module = self.model.encoder if stack == "encoder" else self.model.decoder
        assert module is not None
        first = len(module.order) if inner == ["final"] else 0 if inner == ["embed"] else int(inner[0])
        if not first:
            return nullcontext()
        return _known(module, first, torch.cat([self.seen[f"{stack}.{first - 1}.residual"]] * times))

    def _part(self, out: Output, rows: slice) -> Output:
        """One copy's output, with the loss of its own."""
        found: dict[str, Any] = {n: v[rows] for n, v in out._asdict().items() if isinstance(v, Tensor) and v.dim()}
        part = Output(**found)
        head, mask = self.model.config.head, self.arguments.get("attention_mask")
        if self.labels is None or part.logits is None or head is None:
            return part
        return part._replace(loss=loss_of(head, part.logits, self.labels, self.model.encoder is None, mask))


def _tensors(out: Output) -> list[Tensor]:
    return [value for value in out if isinstance(value, Tensor)]


def _each(changes: Sequence[Edit]) -> Callable[[Tensor], Tensor]:
    """Every copy its own change."""

    def change(value: Tensor) -> Tensor:
        parts = value.chunk(len(changes))
        return torch.cat([one(part, 0) for one, part in zip(changes, parts, strict=True)])

    return change


class _Known(nn.Module):
    """Stands for a layer whose result is known."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states

    def forward(self, *given: object) -> Tensor:
        return self.states


@contextmanager
def _known(stack: Stack, first: int, states: Tensor) -> Generator[None]:
    """Within the block the layers before `first` are not computed: `states` [B, T, D] enter it."""
    layers, order = stack.layers, stack.order
    stack.layers = nn.ModuleList([_Known(states)] * first + [layers[i] for i in order[first:]])
    stack.order = tuple(range(len(order)))
    try:
        yield
    finally:
        stack.layers, stack.order = layers, order


def gradients(
    model: Transformer, arguments: dict[str, Any], metric: Metric | None, addresses: Sequence[str]
) -> tuple[float, dict[str, tuple[Tensor, Tensor]]]:
    """The metric, and at each address the value and the metric's gradient there. No parameter's gradient is touched.

    Raises ValueError if the metric does not depend on the output by way of tensors.
    """
    kept: dict[str, Tensor] = {}

    def keeping(address: str) -> Callable[[Tensor], Tensor]:
        def keep(value: Tensor) -> Tensor:
            kept[address] = value if value.requires_grad else value.detach().requires_grad_()
            return kept[address]

        return keep

    with torch.enable_grad(), edit(model, {address: keeping(address) for address in addresses}):
        value = number(metric, model(**arguments))
        if not value.requires_grad:
            raise ValueError("the metric gave a number without a gradient; for method='gradient' return a tensor")
        found = torch.autograd.grad(value, list(kept.values()), materialize_grads=True)
    pairs = zip(kept.items(), found, strict=True)
    return float(value.detach()), {address: (there.detach(), grad) for (address, there), grad in pairs}
