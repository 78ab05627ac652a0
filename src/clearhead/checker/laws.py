"""Executable laws for any model: properties that it must have whatever its weights, tried on small inputs.

For any nn.Module that takes token ids [B, T] (with `attention_mask`, 1 = keep, where it has one; with
`decoder_input_ids` beside an encoder), vectors [B, T, D] or `input_features` [B, bins, frames]. What needs the inside
is in inside.py.
"""

from __future__ import annotations

import copy
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import nn

from clearhead.checker.inside import INSIDE
from clearhead.checker.law import Law, Laws, Model, gap, law, missing


def laws(model: nn.Module, causal: bool | None = None) -> Laws:
    """Tries every law that applies to a model, in eval mode; the model is left as it was.

    Args:
        model: takes ids [B, T] or vectors [B, T, D]; returns [B, T, ...], first of a tuple, or as `.logits`. Beside an
            encoder it takes `input_ids` (or `input_features`) and `decoder_input_ids`.
        causal: whether later tokens must have no influence; None: read it from the configuration, else only report.

    Returns:
        A Laws report: `.passed`, and `.laws` with words and the smallest failing input.
    """
    training = model.training
    model.eval()
    try:
        seen = Model(model)
        must = says_causal(seen) if causal is None else causal
        plain = [no_leak(seen, must), neighbours(seen), hidden(seen), hidden_source(seen)]
        sides = [padded(seen, left) for left in (False, True)]
        return Laws([*plain, *sides, order(seen, must), *(one(seen) for one in INSIDE), half(seen)])
    finally:
        model.train(training)


def laws_of(path: str | Path) -> tuple[str, str, int]:
    """(text, JSON, exit code) for the model saved in a folder: 0 all hold, 1 one is broken, 2 it cannot be loaded."""
    from clearhead.families.load import load

    try:
        report = laws(load(path, dtype=torch.float64))
    except ValueError as error:
        return str(error), json.dumps({"path": str(path), "passed": None, "laws": [], "error": str(error)}), 2
    found = {"path": str(path), "passed": report.passed, "laws": [asdict(one) for one in report.laws], "error": None}
    return repr(report), json.dumps(found, indent=2), int(not report.passed)


def says_causal(model: Model) -> bool | None:
    """What the configuration says, or None."""
    config: Any = model.config
    if hasattr(config, "decoder") and hasattr(config, "encoder"):
        return config.decoder is not None and not getattr(config, "reads_twice", False)
    if model.two_sided or type(model.module).__name__.endswith("ForCausalLM"):
        return True
    return getattr(config, "is_decoder", None)


def no_leak(model: Model, must: bool | None) -> Law:
    """A later token changed: earlier outputs stay."""
    name = "no leak from the future"
    if model.whole:
        return missing(name, "one answer for the whole text")

    def difference(count: int) -> float:
        x = model.draw(2, count)
        changed = x.clone()
        changed[:, -1:] = model.other(x[:, -1:])
        return gap(model(changed)[:, : count - 1], model(x)[:, : count - 1])

    found = law(name, difference, "causal-missing")
    if found.holds is False and must is not True:
        return Law(found.name, None, "later tokens have influence, as in an encoder; pass causal=True if they must not")
    return found


def neighbours(model: Model) -> Law:
    """A sample alone gives what it gives in a batch."""

    def difference(count: int) -> float:
        x = model.draw(3, count)
        return gap(model(x)[1:2], model(x[1:2]))

    return law("a sample does not change with its neighbours", difference, "attend-over-batch")


def hidden(model: Model) -> Law:
    """A hidden token changed: the outputs of the others stay."""
    name = "hidden tokens have no influence"
    if model.mask_name is None:
        return missing(name, "the model takes no attention mask")

    def difference(count: int) -> float:
        x, mask = model.draw(2, count + 1), torch.ones(2, count + 1, dtype=torch.int64)
        mask[:, -1] = 0
        changed = x.clone()
        changed[:, -1:] = model.other(x[:, -1:])
        return gap(model(changed, mask)[:, :count], model(x, mask)[:, :count])

    return law(name, difference, "mask-not-assigned")


def hidden_source(model: Model) -> Law:
    """A hidden token of the source changed, or left out: the decoder's outputs stay."""
    name = "hidden source tokens have no influence"
    if not model.two_sided or "attention_mask" not in model.parameters:
        return missing(name, "there is no encoder beside a decoder")
    if model.sound:
        return missing(name, "sound has no mask: what is short is filled up with silence")

    def difference(count: int) -> float:
        x = model.draw(2, count)
        source = model.source(x)
        more = torch.cat([source, model.other(source[:, -1:])], dim=1)
        other = torch.cat([source, model.other(more[:, -1:])], dim=1)
        mask = torch.ones_like(more)
        mask[:, -1] = 0
        want = model(x, source=source)
        return max(gap(model(x, source=given, attention_mask=mask), want) for given in (more, other))

    return law(name, difference, "cross-wrong-mask")


def padded(model: Model, left: bool) -> Law:
    """Padding changes nothing. On the left a model may need to be told the positions, where it takes them."""
    name = f"padding on the {'left' if left else 'right'} changes nothing"
    if model.mask_name is None:
        return missing(name, "the model takes no attention mask")
    place = slice(2, None) if left else slice(0, -2)

    def difference(count: int) -> float:
        x, filled = model.draw(2, count), model.draw(2, count + 2)
        source = model.source(x) if model.two_sided else None
        mask = torch.zeros(2, count + 2, dtype=torch.int64)
        filled[:, place], mask[:, place] = x, 1
        names = {"position_ids", "decoder_position_ids"} & model.parameters
        told = dict.fromkeys(names, (mask.cumsum(1) - 1).clamp(min=0))
        alone = model(x, torch.ones(2, count, dtype=torch.int64), source)
        return gap(model(filled, mask, source, **told)[:, place], alone)

    return law(name, difference, "positions-count-padding" if left else "mask-row-instead-of-column")


def order(model: Model, causal: bool | None) -> Law:
    """Without positions and without a triangle, permuted tokens give permuted outputs."""
    name = "permuted tokens give permuted outputs"
    if model.vocab or model.sound or causal:
        return missing(name, "the model has positions or a triangle")

    def difference(count: int) -> float:
        x, turn = model.draw(2, count), torch.arange(count).roll(1)
        return gap(model(x[:, turn]), model(x)[:, turn])

    return law(name, difference, "heads-split-no-transpose")


def half(model: Model) -> Law:
    """The output is finite in bfloat16."""
    name = "finite in half precision"
    try:
        small = Model(copy.deepcopy(model.module).to(torch.bfloat16))
        finite = bool(torch.isfinite(small(small.draw(2, 5)).float()).all())
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        return missing(name, " ".join(str(error).split())[:100])
    return Law(name, finite, "bfloat16", None if finite else "softmax-overflow")
