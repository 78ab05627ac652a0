"""Mistakes with masks that hide padding or any keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.attend import both, hide, padding

RULE = "scores = where(mask, scores, -inf) before the softmax; True = may attend."
SMALL = (-1.0, -2.0, -5.0, -10.0, -20.0, -30.0, -50.0, -99.0, -100.0, -200.0, -np.e, -1e-9, -8.0, -64.0)


def seen(masked: Any) -> Any:
    """The change whose masked scores are `masked(c, keep)`; without a mask nothing changes."""
    return {"masked": lambda c: c.biased if c.keep is None else masked(c, c.keep)}


def apart(masked: Any, which: Any) -> Any:
    """The same for one of the two masks ("padding" or "ahead"), the other one hidden as it should be."""
    other = "ahead" if which == "padding" else "padding"

    def stage(c: Any) -> Any:
        wrong, good = getattr(c, which), getattr(c, other)
        if wrong is None:
            return hide(c, c.keep)
        scores = masked(c, wrong)
        return scores if good is None else np.where(good, scores, -1e9 if c.style == "replace" else -np.inf)

    return {"masked": stage}


def each(*ways: Any) -> Any:
    """Every way of hiding wrongly, for both masks together and for either alone."""
    return tuple(change for way in ways for change in (seen(way), apart(way, "padding"), apart(way, "ahead")))


def after(used: Any) -> Any:
    """The change whose weights after the softmax are `used(c, keep)`, nothing hidden before."""

    def weights(c: Any) -> Any:
        return c.weights if c.keep is None else used(c, c.keep)

    return {"masked": lambda c: c.biased, "used": weights, "shown": weights}


def float_of(keep: Any) -> Any:
    return keep.astype(np.float64)


def small(value: Any, added: Any) -> Any:
    if added:
        return lambda c, keep: c.biased + np.where(keep, 0.0, value)
    return lambda c, keep: np.where(keep, c.biased, value)


MISTAKES = (
    Mistake(
        "mask-after-softmax",
        "Hidden keys are set to zero after the softmax. Their share is lost, so the rows of "
        "weights sum to less than 1.",
        f"Hide before the softmax: {RULE}",
        (
            after(lambda c, keep: np.where(keep, c.weights, 0.0)),
            after(lambda c, keep: np.where(keep, c.weights, -1e9)),
        ),
    ),
    Mistake(
        "mask-zero-before-softmax",
        "Hidden scores become 0 (or a tiny number), and exp(0) = 1: hidden keys still get weight.",
        f"Use minus infinity, not zero: {RULE}",
        each(
            lambda c, keep: np.where(keep, c.biased, 0.0),
            lambda c, keep: np.where(keep, c.scores, 0.0),
            lambda c, keep: np.where(keep, c.biased, 1e-9),
            lambda c, keep: np.where(keep, c.biased, 1.0),
        ),
    ),
    Mistake(
        "mask-inverted",
        "The mask is read the wrong way round: it hides what should be seen and shows what should be hidden.",
        f"Turn the condition round. {RULE}",
        (
            {"keep": lambda c: None if both(c.padding, c.ahead) is None else ~both(c.padding, c.ahead)},
            {"padding": lambda c: None if padding(c) is None else ~padding(c)},
        ),
    ),
    Mistake(
        "mask-not-assigned",
        "The mask has no effect: the argument is unused, or the result of masked_fill is thrown away.",
        f"Keep the result: scores = scores.masked_fill(...). {RULE}",
        ({"keep": lambda c: None}, {"padding": lambda c: None}),
    ),
    Mistake(
        "mask-added-raw",
        "The mask's zeros and ones are added to the scores, which hides nothing and raises the visible keys by 1.",
        f"Turn it into 0 and -inf first. {RULE}",
        each(
            lambda c, keep: c.biased + float_of(keep),
            lambda c, keep: c.biased + float_of(~keep),
            lambda c, keep: c.biased - float_of(~keep),
            lambda c, keep: c.biased - float_of(keep),
        ),
    ),
    Mistake(
        "mask-sign",
        "Hidden keys get plus infinity (or +1e9) instead of minus: they take all the weight, or make NaN.",
        f"Minus infinity. {RULE}",
        each(
            lambda c, keep: np.where(keep, c.biased, np.inf),
            lambda c, keep: np.where(keep, c.biased, 1e9),
            lambda c, keep: c.biased + np.where(keep, 0.0, 1e9),
            lambda c, keep: c.biased + np.where(keep, 0.0, np.inf),
        ),
        hint=r"(?<![-\w.])(?<!- )"
        r"(float\(.\+?inf|math\.inf|np\.inf|torch\.inf|numpy\.inf|[1-9]0{3,}|1e\+?\d)|finfo\(.*\)\.max",
    ),
    Mistake(
        "mask-sign",
        "The additive mask is subtracted: hidden keys get plus infinity instead of minus.",
        "Add it: scores + mask.",
        each(
            lambda c, keep: c.biased + np.where(keep, 0.0, np.inf),
        ),
        hint=r"(?<!1 )(?<!1\.0 )- \w*(mask|bias)\b",
    ),
    Mistake(
        "mask-nan-zero-times-inf",
        "(1 - mask) * -inf is NaN where the mask is 1, because 0 times infinity is not a number.",
        f"Choose instead of multiply: {RULE}",
        (seen(lambda c, keep: c.biased + float_of(~keep) * -np.inf),),
    ),
    Mistake(
        "mask-too-small",
        "The number put in as minus infinity is too small: with large scores hidden keys still get weight.",
        f"Use -inf or the smallest number of the type. {RULE}",
        each(*(small(value, added) for value in SMALL for added in (False, True))),
    ),
    Mistake(
        "mask-bitnot-int",
        "~ on whole numbers gives -1 and -2, which both count as true, so every key is hidden.",
        "Use mask == 0, or make it boolean first.",
        (seen(lambda c, keep: np.zeros_like(c.biased)),),
        hint="~",
    ),
    Mistake(
        "mutates-input",
        "The function changes the arrays it was given, so the caller's data and the next call are different.",
        "Make new arrays: q = q / s, not q /= s; np.where or masked_fill instead of writing into the input.",
    ),
    Mistake(
        "nan-gradient",
        "For a query that sees nothing the output was patched, but the gradients of q and k are NaN.",
        "Hide with a finite number (torch.finfo(dtype).min) or make such rows safe before the softmax.",
    ),
    Mistake(
        "mask-after-softmax",
        "Hidden weights are set to minus infinity after the softmax, which makes the output infinite or NaN.",
        f"Hide before the softmax: {RULE}",
        (after(lambda c, keep: np.where(keep, c.weights, -np.inf)),),
    ),
    Mistake(
        "mask-fp16-overflow",
        "The number used for hidden scores does not fit into half precision (largest: 65504).",
        "Use torch.finfo(scores.dtype).min, or -inf.",
    ),
)
