"""Record what a model computes, without changing a bit of it.

Weights and scores are not stored: the queries and keys that enter the product are, and the rule. Any row, head or
statistic is computed from them when it is asked for, so that a recording takes O(n) memory.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.formulas.attention import Scoring
from clearhead.formulas.mask import Visible
from clearhead.formulas.position import DistanceBias
from clearhead.lens.aliases import addresses, aliases
from clearhead.lens.compiled import hear, hear_product, number_of
from clearhead.lens.listen import bare, listening
from clearhead.lens.rows import Gradient, Scores, Weights, Written
from clearhead.lens.seen import Recorded, Seen


class Recorder:
    """Keeps what passes at the wanted addresses."""

    def __init__(
        self,
        wanted: frozenset[str],
        names: Mapping[str, str],
        grad: bool = False,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        limit: int | None = None,
    ) -> None:
        self.seen, self.number = Seen(names), number_of(self)
        self.wanted, self.grad, self.dtype, self.device, self.limit = wanted, grad, dtype, device, limit
        self.hooks: list[Any] = []
        self._texts: dict[str, Tensor] = {}
        self._memory: set[int] = set()  # addresses in memory of what is held
        self._products: dict[str, tuple[Tensor, Scoring]] = {}  # values and rule of attentions that are going on

    def text(self, stack: str, ids: Tensor | None, cache: Any) -> None:
        if ids is None or ids.is_floating_point():
            return
        past = None if cache is None else cache.ids
        self._texts[stack] = ids if past is None else torch.cat([past, ids], dim=1)

    def value(self, address: str, value: Tensor) -> None:
        prefix, _, site = address.rpartition(".")
        looked_into = self.grad and site == "heads" and f"{prefix}." in self._products
        if address not in self.wanted and not looked_into:
            return
        if torch.compiler.is_compiling():
            if self.grad:
                raise ValueError("record(grad=True) needs the model as it is, not compiled: run the uncompiled one")
            hear(self, address, value)
            return
        if torch._C._current_graph_task_id() != -1:  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue, reportUnknownMemberType]
            raise ValueError(
                f"{address} is computed again during the backward pass (activation checkpointing), which would record "
                "it twice; record without checkpointing, or in a forward pass without gradients"
            )
        if address in self.wanted:
            self.keep(address, value)
        if self.grad and value.requires_grad:
            self._await(address, value)

    def product(self, address: str, q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, opened: bool) -> None:
        if not {f"{address}weights", f"{address}scores"} & self.wanted:
            return
        if torch.compiler.is_compiling():
            if not opened:
                hear_product(self, address, q, k, v, scoring)
            return
        if self.grad or opened:
            self._products[address] = v.detach(), scoring
        if not opened:
            self.keep_product(address, q, k, v, scoring)

    def keep_product(self, address: str, q: Tensor, k: Tensor, v: Tensor, scoring: Scoring) -> None:
        """Keep the views of an attention, which share their queries and keys."""
        q, k = self._held(address, q), self._held(address, k)
        scoring = _moved(scoring, self.device)
        for name, view in (("scores", Scores(q, k, scoring)), ("weights", Weights(q, k, scoring))):
            if address + name in self.wanted:
                self.seen.keep(address + name, view, self._texts)

    def keep(self, address: str, value: Tensor) -> None:
        """Keep a value. Weights that pass in the open become a view like any other."""
        prefix, _, site = address.rpartition(".")
        held: Recorded = self._held(address, value)
        if site in ("weights", "scores"):
            usual = Scoring(Visible.last(*value.shape[-2:], causal=".self." in address), 1.0)
            held = Written(held, _moved(self._products.get(f"{prefix}.", (value, usual))[1], self.device), site)
        self.seen.keep(address, held, self._texts)

    def _await(self, address: str, value: Tensor) -> None:
        """Gradients of values come by a hook; those of weights follow from that of their product with the values."""
        prefix, _, site = address.rpartition(".")
        found, views = self.seen.grads, dict[str, Recorded]()
        if site == "heads" and f"{prefix}." in self._products:
            views = {
                a: view
                for a in (f"{prefix}.scores", f"{prefix}.weights")
                if (view := self.seen.calls[-1].get(a)) is not None
            }

        def arrived(grad: Tensor) -> None:
            if address in self.wanted:
                found[address] = grad
            for view_of, view in views.items():
                if isinstance(view, Scores) and not isinstance(view, Written):
                    found[view_of] = Gradient(grad, self._products[f"{prefix}."][0], view)

        self.hooks.append(value.register_hook(arrived))

    def _held(self, address: str, value: Tensor) -> Tensor:
        """The value as it is kept. Raises ValueError if that takes more memory than allowed."""
        kept = value.detach().to(device=self.device, dtype=self.dtype)
        storage = kept.untyped_storage()
        if storage.data_ptr() not in self._memory:
            total = self.seen.bytes + storage.nbytes()
            if self.limit is not None and total > self.limit:
                raise ValueError(
                    f"with {address} the recording would hold {total:,} bytes, the limit is {self.limit:,}; record "
                    "fewer addresses or a shorter text (see clearhead.lens.cost), or raise the limit"
                )
            self._memory.add(storage.data_ptr())
            self.seen.bytes = total
        return kept


def _moved(scoring: Scoring, device: torch.device | str | None) -> Scoring:
    """The rule as it is now: later training changes nothing in it, and it holds no gradients. On another device."""
    visible, bias = scoring.visible, scoring.bias
    tensors = {
        f.name: t.to(device=device) for f in fields(visible) if isinstance(t := getattr(visible, f.name), Tensor)
    }
    if isinstance(bias, DistanceBias):
        bias = replace(bias, table=bias.table.detach().clone())  # a parameter, which a sharded model takes away again
        bias = bias if device is None else bias.to(device)
    elif bias is not None:
        bias = bias.detach().to(device=device)
    return replace(scoring, visible=replace(visible, **tensors), bias=bias)


@contextmanager
def record(
    model: nn.Module,
    wanted: str | Sequence[str],
    *,
    grad: bool = False,
    dtype: torch.dtype | None = None,
    device: torch.device | str | None = None,
    limit: int | None = None,
) -> Generator[Seen]:
    """Within the block, whatever runs the model is recorded at these addresses (globs; `*` crosses dots).

    TransformerLens's names will do as well (see aliases.py). Recorders may be nested; each hears what the model goes on
    with, after every edit. grad: gradients too, in `seen.grads`, of every backward pass inside the block. dtype and
    device: of what is kept, by default as it was. limit: bytes that it may hold.

    Raises ValueError for a pattern that matches no address of the model, before anything runs, and in the middle of a
    call that would go over the limit.
    """
    config = bare(model).config
    recorder = Recorder(frozenset(addresses(config, wanted)), aliases(config), grad, dtype, device, limit)
    try:
        with listening(model, ears=(recorder,)):
            yield recorder.seen
    finally:
        for hook in recorder.hooks:
            hook.remove()
