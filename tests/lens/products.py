"""Models and texts that the tests of the lens share."""

from typing import Any

import torch
from torch import Tensor

from clearhead.formulas.attention import Scoring
from clearhead.formulas.mask import Visible
from clearhead.formulas.position import DistanceBias
from model.tiny import TRANSLATORS, text


def inputs(kind: str, tokens: int = 9, padded: bool = True) -> dict[str, Tensor]:
    """What a tiny model reads: two texts, of which the second is shorter and padded on the left."""
    given = {"input_ids": text(2, tokens, vocab=31)}
    if padded:
        given["attention_mask"] = torch.ones(2, tokens, dtype=torch.int64)
        given["attention_mask"][1, :2] = 0
    if kind in TRANSLATORS:
        given["decoder_input_ids"] = text(2, tokens - 2, seed=1)
    return given


def draw(*sizes: int, seed: int = 0) -> Tensor:
    return torch.randn(sizes, generator=torch.Generator().manual_seed(seed))


def products(queries: int = 60, keys: int = 60) -> dict[str, tuple[Tensor, Tensor, Scoring]]:
    """q [2 6 Q 5], k [2 3 K 5] and the rules that attention knows, one by one."""
    q, k = 2 * draw(2, 6, queries, 5), 2 * draw(2, 3, keys, 5, seed=1)
    positions = torch.arange(keys)
    here = positions[keys - queries :]
    padding = torch.ones(2, 1, 1, keys, dtype=torch.bool)
    padding[1, ..., :7] = False
    padding[0, ..., -3:] = False
    counted = (padding[:, 0, 0].long().cumsum(1) - 1).clamp(min=0)
    documents = torch.stack([positions // 20, positions // 9])
    table = draw(8, 6, seed=2)

    def last(**more: Any) -> Visible:
        return Visible.last(queries, keys, **more)

    rules: dict[str, Visible] = {
        "all": last(),
        "causal": last(causal=True),
        "causal, padded": Visible(counted[:, keys - queries :], counted, causal=True, mask=padding),
        "window": last(causal=True, window=7),
        "window on both sides": last(window=7),
        "padded": last(mask=padding),
        "one mask per head": last(mask=draw(2, 6, queries, keys, seed=3) > 0),
        "packed": Visible(here, positions, True, None, None, documents[:, keys - queries :], documents),
        "settled": last(causal=True, window=9).settled(10**9),
    }
    found = {name: (q, k, Scoring(rule, 0.4)) for name, rule in rules.items()}
    found["soft cap"] = q, k, Scoring(last(causal=True), 0.4, softcap=1.5)
    found["bias"] = q, k, Scoring(last(causal=True), 0.4, bias=draw(1, 6, queries, keys, seed=4))
    found["bias by distance"] = q, k, Scoring(last(), 0.4, bias=DistanceBias(table, here, positions, 30, True))
    return found
