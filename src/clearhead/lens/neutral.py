"""What enters a stack where its text says nothing: the baseline of attributions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from clearhead.lens.inputs import token_id, writes_beside
from clearhead.model.inputs import Sound, Text
from clearhead.model.places import places
from clearhead.model.transformer import Transformer
from clearhead.text.tokenizer import Tokenizer


def neutral(
    model: Transformer,
    given: Mapping[str, Any],
    stack: str,
    ids: Tensor | None,
    row: Tensor,
    baseline: int | str | Tensor | None,
) -> Tensor:
    """[T, D] in the place of `row`: one token everywhere, at the positions of the text `ids` [1, T]; or a vector [D];
    or silence.

    Raises ValueError for a vector of another width, and without one if the model has no token that says nothing.
    """
    if isinstance(baseline, Tensor):
        if baseline.shape not in (row.shape, row.shape[-1:]):
            raise ValueError(f"baseline is {list(baseline.shape)}; give [{row.shape[-1]}], a vector for every token")
        return baseline.to(row).expand_as(row)
    module = model.encoder if stack == "encoder" else model.decoder
    assert module is not None
    if ids is None:
        frames = given["input_features"]
        silence = Sound(torch.full_like(frames, float(frames.min())))
        return module.embed(silence, places(silence, None))[0]
    token = _silent(model) if baseline is None else token_id(model, baseline, stack)
    pair = len(model.config.stacks) == 2
    second = stack == "decoder" and writes_beside(model)
    text = Text(
        "baseline",
        torch.full_like(ids, token),
        given.get("decoder_attention_mask" if second else "attention_mask"),
        None if pair and not second else given.get("positions"),
        None if pair and stack == "decoder" else given.get("token_type_ids"),
    )
    return module.embed(text, places(text, None))[0]


def _silent(model: Transformer) -> int:
    """The token that says least: mask, else pad, eos or bos."""
    mask = model.tokenizer.mask if isinstance(model.tokenizer, Tokenizer) else None
    for token in (mask, model.config.pad, *model.config.eos_ids, model.config.bos):
        if token is not None:
            return token
    raise ValueError("this model has no mask, pad, eos or bos token; say which token is neutral: baseline=")
