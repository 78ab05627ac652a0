"""A model with one detail changed, everywhere or in one part: the same weights under another form."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from clearhead.checker.ports import changes, first_change
from clearhead.config import TransformerConfig as Config
from clearhead.model.transformer import Transformer


class Part(NamedTuple):
    """What may be made otherwise than the rest: its addresses, and its module."""

    name: str
    module: str


class Variant(NamedTuple):
    """One changed model."""

    model: Transformer
    cause: str
    says: str  # what the cause means
    change: str  # "norm.eps 1e-06 in place of 1e-05"


def variants(model: Transformer, part: Part | None = None) -> Iterator[Variant]:
    """Every change that the bank knows and the weights allow; with a part, those that stay inside it."""
    config = model.config
    for cause, changed in changes(config):
        form = changed if part is None else within(part, config, changed)
        if form == config and changed.norm == config.norm:  # nothing in this part
            continue
        other, made = with_config(model, changed), with_config(model, form)
        if other is None or made is None:
            continue
        change = first_change(config, changed if form == config else form)
        if part is not None:
            made.set_submodule(part.module, other.get_submodule(part.module))  # the config has one norm for all parts
            change += f", in {part.name} alone"
        yield Variant(made, cause.name, cause.says, change)


def within(part: Part, config: Config, changed: Config) -> Config:
    """The config that takes from `changed` this layer, or the head; unchecked, as `changed` may be."""
    made = copy.copy(config)
    if part.module == "head":
        object.__setattr__(made, "head", changed.head)
    for name, stack in config.stacks.items():
        if (found := re.fullmatch(rf"{name}\.layers\.(\d+)", part.module)) is not None:
            layers, i = [*stack.layers], int(found[1])
            layers[i] = getattr(changed, name).layers[i]
            object.__setattr__(made, name, replace(stack, layers=tuple(layers)))
    return made


def parts(config: Config, site: str | None) -> list[Part]:
    """The part in which the site lies, where that is known, else all. Layers that share weights are no parts."""
    found: list[Part] = []
    for name, stack in config.stacks.items():
        found += [Part(f"{name}.embed", f"{name}.norm_in")] if stack.norm_in else []
        found += [Part(f"{name}.{i}", f"{name}.layers.{i}") for i in range(len(stack.layers)) if stack.shared is None]
        found += [Part(f"{name}.final", f"{name}.norm_out")] if stack.norm_out else []
    found += [Part("logits", "head")] if config.head is not None else []
    if site == "logits":  # or between the last point that was compared and them
        return [part for part in found if part.module.endswith(("head", "norm_out"))]
    return [part for part in found if lies_in(site or "", part)] or found


def lies_in(site: str, part: Part) -> bool:
    return any(re.search(rf"\b{re.escape(name)}(?!\w)", site) for name in part)


def with_config(model: Transformer, config: Any) -> Transformer | None:
    """The same weights under another config; None where it wants weights that there are not."""
    try:
        with torch.device("meta"):
            made = Transformer(config)
        left_out = made.load_state_dict(model.state_dict(), strict=False, assign=True).missing_keys
    except (ValueError, RuntimeError, AssertionError, TypeError):
        return None
    return None if left_out else made.eval()
