"""Heads that do what is known from many models, found by where they look on a probe."""

from __future__ import annotations

from itertools import islice

import torch
from torch import Tensor, nn

from clearhead.config import TextClassifier, TextEmbedding
from clearhead.lens.inputs import Inputs, arguments, at_rest, writes_beside
from clearhead.lens.measure import heads_of, kept, ragged
from clearhead.lens.progress import steps
from clearhead.lens.record import record
from clearhead.lens.rows import Weights
from clearhead.lens.table import Table
from clearhead.model.transformer import Transformer

FOUND = 0.4  # the share of its weight from which a head is named after what it looks at
KINDS = ("previous", "induction", "duplicate", "sink", "self", "alignment")
NOTE = (
    "mean weight on: the token before (previous), what followed an earlier occurrence of the token (induction), that "
    "occurrence (duplicate), the first token (sink), the token itself (self), the source within one token of the "
    "target's place (alignment)"
)


def find_heads(
    model: nn.Module,
    inputs: Inputs | None = None,
    *,
    length: int = 24,
    samples: int = 4,
    seed: int = 0,
    progress: bool = True,
) -> Table:
    """How much of its weight each head puts where heads of a known kind look, [attention, head, kind], 0 to 1.

    Kinds (see NOTE): previous-token, induction and duplicate-token heads (Olsson et al. 2022), the sink, the token
    itself, and in cross-attention the diagonal. Means over the queries that have such a key: without the first, and for
    induction and duplicate those whose token came before. What a head cannot do (a decoder's self-attention align) is
    NaN. `more["found"]` lists, for each kind, the heads above FOUND.

    By default the probe is drawn: `samples` rows of `length` ordinary tokens, the same twice, behind the first token of
    a decoder (bos), in an encoder-decoder as source and as target. inputs: a text of your own instead (see inputs.py).

    Raises ValueError for a model that hears sound and is given none, and as the model does for a text that is too long.
    """
    with at_rest(model) as inner:
        given = arguments(inner, _probe(inner, length, samples, seed) if inputs is None else inputs)
        with record(inner, "*.weights") as seen:
            inner(**given)
        read: dict[str, Tensor] = seen.texts[-1]  # ids by stack; a stack that hears has none
        places = [place for place in heads_of(inner.config, "*") if f"{place}.weights" in seen]
        found: list[list[list[float]]] = []
        for place in steps("reading heads", places, progress):
            stack, _, part = place.split(".")
            weights: Weights = seen[f"{place}.weights"]
            own, other = (kept(inner, given, name) for name in (stack, "encoder"))
            scores = _around(weights, read.get(stack), own) if part == "self" else _across(weights, own, other)
            found.append([scores[kind].tolist() if kind in scores else [] for kind in KINDS])
    heads = max(len(row) for kinds in found for row in kinds)
    values = torch.stack([ragged(kinds, heads).T for kinds in found])
    axes = {"attention": places, "head": [str(i) for i in range(heads)], "kind": list(KINDS)}
    return Table("kinds of heads", axes, values, "share of the weight", NOTE, {"found": _named(places, values)})


def _around(weights: Weights, ids: Tensor | None, own: Tensor | None) -> dict[str, Tensor]:
    """The scores of the heads of a self-attention, each [H]."""
    positions = weights.scoring.visible.q_positions
    later = (positions > 0).expand(weights.shape[0], -1)
    later = later if own is None else later & own
    measured = weights.measure("previous", "self", "first")
    scores = {"sink" if name == "first" else name: _mean(value, later) for name, value in measured.items()}
    if ids is not None:
        again = later & _came_before(ids)
        scores |= {
            "induction": _mean(weights.induction(ids), again),
            "duplicate": _mean(weights.duplicate(ids), again),
        }
    return scores


def _across(weights: Weights, own: Tensor | None, other: Tensor | None) -> dict[str, Tensor]:
    """The scores of the heads of a cross-attention, each [H]."""
    batch, _, queries, keys = weights.shape
    device = weights.q.device
    written = torch.ones(batch, queries, dtype=torch.bool, device=device) if own is None else own
    read = torch.ones(batch, keys, dtype=torch.bool, device=device) if other is None else other
    first = weights.measure("first")["first"]
    return {"sink": _mean(first, written), "alignment": _mean(_diagonal(weights, written, read), written)}


def _diagonal(weights: Weights, written: Tensor, read: Tensor) -> Tensor:
    """[B, H, Q]: the weight on keys within one token of the query's place, the texts being stretched to one length."""
    stretch = (read.sum(1) / written.sum(1))[:, None]
    q, k = (written.cumsum(1) - 1) * stretch, read.cumsum(1) - 1
    found = torch.zeros(weights.shape[:3], dtype=torch.promote_types(weights.q.dtype, torch.float32), device=q.device)
    for tile in weights.tiles():
        near = (k[:, None, tile.keys] - q[:, tile.rows, None]).abs() <= 1  # [B r k]
        found[:, tile.heads, tile.rows] = tile.mean(near.unsqueeze(1))
    return found


def _mean(scores: Tensor, counted: Tensor) -> Tensor:
    """scores [B, H, Q], of which those counted [B, Q]; [H], NaN if there are none."""
    chosen = counted[:, None].to(scores.dtype)
    return (scores * chosen).sum((0, 2)) / chosen.sum()


def _came_before(ids: Tensor) -> Tensor:
    """[B, T]: whether the token has an earlier occurrence in its row."""
    numbers = ids.unique(return_inverse=True)[1]
    places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
    first = torch.full((len(ids), int(numbers.max()) + 1), ids.shape[1], device=ids.device)
    first = first.scatter_reduce(1, numbers, places, "amin")
    return places > first.gather(1, numbers)


def _named(places: list[str], values: Tensor) -> dict[str, list[tuple[str, int, float]]]:
    """For each kind the heads above FOUND, the surest first: attention, head, score."""
    named: dict[str, list[tuple[str, int, float]]] = {}
    for kind, scores in zip(KINDS, values.unbind(-1), strict=True):
        some = [(places[i], head, float(scores[i, head])) for i, head in (scores >= FOUND).nonzero().tolist()]
        named[kind] = sorted(some, key=lambda head: -head[2])
    return named


def _probe(model: Transformer, length: int, samples: int, seed: int) -> Inputs:
    """Rows of ordinary tokens, each row the same twice."""
    config, generator = model.config, torch.Generator().manual_seed(seed)
    name, stack = next(iter(config.stacks.items()))
    if stack.audio is not None:
        raise ValueError("this model hears sound, for which no probe can be drawn; give inputs with input_features")
    if length < 2 or samples < 1:
        raise ValueError(f"length is {length} and samples {samples}; a probe needs at least 2 tokens and 1 sample")
    ids = torch.stack([_twice(model, name, length, generator) for _ in range(samples)])
    whole = isinstance(config.head, TextClassifier | TextEmbedding)
    ends = config.eos_ids[:1] if config.encoder is not None or whole else ()
    begins = () if config.encoder is not None or config.bos is None else (config.bos,)
    source = torch.cat([_filled(ids, begins), ids, _filled(ids, ends)], dim=1)
    if not writes_beside(model):
        return source
    same = config.decoder is not None and config.decoder.vocab == stack.vocab
    target = ids if same else torch.stack([_twice(model, "decoder", length, generator) for _ in range(samples)])
    return source, target


def _filled(ids: Tensor, tokens: tuple[int, ...]) -> Tensor:
    return torch.tensor(tokens, dtype=torch.int64).expand(len(ids), -1)


def _twice(model: Transformer, stack: str, length: int, generator: torch.Generator) -> Tensor:
    """Ordinary tokens of a stack's vocabulary, twice; unlike each other as long as there are enough."""
    config, tokenizer = model.config, model.tokenizer
    special = {config.pad, config.bos, config.start, *config.eos_ids}
    order = torch.randperm(config.stacks[stack].vocab, generator=generator).tolist()
    target = stack == "decoder"
    # special tokens, and ids beyond the tokenizer's vocabulary, decode to nothing
    ordinary = (i for i in order if i not in special and (tokenizer is None or tokenizer.decode([i], target=target)))
    found = list(islice(ordinary, length))
    if not found:
        raise ValueError(f"{stack}.vocab is {len(order)}, and every token is a special one; give inputs instead")
    half = (found * (length // len(found) + 1))[:length]
    return torch.tensor(half + half)
