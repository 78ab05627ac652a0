"""Where it matters: values of one run put into another, place by place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clearhead.config import TransformerConfig
from clearhead.lens.copies import Copies, gradients
from clearhead.lens.edits import patch
from clearhead.lens.inputs import Inputs, arguments, at_rest
from clearhead.lens.listen import chosen
from clearhead.lens.measure import Metric, number
from clearhead.lens.progress import steps
from clearhead.lens.record import record
from clearhead.lens.rows import Scores
from clearhead.lens.table import Table
from clearhead.model.transformer import Output, Transformer

Groups = list[tuple[int, ...]]  # positions that are patched together


def patch_sweep(
    model: nn.Module,
    clean: Inputs,
    corrupted: Inputs,
    metric: Metric,
    *,
    sites: str | Sequence[str] = "residual",
    positions: Iterable[int | Sequence[int]] | None = None,
    method: Literal["exact", "gradient"] = "exact",
    batch: int | None = None,
    progress: bool = True,
) -> Table:
    """The metric of the corrupted run with values of the clean run put in at one place (Meng et al. 2022, section 2):
    [site, layer, position]. Where all is patched, it is the clean run's; where nothing depends on the place, the
    corrupted run's (both in `more`; `restored` gives the share between them).

    clean, corrupted: inputs of the same sizes (see inputs.py). metric: what is measured of an Output, one number.
    sites: their names within a layer ("residual", "self.out", "cross.heads", "feed_forward.out" ...), "embed", "final",
    or addresses and globs of them. positions: tokens, each by itself; a sequence of some is patched together; None:
    every one. A place that a stack does not have is NaN.

    exact: every patch is run, many in a batch of `batch` rows, each from its own layer on. gradient: attribution
    patching (Nanda 2023), corrupted metric + (clean - corrupted) . gradient, a first-order estimate.

    Raises ValueError for unlike sizes, an unknown site, positions that are not there, a metric that is not one number.
    """
    with at_rest(model) as inner:
        given = [arguments(inner, clean), arguments(inner, corrupted)]
        _check_alike(*given)
        copies = Copies(inner, given[1], batch)
        addresses = copies.reached(_addresses(inner.config, sites))
        (source, there), (value, _) = (_values(inner, run, addresses) for run in given)
        ends = [float(number(metric, out)) for out in (there, copies.plain)]
        groups = _groups(positions, {a: v.shape[-2] for a, v in source.items()})
        if method == "gradient":
            _, slopes = gradients(inner, given[1], metric, addresses)
            found = {a: _estimated(ends[1], source[a], *slopes[a], groups) for a in addresses}
        else:
            found = {
                a: _exact(copies, a, source[a], value[a], metric, ends[1], groups)
                for a in steps("patching", addresses, progress)
            }
    more = {"clean": ends[0], "corrupted": ends[1]}
    note = f"clean {ends[0]:.6g}, corrupted {ends[1]:.6g}"
    return _table(found, groups, note + ("" if method == "exact" else "; estimated to first order"), more)


def restored(table: Table) -> Table:
    """A `patch_sweep` as the share of the difference that each patch makes good: 0 corrupted, 1 clean.

    Raises ValueError where the two runs have the same metric.
    """
    clean, corrupted = table.more["clean"], table.more["corrupted"]
    if clean == corrupted:
        raise ValueError(f"the metric is {clean} in both runs, so there is no difference to restore; choose another")
    values = (table.values - corrupted) / (clean - corrupted)
    return replace(table, values=values, unit="share of the difference", note="0 corrupted, 1 clean; " + table.note)


def _check_alike(clean: Mapping[str, Any], corrupted: Mapping[str, Any]) -> None:
    for name in {**clean, **corrupted}:
        sizes = [list(v.shape) if isinstance(v := given.get(name), Tensor) else v for given in (clean, corrupted)]
        if sizes[0] != sizes[1]:
            raise ValueError(
                f"{name} is {sizes[0]} in the clean input and {sizes[1]} in the corrupted one; values can be put from "
                "one into the other only token by token: give texts of as many tokens"
            )


def _addresses(config: TransformerConfig, sites: str | Sequence[str]) -> list[str]:
    names = [sites] if isinstance(sites, str) else list(sites)
    patterns = [name if "*" in name or name.split(".")[0] in config.stacks else f"*.{name}" for name in names]
    found = dict.fromkeys(a for matched in chosen(config, patterns).values() for a in matched)
    inside = [address for address in found if "." in address]
    if not inside:
        raise ValueError(f"{', '.join(found)} has no place in a stack, so it cannot be patched token by token")
    return inside


def _groups(positions: Iterable[int | Sequence[int]] | None, tokens: Mapping[str, int]) -> Groups:
    """Raises ValueError for a position that no address has."""
    longest = max(tokens.values())
    wanted = range(longest) if positions is None else positions
    groups = [(group,) if isinstance(group, int) else tuple(group) for group in wanted]
    for group in groups:
        if not group or min(group) < 0 or max(group) >= longest:
            raise ValueError(f"positions holds {list(group)}, but there are {longest} tokens, 0 to {longest - 1}")
    return groups


def _values(model: Transformer, given: dict[str, Any], addresses: list[str]) -> tuple[dict[str, Tensor], Output]:
    with record(model, addresses) as seen:
        out: Output = model(**given)
    return {a: v.dense() if isinstance(v, Scores) else v for a, v in seen.items()}, out


def _exact(
    copies: Copies, address: str, source: Tensor, value: Tensor, metric: Metric, corrupted: float, groups: Groups
) -> list[float]:
    """Where both runs have the same values, such as before the first token that differs, nothing need be run."""
    there = [group for group in groups if max(group) < source.shape[-2]]
    unlike = [g for g in there if not torch.equal(source[..., list(g), :], value[..., list(g), :])]
    edits = [patch(source, group).at(address, copies.model.config) for group in unlike]
    outputs = copies.run(address, edits)
    found = dict.fromkeys(there, corrupted)
    found |= {group: float(number(metric, out)) for group, out in zip(unlike, outputs, strict=True)}
    return [found.get(group, float("nan")) for group in groups]


def _estimated(corrupted: float, source: Tensor, value: Tensor, slope: Tensor, groups: Groups) -> list[float]:
    change = torch.where(source == value, 0.0, source - value)  # hidden scores are -inf in both
    each = (change * slope).cpu().double().movedim(-2, 0).flatten(1).sum(1)  # [T]
    there = len(each)
    return [corrupted + float(each[list(g)].sum()) if max(g) < there else float("nan") for g in groups]


def _table(found: Mapping[str, list[float]], groups: Groups, note: str, more: dict[str, float]) -> Table:
    places = {address: _place(address) for address in found}
    sites = list(dict.fromkeys(site for site, _ in places.values()))
    layers = sorted({layer for _, layer in places.values()}, key=_depth)
    values = torch.full((len(sites), len(layers), len(groups)), torch.nan, dtype=torch.float64)
    for address, row in found.items():
        site, layer = places[address]
        values[sites.index(site), layers.index(layer)] = torch.tensor(row, dtype=torch.float64)
    axes = {"site": sites, "layer": layers, "position": [_label(group) for group in groups]}
    return Table("patching", axes, values, "metric", note, more)


def _place(address: str) -> tuple[str, str]:
    """Site and layer: "self.out" and "decoder.3", or "embed" and "decoder"."""
    stack, *rest = address.split(".")
    return (".".join(rest[1:]), f"{stack}.{rest[0]}") if len(rest) > 1 else (rest[0], stack)


def _depth(layer: str) -> tuple[bool, int]:
    """The encoder first, in each stack what belongs to no layer first."""
    stack, _, number = layer.partition(".")
    return stack == "decoder", int(number or -1)


def _label(group: tuple[int, ...]) -> str:
    run = group == tuple(range(group[0], group[-1] + 1))
    return str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" if run else ",".join(map(str, group))
