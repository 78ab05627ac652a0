"""Mistakes in the decoder's shift and in the loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.mistake import Mistake
from clearhead.checker.tasks.shift import BOS, PAD, nll

TASKS = ("decoder_shift",)
RULE = "The token at position t predicts the one at t + 1: inputs ids[:, :-1], targets ids[:, 1:]."


def entry(name: str, says: str, fix: str, *ways: Any) -> Mistake:
    return Mistake(name, says, f"{fix} {RULE}", ways, TASKS)


def pair(inputs: Any, targets: Any) -> Any:
    return {"result": lambda c: (inputs(c.clean), targets(c.ids))}


def right(make: Any) -> Any:
    """The change of the decoder's input, where that is what is made."""

    def stage(c: Any) -> Any:
        if c.variant != "right":
            raise ValueError("no decoder input")
        return make(c.clean)

    return {"result": stage}


def aligned(make: Any) -> Any:
    """The change of the targets, where they alone are made, as long as the ids."""

    def stage(c: Any) -> Any:
        if c.variant != "targets":
            raise ValueError("not targets alone")
        return make(c.ids)

    return {"result": stage}


def used(logits: Any, ids: Any) -> Any:
    return {"used": lambda c: (logits(c.seen), ids(c.ids))}


def same(x: Any) -> Any:
    return x


def flat_loss(c: Any) -> Any:
    """Shifted after flattening: the end of a row is scored on the start of the next."""
    return (c.seen.reshape(-1, c.seen.shape[-1])[:-1], c.ids.reshape(-1)[1:])


def soft(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def viewed(c: Any) -> Any:
    logits, targets = c.used
    batch, count, vocab = logits.shape
    return nll(logits.reshape(batch, vocab, count).swapaxes(1, 2), targets)


def filled(x: Any, count: Any, fill: Any) -> Any:
    """The ids from `count` on, with a filler at the end."""
    return np.concatenate([x[:, count:], np.full((len(x), count), fill)], 1)


MISTAKES = (
    entry(
        "shift-missing",
        "Every position predicts its own input. The loss falls to 0 at once and nothing is learned but copying.",
        "Shift the targets by one.",
        pair(lambda x: x[:, :-1], lambda x: x[:, :-1]),
        pair(same, same),
        pair(lambda x: x[:, 1:], lambda x: x[:, 1:]),
        {"targets": lambda c: c.inputs},
        used(same, same),
        used(lambda x: x[:, :-1], lambda x: x[:, :-1]),
        right(same),
        {"result": lambda c: c.ids},
        {"targets": lambda c: c.ids, "inputs": lambda c: c.clean},
    ),
    entry(
        "shift-wrong-direction",
        "Every position predicts the token before it, which it has already seen.",
        "Targets are the later tokens.",
        pair(lambda x: x[:, 1:], lambda x: x[:, :-1]),
        used(lambda x: x[:, 1:], lambda x: x[:, :-1]),
        right(lambda x: np.concatenate([x[:, 1:], np.full((len(x), 1), BOS)], 1)),
        right(lambda x: np.concatenate([x[:, 1:], np.full((len(x), 1), PAD)], 1)),
        right(lambda x: x[:, 1:]),
        right(lambda x: np.roll(x, -1, 1)),
        pair(same, lambda x: np.roll(x, 1, 1)),
        pair(same, lambda x: np.concatenate([np.full((len(x), 1), PAD), x[:, :-1]], 1)),
        pair(same, lambda x: np.concatenate([np.full((len(x), 1), -100), x[:, :-1]], 1)),
        {"targets": lambda c: c.ids[:, :-1]},
        *(aligned(lambda x, f=f: np.concatenate([np.full((len(x), 1), f), x[:, :-1]], 1)) for f in (PAD, -100, 0)),
    ),
    entry(
        "shift-double",
        "The ids are shifted twice (by hand and again in the loss): every position predicts the token after the next.",
        "Shift once.",
        pair(lambda x: x[:, :-2], lambda x: x[:, 2:]),
        pair(lambda x: x[:, :-1], lambda x: x[:, 2:]),
        *(pair(lambda x: x[:, :-1], lambda x, f=f: filled(x, 2, f)[:, :-1]) for f in (-100, PAD, 0)),
        pair(lambda x: x[:, :-1], lambda x: np.concatenate([x[:, 2:], x[:, :1]], 1)),
        used(lambda x: x[:, :-2], lambda x: x[:, 2:]),
        {"used": lambda c: (c.seen[:, :-1], filled(c.ids, 2, -100)[:, :-1])},
        right(lambda x: np.concatenate([np.full((len(x), 2), BOS), x[:, :-2]], 1)),
        right(lambda x: np.concatenate([np.full((len(x), 1), BOS), np.full((len(x), 1), PAD), x[:, :-2]], 1)),
        right(lambda x: np.concatenate([np.full((len(x), 1), BOS), x[:, :-2]], 1)),
        {"targets": lambda c: c.ids[:, 2:]},
        {"targets": lambda c: c.ids[:, 1:], "inputs": lambda c: np.concatenate([c.start, c.clean[:, :-2]], 1)},
    ),
    entry(
        "shift-roll-wraps",
        "roll wraps around: the last target is the first token of the sentence.",
        "Drop the last position, or fill it with -100.",
        pair(same, lambda x: np.roll(x, -1, 1)),
        pair(lambda x: x[:, :-1], lambda x: np.roll(x, -1, 1)),
        {"result": lambda c: np.roll(c.ids, -1, 1)},
        used(same, lambda x: np.roll(x, -1, 1)),
        right(lambda x: np.roll(x, 1, 1)),
        {"result": lambda c: np.roll(c.ids, 1, 1)},
        {"inputs": lambda c: np.roll(c.clean, 1, 1)},
        pair(lambda x: np.roll(x, 1, 1), same),
    ),
    entry(
        "shift-batch-axis",
        "The slice is taken along the batch: a sentence predicts the next sentence.",
        "Slice the second axis: ids[:, :-1].",
        pair(lambda x: x[:-1], lambda x: x[1:]),
        used(lambda x: x[:-1], lambda x: x[1:]),
        right(lambda x: np.concatenate([np.full((1, x.shape[1]), BOS), x[:-1]], 0)),
        {"targets": lambda c: c.ids[1:]},
        right(lambda x: np.roll(x, 1, 0)),
    ),
    entry(
        "shift-bos-missing",
        "The first decoder token is not replaced by the start token, so the first label is given away.",
        "Put bos first: [bos, ids[:-1]].",
        right(lambda x: np.concatenate([x[:, :1], x[:, :-1]], 1)),
        right(lambda x: np.concatenate([np.zeros((len(x), 1), int), x[:, :-1]], 1)),
        right(lambda x: np.concatenate([np.full((len(x), 1), PAD), x[:, :-1]], 1)),
        right(lambda x: x[:, :-1]),
        right(lambda x: np.concatenate([np.full((len(x), 1), BOS), x[:, 1:]], 1)),
        {"inputs": lambda c: np.concatenate([c.clean[:, :1], c.clean[:, :-1]], 1)},
    ),
    entry(
        "shift-keeps-ignore-index",
        "-100 stays in the decoder's input, where it is no token: the embedding fails.",
        "Replace -100 by the pad id after shifting.",
        {"clean": lambda c: c.ids},
    ),
    entry(
        "shift-flatten-leak",
        "The ids are flattened before the shift: the end of one row is scored on the start of the next.",
        "Shift first, then flatten.",
        {"result": lambda c: (c.clean.reshape(-1)[:-1], c.ids.reshape(-1)[1:])},
        {"used": flat_loss},
        {"result": lambda c: (c.clean.reshape(-1), np.append(c.ids.reshape(-1)[1:], -100))},
        {"result": lambda c: (c.clean, np.roll(c.ids.reshape(-1), -1).reshape(c.ids.shape))},
        {"used": lambda c: (c.seen.reshape(-1, c.seen.shape[-1]), np.roll(c.ids.reshape(-1), -1))},
        right(lambda x: np.roll(x.reshape(-1), 1).reshape(x.shape)),
        right(lambda x: np.concatenate([[BOS], x.reshape(-1)[:-1]]).reshape(x.shape)),
    ),
    entry(
        "loss-counts-padding",
        "Padding counts in the mean, so the loss depends on how much padding a batch has.",
        "Ignore it: ignore_index=pad, and divide by the number of real targets.",
        {"keep": lambda c: np.ones_like(c.used[1], bool)},
        {"result": lambda c: np.asarray((c.each * c.keep).sum() / c.keep.size)},
        {"result": lambda c: np.asarray((c.each * c.keep).mean(1).mean())},
    ),
    entry(
        "loss-on-probabilities",
        "cross_entropy gets probabilities, but takes logits: the loss can never become small.",
        "Pass the logits themselves.",
        {"seen": lambda c: soft(c.logits)},
        {"seen": lambda c: np.log(soft(soft(c.logits)))},
    ),
    entry(
        "loss-view-not-transpose",
        "The logits are viewed as (B, V, T) instead of transposed: classes and positions are mixed.",
        "logits.transpose(1, 2), or flatten to (B * T, V).",
        {"each": viewed},
        {"seen": lambda c: c.logits.reshape(len(c.logits), c.logits.shape[2], -1).swapaxes(1, 2)},
    ),
)
