"""Which source token a target token belongs to, by the weights of cross-attention; and how right that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from clearhead.lens import units
from clearhead.lens.inputs import Words, at_rest, single, wanted
from clearhead.lens.progress import steps
from clearhead.lens.record import record
from clearhead.lens.rows import Weights
from clearhead.lens.table import Table
from clearhead.lens.units import Units, gathered, linked
from clearhead.model.transformer import Transformer

Links = Iterable[tuple[int, ...]]


def alignment(
    model: nn.Module,
    source: Words,
    target: Words,
    *,
    layer: int | None = None,
    head: int | None = None,
    words: bool = False,
) -> Table:
    """How much a model looks at each source token while it is writing each target token.

    The weights [target, source] of one cross-attention head; without `head` the mean over the heads of the layer, and
    without `layer` over those of all layers (`alignment_error` tells which head is best). Row t is the query that
    predicts target token t. `more["links"]` are pairs (source, target): each target token with the source token of its
    largest weight, unless one of the two is a special token. source, target: one text each, or its ids; a sound. words:
    the same of words, between blanks, instead of tokens: the mean of the queries that write a word, the sum over the
    tokens of a word, without special tokens.

    Raises ValueError for a model without cross-attention, and for a layer or head that it does not have.
    """
    with at_rest(model) as inner:
        chosen = _chosen(inner, layer, head)
        weights, read, written = _weights(inner, source, target, chosen, words)
        one = mean_of_heads(weights, slice(None) if head is None else slice(head, head + 1))
    one = gathered(one, read, written)
    said = f"mean of the heads of {chosen[0] if len(chosen) == 1 else 'all layers'}"
    title = f"alignment by {said if head is None else f'{chosen[0]} head {head}'}"
    note = "Where a head looks is not always what it uses; the links are the largest weights."
    axes, more = {"target": written.names, "source": read.names}, {"links": linked(one, read, written)}
    return Table(title, axes, one, "weight", note, more)


def alignment_error(
    model: nn.Module,
    pairs: Sequence[tuple[Words, Words]],
    sure: Sequence[Links],
    possible: Sequence[Links] | None = None,
    *,
    words: bool = False,
    progress: bool = True,
) -> Table:
    """The alignment error rate [layer, head] of the links of every cross-attention head against gold links.

    pairs: (source, target) texts or ids; sure, possible: for each pair its gold links (source, target) of tokens, or of
    `words`, as in `alignment` and `error_rate`. `more["best"]` is the layer and head with the lowest rate. Raises
    ValueError as these do, and for another number of gold links than pairs.
    """
    for name, gold in (("sure", sure), ("possible", possible)):
        if gold is not None and len(gold) != len(pairs):
            raise ValueError(f"{name} has {len(gold)} entries, but there are {len(pairs)} pairs; give one for each")
    found: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    with at_rest(model) as inner:
        chosen = _chosen(inner, None, None)
        for n, (source, target) in steps("aligning", list(enumerate(pairs)), progress):
            weights, read, written = _weights(inner, source, target, chosen, words)
            for i, view in enumerate(weights):
                for head, one in enumerate(view.dense()[0].cpu()):
                    links = linked(gathered(one, read, written), read, written)
                    found.setdefault((i, head), []).extend((n, *link) for link in links)
    right, fair = _numbered(sure), None if possible is None else _numbered(possible)
    rates = {place: error_rate(links, right, fair) for place, links in found.items()}
    values = torch.full([max(sizes) + 1 for sizes in zip(*rates, strict=True)], torch.nan)
    for place, rate in rates.items():
        values[place] = rate
    best = min(rates, key=lambda place: rates[place])
    axes = {name: [str(i) for i in range(count)] for name, count in zip(("layer", "head"), values.shape, strict=True)}
    note = "0 = all links right; of links by the largest weight, without special tokens."
    return Table("alignment error rate", axes, values, "", note, {"best": list(best)})


def _numbered(gold: Sequence[Links]) -> list[tuple[int, ...]]:
    return [(n, *link) for n, links in enumerate(gold) for link in links]


def error_rate(links: Links, sure: Links, possible: Links | None = None) -> float:
    """1 - (|A and S| + |A and P|) / (|A| + |S|), the alignment error rate (Och & Ney 2003, equation 20).

    links (A), the sure gold links (S) and the possible ones (P, to which all of S belong; None: just those) are pairs,
    or for many sentences triples with the number of the sentence. 0 is the best. Raises ValueError for no links at all.
    """
    a, s = set(links), set(sure)
    p = s | set(possible or ())
    if not a and not s:
        raise ValueError("links and sure are both empty, so there is nothing to compare")
    return 1 - (len(a & s) + len(a & p)) / (len(a) + len(s))


def mean_of_heads(views: Sequence[Weights], heads: slice = slice(None)) -> Tensor:
    """The mean weights [Q, K] of these heads of all these attentions, of sample 0, in O(Q K) memory."""
    total = torch.zeros(views[0].shape[2:], dtype=torch.promote_types(views[0].q.dtype, torch.float32))
    for view in views:
        some = view.only(heads=heads)
        assert isinstance(some, Weights)
        for tile in some.tiles():
            total[tile.rows, tile.keys] += tile.weights[0].sum(0).cpu() / some.shape[1]
    return total / len(views)


def _chosen(model: Transformer, layer: int | None, head: int | None) -> list[str]:
    """The cross-attentions asked about, by address."""
    both = model.config.encoder is not None and model.config.decoder is not None
    if not both or model.config.decoder is None:
        raise ValueError("alignment is read off cross-attention, which only a decoder beside an encoder has")
    layers = model.config.decoder.layers
    if layer is None and head is not None:
        raise ValueError(f"head={head} is given without layer; a head belongs to a layer")
    if layer is not None and not 0 <= layer < len(layers):
        raise ValueError(f"layer={layer}, but there are {len(layers)} layers (0 to {len(layers) - 1})")
    if layer is None:
        return [f"decoder.{i}.cross" for i in range(len(layers))]
    look = layers[layer].cross_attention
    assert look is not None
    if head is not None and not 0 <= head < look.heads:
        raise ValueError(f"head={head}, but decoder.{layer}.cross has {look.heads} heads (0 to {look.heads - 1})")
    return [f"decoder.{layer}.cross"]


def _weights(
    model: Transformer, source: Words, target: Words, chosen: list[str], by_word: bool
) -> tuple[list[Weights], Units, Units]:
    """Of each attention, with what the encoder reads and what is written."""
    given = single(model, (source, target))
    with record(model, [f"{address}.weights" for address in chosen]) as seen:
        model(**given)
    found: list[Weights] = [seen[f"{address}.weights"] for address in chosen]
    queries, keys = found[0].shape[2:]
    if by_word:
        return found, units.words(model, source, keys, "encoder"), units.words(model, target, queries, "decoder")
    ids: Tensor | None = given.get("input_ids")
    read = units.tokens(model, None if ids is None else ids[0], keys, "encoder")
    return found, read, units.tokens(model, wanted(model, target)[0], queries, "decoder")
