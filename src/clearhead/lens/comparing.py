"""Which head of one model looks where a head of another does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import torch
from torch import Tensor, nn

from clearhead.lens.inputs import Inputs, arguments, at_rest
from clearhead.lens.measure import heads_of, kept
from clearhead.lens.progress import steps
from clearhead.lens.record import record
from clearhead.lens.rows import Weights
from clearhead.lens.table import Table

ROOM = 2**23  # weights in one block of rows, all heads of both models

Kinds = dict[tuple[str, str], dict[str, Weights]]  # by stack and part: the attentions


def compare_heads(
    model_a: nn.Module, model_b: nn.Module, inputs: Inputs, *, parts: str | Sequence[str] = "*", progress: bool = True
) -> Table:
    """How alike the weights of every head of a and every head of b are on a text: 1 minus their total variation, mean
    over all queries, [head of a, head of b]: 1 = always the same, 0 = never a key in common.

    inputs: see inputs.py; what is no padding counts. Heads are compared where they can be: self with self and cross
    with cross, each stack with its own, a model of one stack with either; the rest is NaN. `more["match"]`: for each
    head of a the head of b that is most like it. Weights are computed a block of rows at a time.

    Raises ValueError if nothing can be compared, such as where the models read the text as unlike numbers of tokens.
    """
    with at_rest(model_a) as a, at_rest(model_b) as b, torch.no_grad():
        given = arguments(a, inputs)
        ours = _kinds(a, given, parts)
        theirs = _kinds(b, arguments(b, inputs), parts)
        either = min(len(a.config.stacks), len(b.config.stacks)) == 1
        pairs = [(x, y) for x in ours for y in theirs if x[1] == y[1] and (either or x[0] == y[0])]
        pairs = [(x, y) for x, y in pairs if _sizes(ours[x]) == _sizes(theirs[y])]
        if not pairs:
            said = ["; ".join(f"{'.'.join(x)} {_sizes(v)}" for x, v in kinds.items()) for kinds in (ours, theirs)]
            raise ValueError(
                f"no attention of the two models has the same texts, queries and keys: {said[0]} against {said[1]}; "
                "give both the same ids"
            )
        rows, columns = (_labels(kinds) for kinds in (ours, theirs))
        values = torch.full((len(rows), len(columns)), torch.nan, dtype=torch.float64)
        for x, y in pairs:
            mine, other = _labels({x: ours[x]}), _labels({y: theirs[y]})
            found = _agreement([*ours[x].values()], [*theirs[y].values()], kept(a, given, x[0]), progress)
            places = torch.tensor([rows.index(label) for label in mine])[:, None]
            values[places, torch.tensor([columns.index(label) for label in other])] = found
    best = values.nan_to_num(-1.0).max(1)
    match = {label: columns[int(j)] for label, j, v in zip(rows, best.indices, best.values, strict=True) if v >= 0}
    note = "1 = the same weights at every query, 0 = no key in common"
    return Table("agreement of heads", {"a": rows, "b": columns}, values, "1 - total variation", note, {"match": match})


def _kinds(model: nn.Module, given: Mapping[str, object], parts: str | Sequence[str]) -> Kinds:
    with at_rest(model) as inner:
        places = heads_of(inner.config, parts)
        with record(inner, [f"{place}.weights" for place in places]) as seen:
            inner(**given)
    there = sorted((place for place in places if f"{place}.weights" in seen), key=_kind)
    return {kind: {place: seen[f"{place}.weights"] for place in some} for kind, some in groupby(there, _kind)}


def _kind(place: str) -> tuple[str, str]:
    stack, _, part = place.split(".")
    return stack, part


def _sizes(views: Mapping[str, Weights]) -> list[int]:
    batch, _, queries, keys = next(iter(views.values())).shape
    return [batch, queries, keys]


def _labels(kinds: Kinds) -> list[str]:
    return [
        f"{place} head {head}" for views in kinds.values() for place, v in views.items() for head in range(v.shape[1])
    ]


def _agreement(ours: list[Weights], theirs: list[Weights], counted: Tensor | None, progress: bool) -> Tensor:
    """[heads of ours, heads of theirs], mean over the counted queries [B, Q]."""
    batch, _, queries, keys = ours[0].shape
    step = max(1, ROOM // (batch * keys * sum(view.shape[1] for view in (*ours, *theirs))))
    counted = torch.ones(batch, queries, device=ours[0].q.device) if counted is None else counted
    total = torch.zeros(1, dtype=torch.float64)
    blocks = [slice(top, min(top + step, queries)) for top in range(0, queries, step)]
    for rows in steps("comparing heads", blocks, progress):
        a, b = (torch.cat([_wide(view.block(rows)) for view in views], 1) for views in (ours, theirs))  # [B H r K]
        apart = torch.cdist(a.transpose(1, 2), b.transpose(1, 2).to(a), p=1)  # [B r H H'] sum of |difference|
        share = counted[:, rows, None, None].double()
        total = total + ((1 - apart.double() / 2) * share).sum((0, 1)).cpu()
    return total / float(counted.sum())


def _wide(weights: Tensor) -> Tensor:
    return weights.to(torch.promote_types(weights.dtype, torch.float32))
