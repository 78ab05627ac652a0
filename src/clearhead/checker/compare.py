"""Two implementations of one model: whether they agree, where they part, and why. For people who port a model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.checker.law import answer
from clearhead.checker.reached import points
from clearhead.checker.variants import Part, parts, variants
from clearhead.model.transformer import Transformer

ROOM = {torch.float64: 1e-6}  # b may compute parts in float32, as many do; other types:
ROOM_ELSE = 1e-4
MASKS = ("decoder_attention_mask", "attention_mask")
Inputs = Tensor | Mapping[str, Any]
Callee = Callable[..., Any]


@dataclass(frozen=True, repr=False)
class Comparison:
    """What was found. Differences are absolute; `first_site` and `cause` are None where there is none or none known."""

    equal: bool
    max_difference: float
    first_site: str | None
    cause: str | None
    words: str

    def __repr__(self) -> str:
        return self.words


def compare_models(a: Callee, b: Callee, inputs: Inputs) -> Comparison:
    """Compares the logits of two models on the same inputs; where they differ, finds the first point and the cause.

    Args:
        a, b: modules, ours or not, or functions. Modules are compared as copies in float64 and eval mode.
        inputs: ids [B, T], or keyword arguments that both take. Where an attention mask (1 = keep) is among them, only
            outputs at kept tokens are compared.

    Returns:
        A Comparison. Equal means: within 1e-6 of the largest logit (1e-4 for functions that answer in less than
        float64). The first point is an address of `clearhead.sites` for two models of ours, else a submodule where
        names or order correspond, or "logits" if all of these agree. The cause is a detail of the config which, changed
        in the one of ours, everywhere or in one layer, gives the other's logits; None if no known one does.

    Raises:
        ValueError: the outputs have different shapes.
    """
    a, b = steady(a), steady(b)
    given = dict(inputs) if isinstance(inputs, Mapping) else inputs
    left, right = (seen(run(one, given), given) for one in (a, b))
    if left.shape != right.shape:
        raise ValueError(f"a gives {list(left.shape)} and b gives {list(right.shape)}; compare outputs of one shape")
    room = max(ROOM.get(out.dtype, ROOM_ELSE) for out in (left, right))
    largest = difference(left, right)
    if apart(left, right) <= room:
        return Comparison(True, largest, None, None, f"equal: the logits differ by {largest:.2g} at most")
    site = first_point(a, b, given, room)
    cause, why = explained(a, b, given, (left, right), site, room)
    where = f"first at {site}" if site else "no inner point of the two corresponds"
    return Comparison(False, largest, site, cause, f"different: the logits differ by {largest:.2g}; {where}; {why}")


def steady(model: Callee) -> Callee:
    """A copy in float64 and eval mode, so that small differences show and the user's own model stays."""
    return copy.deepcopy(model).double().eval() if isinstance(model, nn.Module) else model


def run(model: Callee, inputs: Any) -> Tensor:
    with torch.no_grad():
        return answer(model(**inputs) if isinstance(inputs, dict) else model(inputs))


def seen(out: Tensor, inputs: Any) -> Tensor:
    """The output at real tokens only [N ...]: what stands at padding is nobody's business."""
    masks = [inputs[name] for name in MASKS if name in inputs] if isinstance(inputs, dict) else []
    fitting = [mask for mask in masks if out.shape[:2] == mask.shape]
    return out[fitting[0].bool()] if fitting else out


def difference(a: Tensor, b: Tensor) -> float:
    """The largest, counting two equal infinities as equal."""
    a, b = a.double(), b.double()
    found = torch.where(a == b, 0.0, (a - b).abs())
    return float(found.max()) if found.numel() else 0.0


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference, as a share of the largest finite number; infinite for different shapes or NaN."""
    if a.shape != b.shape:
        return float("inf")
    largest = float(torch.nan_to_num(b.double(), 0.0, 0.0, 0.0).abs().max()) if b.numel() else 0.0
    found = difference(a, b) / (largest or 1.0)
    return found if found == found else float("inf")


def first_point(a: Callee, b: Callee, inputs: Any, room: float) -> str | None:
    """The first point at which both have come by something, and by different things; the last are the logits. None if
    no points of the two correspond.
    """
    if not isinstance(a, nn.Module) or not isinstance(b, nn.Module):
        return None
    site = None
    for name, left, right in points(a, b, lambda model: run(model, inputs)):
        site = "logits"
        if apart(seen(left, inputs), seen(right, inputs)) > room:
            return name
    return site


def explained(
    a: Callee, b: Callee, inputs: Any, outputs: tuple[Tensor, Tensor], site: str | None, room: float
) -> tuple[str | None, str]:
    """(cause, words): the change of one that comes nearest to the other, if that is near enough; first what is changed
    everywhere, then what is changed in one part, around the site where that is known.
    """
    sides = ((a, outputs[1], "ab"), (b, outputs[0], "ba"))
    known = [(own, wanted, names) for own, wanted, names in sides if isinstance(own, Transformer)]
    for alone in (False, True):
        for own, wanted, names in known:
            places = parts(own.config, site) if alone else [None]
            tries = (found for part in places for found in tried(own, part, inputs, wanted))
            fitting = [found for found in tries if found[0] <= room]
            if fitting:
                _, cause, words = min(fitting, key=lambda found: found[0])
                return cause, f"cause {cause}: {words.format(*names)}"
    return None, "no known cause explains it" if known else "a cause is looked for only in a clearhead.Transformer"


def tried(model: Transformer, part: Part | None, inputs: Any, wanted: Tensor) -> Iterator[tuple[float, str, str]]:
    """(distance to what is wanted, cause, words) for every change that the weights allow."""
    if isinstance(inputs, dict) and part is None:
        for name in (n for n in inputs if n.endswith("attention_mask")):
            less = {key: value for key, value in inputs.items() if key != name}
            yield (
                apart(seen(run(model, less), inputs), wanted),
                "mask-ignored",
                f"{{0}} gives what {{1}} gives without {name}",
            )
    for made in variants(model, part):
        try:
            distance = apart(seen(run(made.model, inputs), inputs), wanted)
        except (ValueError, RuntimeError, IndexError):  # the change does not fit this model or this text
            continue
        yield distance, made.cause, f"{made.says}; {{0}} gives what {{1}} gives with {made.change}"
