"""What the questions about many heads or places share: the number that is measured, and which heads there are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from clearhead.config import Attention, TransformerConfig
from clearhead.lens.inputs import Inputs, arguments, wanted, writes_beside
from clearhead.lens.listen import chosen
from clearhead.model.loss import IGNORED
from clearhead.model.transformer import Output, Transformer

Metric = Callable[[Output], Tensor | float]


def number(metric: Metric | None, out: Output) -> Tensor:
    """The metric of an output (None: the loss), a single number. Raises ValueError if it is anything else."""
    found = out.loss if metric is None else metric(out)
    value = torch.as_tensor(found)
    if value.numel() != 1:
        raise ValueError(f"the metric gave {list(value.shape)}; it must give one number, such as a mean")
    return value.reshape(())


def labelled(model: Transformer, inputs: Inputs) -> dict[str, Any]:
    """The arguments of a forward pass with labels, so that there is a loss. ValueError where none can be told.

    A decoder alone predicts the text that it is given, one beside an encoder the target of a pair; anything else needs
    labels in a dict.
    """
    given = arguments(model, inputs)
    if "labels" in given:
        return given
    ids, mask = given.get("input_ids"), given.get("attention_mask")
    if isinstance(inputs, tuple):
        ids = wanted(model, inputs[1]).to(given["decoder_input_ids"].device)
        mask = None if model.config.pad is None else ids != model.config.pad
    elif model.encoder is not None or ids is None:
        raise ValueError(
            "without a metric the loss is measured, which needs labels: give {'input_ids': ..., 'labels': ...}, to an "
            "encoder-decoder (source, target), or a metric"
        )
    return {**given, "labels": ids if mask is None else ids.masked_fill(mask == 0, IGNORED)}


def heads_of(config: TransformerConfig, parts: str | Sequence[str]) -> dict[str, int]:
    """The attentions that globs such as "decoder.*.cross" stand for, by address, each with its number of heads.

    Raises ValueError for a glob that stands for none.
    """
    patterns = [parts] if isinstance(parts, str) else parts
    found = chosen(config, [f"{pattern}.heads" for pattern in patterns])
    places = [address.removesuffix(".heads") for matched in found.values() for address in matched]
    return {place: _attention(config, place).heads for place in dict.fromkeys(places)}


def _attention(config: TransformerConfig, place: str) -> Attention:
    stack, layer, part = place.split(".")
    form = config.stacks[stack].layers[int(layer)]
    look = form.self_attention if part == "self" else form.cross_attention
    assert look is not None
    return look


def kept(model: Transformer, given: Mapping[str, Any], stack: str) -> Tensor | None:
    """Which tokens of a stack are no padding, [B, T] boolean; None: all."""
    own = stack == "decoder" and writes_beside(model)
    mask = given.get("decoder_attention_mask" if own else "attention_mask")
    return None if mask is None else mask != 0


def ragged(rows: Iterable[Sequence[float]], width: int = 0) -> Tensor:
    """Rows of numbers as one tensor, float64, at least so wide, short rows filled up with NaN."""
    given = [list(row) for row in rows]
    width = max([width, *map(len, given)])
    return torch.tensor([row + [float("nan")] * (width - len(row)) for row in given], dtype=torch.float64)
