"""What a model loses with each of its heads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from torch import Tensor, nn

from clearhead.lens.copies import Copies, gradients
from clearhead.lens.edits import Edit, ablate
from clearhead.lens.inputs import Inputs, arguments, at_rest
from clearhead.lens.measure import Metric, heads_of, labelled, number, ragged
from clearhead.lens.progress import steps
from clearhead.lens.table import Table
from clearhead.model.transformer import Transformer


def head_importance(
    model: nn.Module,
    inputs: Inputs,
    *,
    metric: Metric | None = None,
    to: str | Tensor = "zero",
    parts: str | Sequence[str] = "*",
    method: Literal["exact", "gradient"] = "exact",
    batch: int | None = None,
    progress: bool = True,
) -> Table:
    """How much a metric changes when a head is taken out: with the head ablated minus as it is [attention, head].

    inputs: see inputs.py. metric: what is measured of an Output, one number; None: the loss, to a decoder alone of its
    own text, else of the target or the labels that are given. to: what stands in the place of weights @ v of the head
    (see `ablate`). parts: globs of the attentions, such as "decoder.*.cross". Heads that a layer does not have are NaN.

    exact: every ablation is run (Michel et al. 2019, section 2), many in a batch of `batch` rows, each from its
    own layer on. gradient: (replacement - value) . gradient, a first-order estimate from one pass forward and backward.

    Raises ValueError for a metric that is no single number, and as `ablate` and the model do.
    """
    with at_rest(model) as inner:
        given = labelled(inner, inputs) if metric is None else arguments(inner, inputs)
        changes = {
            f"{place}.heads": [ablate([head], to=to).at(f"{place}.heads", inner.config) for head in range(count)]
            for place, count in heads_of(inner.config, parts).items()
        }
        copies = Copies(inner, given, batch)
        changes = {address: changes[address] for address in copies.reached(changes)}
        plain = float(number(metric, copies.plain))
        if method == "exact":
            found = _exact(copies, metric, plain, changes, progress)
        else:
            found = _estimated(inner, given, metric, changes)
    values = ragged(found)
    axes = {
        "attention": [address.removesuffix(".heads") for address in changes],
        "head": [str(head) for head in range(values.shape[1])],
    }
    what = "loss" if metric is None else "metric"
    note = f"{what} with the head ablated minus {what} as it is ({plain:.6g})" + (
        "" if method == "exact" else "; estimated to first order"
    )
    return Table("importance of heads", axes, values, what, note, {what: plain})


def _exact(
    copies: Copies, metric: Metric | None, plain: float, changes: dict[str, list[Edit]], progress: bool
) -> list[list[float]]:
    return [
        [float(number(metric, out)) - plain for out in copies.run(address, edits)]
        for address, edits in steps("ablating heads", list(changes.items()), progress)
    ]


def _estimated(
    model: Transformer, given: dict[str, Tensor], metric: Metric | None, changes: dict[str, list[Edit]]
) -> list[list[float]]:
    _, slopes = gradients(model, given, metric, list(changes))
    return [
        [float(((edit(value, 0) - value) * slope).double().sum()) for edit in changes[address]]
        for address, (value, slope) in slopes.items()
    ]
