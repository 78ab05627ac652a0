"""Where every head looks in a few sentences: what is kept of a model at chosen steps of its training.

For each attention and query the strongest keys and the entropy, O(n) numbers for n tokens; of a sentence all weights;
and of each head the statistics and the pattern that the view names it after.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.model.transformer import Transformer
from clearhead.view.overview import Overview
from clearhead.view.pairing import rows_of
from clearhead.view.reading import KINDS, Part, always, read

SNAPSHOTS = "snapshots"  # folder of a run
STRONGEST = 8
SHORT = 64  # tokens up to which all weights are kept


@torch.no_grad()
def snapshot(model: Transformer, texts: Sequence[str]) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Tensors by text and address, such as 0.decoder.3.self.entropy [H, Q] (bits), .top and .keys [H, Q, 8], and for at
    most SHORT tokens .weights [H, Q, K], -1 where a query may not see a key; and what is said of each text.

    The model is in eval mode and has its tokenizer. A translator reads each text beside its own translation of it. Said
    are the tokens by stack, and by part (encoder, decoder, cross) `statistics` and `patterns` of each head, by layer.
    """
    tensors: dict[str, Tensor] = {}
    said: list[dict[str, Any]] = []
    for number, text in enumerate(texts):
        reading = read(model, text)
        overviews = {part.name: _overview(part) for part in reading.parts}
        for part in reading.parts:
            tensors |= {f"{number}.{name}": tensor for name, tensor in _of(part).items()}
        statistics = {name: one.statistics() for name, one in overviews.items()}
        patterns = {name: one.patterns() for name, one in overviews.items()}
        said.append({"text": text, "tokens": reading.tokens, "statistics": statistics, "patterns": patterns})
    return {name: tensor.cpu() for name, tensor in tensors.items()}, said


def _overview(part: Part) -> Overview:
    found = Overview(part)
    while not found.done:
        found.more(always)
    return found


def _of(part: Part) -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    short = max(len(part.queries), len(part.keys)) <= SHORT
    for layer, view in enumerate(part.layers):
        place = address(part.name, layer)
        top, keys = view.top(min(STRONGEST, view.shape[-1]))
        found |= {f"{place}.top": top[0], f"{place}.keys": keys[0], f"{place}.entropy": view.entropy()[0]}
        if short:
            found[f"{place}.weights"] = rows_of(view)
    return found


def address(part: str, layer: int) -> str:
    """Of an attention, by the name that the view has for its kind: cross of layer 3 is decoder.3.cross."""
    stack, kind = {name: (stack, kind) for name, stack, kind in KINDS}[part]
    return f"{stack}.{layer}.{kind}"
