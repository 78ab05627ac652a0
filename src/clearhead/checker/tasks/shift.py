"""Probes and answers for the decoder's shift: training pairs, decoder inputs, and the loss."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from clearhead.checker.bundle import Bundle
from clearhead.checker.engine import Case, Failed
from clearhead.checker.pipeline import Change, Context, work
from clearhead.checker.setup import Setup
from clearhead.checker.subject import to_lib, to_numpy
from clearhead.checker.tasks.shifting import calls, fallback, variants

__all__ = ["calls", "fallback", "predict", "probes", "read_answer", "variants"]

PAD, BOS, EOS, VOCAB = 1, 2, 10, 11
SIZES = (("plain", 3, 7, True), ("two samples", 2, 5, True), ("B = T", 4, 4, False), ("one sample", 1, 6, False))


def nll(logits: Any, targets: Any) -> Any:
    """-log softmax(logits)[target], per token; negative targets count as class 0 (they are not kept)."""
    shifted = logits - logits.max(-1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.take_along_axis(log, np.maximum(targets, 0)[..., None].astype(int), -1)[..., 0]


def kept(c: Any) -> Any:
    """Which targets count: not -100 and, where the call names the pad id, not padding."""
    keep = c.used[1] != -100
    return keep & (c.used[1] != c.pad) if c.padded else keep


def clean(c: Any) -> Any:
    return np.where(c.ids == -100, PAD, c.ids)


PAIRS: Change = {
    "clean": clean,
    "start": lambda c: np.full((len(c.ids), 1), BOS),
    "inputs": lambda c: c.clean[:, :-1],
    "targets": lambda c: c.ids[:, 1:],
    "result": lambda c: (c.inputs, c.targets),
}
RIGHT: Change = {
    "clean": clean,
    "start": lambda c: np.full((len(c.ids), 1), BOS),
    "result": lambda c: np.concatenate([c.start, c.clean[:, :-1]], 1),
}
LOSS: Change = {
    "seen": lambda c: c.logits,
    "used": lambda c: (c.seen[:, :-1], c.ids[:, 1:]),
    "keep": kept,
    "each": lambda c: nll(*c.used),
    "result": lambda c: np.asarray((c.each * c.keep).sum() / c.keep.sum()),
}
STAGES = {
    "pairs": PAIRS,
    "right": RIGHT,
    "loss": LOSS,
    "loss unshifted": LOSS,
    "targets": PAIRS,
    "with start": PAIRS,
    "with end": PAIRS,
    "windows": PAIRS,
}


class Model:
    """A stand-in for a language model: the logits of a position depend on its token only."""

    def __init__(self, table: Any, wrapped: bool) -> None:
        self.table, self.wrapped = table, wrapped

    def __call__(self, *given: Any, **named: Any) -> Any:
        ids = next(iter(given), None)
        ids = next(iter(named.values())) if ids is None else ids
        logits = self.table[np.maximum(np.asarray(to_numpy(ids)), 0)]
        made = to_lib(logits, "torch" if hasattr(ids, "detach") else "numpy", False)
        return Bundle(logits=made) if self.wrapped else made


def probes(setup: Setup) -> list[Case]:
    if setup.variant == "windows":
        return [windows(0), windows(1)]
    rows = [(f"{name}, one text", 1, count, needed) for name, _, count, needed in SIZES]
    return [probe(setup, seed, row) for seed, row in enumerate(rows if setup.rank == 1 else SIZES)]


def probe(setup: Setup, seed: int, row: tuple[str, int, int, bool]) -> Case:
    """One batch of ids (one text at rank 1), with all that a call may name."""
    name, batch, count, needed = row
    rng, uses = np.random.default_rng(50 + seed), setup.uses
    ids = np.stack([rng.permutation(np.arange(3, EOS))[:count] for _ in range(batch)])
    lengths = np.resize([count, max(2, count - 2), max(2, count - 1)], batch)
    hidden = np.arange(count) >= lengths[:, None]
    fixed = dict(setup.sizes)
    pad, bos = fixed.get("pad", PAD), fixed.get("bos", BOS)
    padded, loss = bool(uses & {"pad", "mask", "tgt_mask"}) or "pad" in fixed, setup.variant.startswith("loss")
    ids = np.where(hidden, PAD, ids) if padded or "lengths" in uses else ids
    labels = np.where(hidden, -100, ids) if padded or loss or "labels" in uses else ids
    if "labels" in uses and loss and padded and setup.form == "pad labels":
        labels = np.where(hidden, PAD, ids)
    logits = rng.standard_normal((batch, count, VOCAB)) * 3
    table = rng.standard_normal((VOCAB, VOCAB)) * 3
    ours = {"ids": ids, "labels": labels}
    theirs = {key: np.where(x == PAD, pad, x) for key, x in ours.items()}  # in the file's own ids
    source = (theirs if loss else ours)["labels" if "labels" in uses else "ids"]
    if "model" in uses:
        logits = table[np.maximum(source, 0)]
    names: dict[str, Any] = {**theirs, "logits": logits, "lengths": lengths, "x": theirs["ids"]}
    names |= {"logp": logits - np.log(np.exp(logits).sum(-1, keepdims=True)), "mask": (~hidden).astype(np.int64)}
    names["tgt_mask"] = ~hidden
    if setup.rank == 1:
        names = {key: value[0] for key, value in names.items()}
    names |= {"pad": pad, "bos": bos, "B": batch, "T": count, "n": count, "V": VOCAB, "eos": EOS}
    names["model"] = Model(table, setup.form == "wrapped")
    context = {"ids": source, "logits": logits, "padded": padded, "style": "nan", "pad": pad if loss else PAD}
    return Case(name, names, {**context, "variant": setup.variant}, needed)


BLOCK, LONG = 4, 41


def windows(seed: int) -> Case:
    """A long text of tokens that occur once, to be cut into windows."""
    ids = np.random.default_rng(seed).permutation(np.arange(3, 3 + LONG))
    names = {"ids": ids, "T": BLOCK, "B": 3, "n": BLOCK, "pad": PAD, "bos": BOS, "x": ids, "V": LONG + 3}
    context = {"ids": ids[None], "logits": None, "padded": False, "style": "nan", "variant": "windows"}
    return Case(f"a text of {LONG}", names, context)


def targets_of(case: Case, inputs: Any, targets: Any) -> Any:
    """Which token each token of the text predicts; 0 where it predicts none."""
    found = dict(zip(np.ravel(inputs).tolist(), np.ravel(targets).tolist(), strict=False))
    return np.array([found.get(token, 0) for token in case.context["ids"][0].tolist()])


def read_windows(case: Case, value: Any) -> Any:
    """The windows (x, y), as arrays or as a list of pairs, as what each token predicts."""
    pairs = list(value) if not isinstance(value, tuple) else [value]
    arrays = [[to_numpy(part) for part in pair] for pair in pairs if isinstance(pair, tuple | list)]
    fine = [pair for pair in arrays if len(pair) == 2 and all(isinstance(part, np.ndarray) for part in pair)]
    if not fine or any(x.shape != y.shape or not x.ndim for x, y in fine):
        return Failed("it returned no windows", "TypeError")
    inputs, targets = (np.concatenate([np.ravel(pair[i]) for pair in fine]) for i in (0, 1))
    case.context["covered"] = np.isin(case.context["ids"][0], inputs)
    return targets_of(case, inputs, targets), None


def predict(setup: Setup, case: Case, change: Change, style: str = "nan") -> Any:
    stages = {**STAGES[setup.variant or "pairs"]}
    if setup.variant == "loss unshifted":
        stages["used"] = lambda c: (c.seen, c.ids)
    if setup.variant == "with start":
        stages |= {"inputs": lambda c: np.concatenate([c.start, c.clean[:, :-1]], 1), "targets": lambda c: c.ids}
    if setup.variant == "with end":
        stages["inputs"] = lambda c: np.concatenate([c.start, c.clean], 1)
        stages["targets"] = lambda c: np.concatenate([c.ids, np.full((len(c.ids), 1), EOS)], 1)
    try:
        made = work(stages, Context(**case.context), change)
        if setup.variant == "windows":
            return targets_of(case, *made.result) * case.context.get("covered", 1)
    except Exception as error:
        return Failed(str(error))
    return np.asarray(made.targets) if setup.variant == "targets" and "result" not in change else made.result


def read_answer(setup: Setup, case: Case, value: Any, notes: dict[str, Any]) -> Any:
    notes["single"] = setup.variant.startswith("loss")
    value = list(value) if isinstance(value, Iterator) else value
    if setup.variant == "windows":
        return read_windows(case, value)
    value = in_ours(value, dict(setup.sizes)) if setup.sizes and not notes["single"] else value
    if setup.rank == 1:
        value = as_batch(value)
    if setup.variant in ("pairs", "with start", "with end"):
        return read_pair(case, value)
    if isinstance(value, dict | tuple) or (isinstance(value, list) and len(value) and hasattr(value[0], "shape")):
        if setup.variant in ("right", "targets") or not isinstance(value, tuple):
            return Failed("it returned several things", "TypeError")
        value = value[0]
    out = to_numpy(value)
    if out is None:
        return Failed("it returned no numbers", "TypeError")
    if setup.variant == "targets":
        return trim(case, out, out)[1], None
    return out, None


def in_ours(value: Any, fixed: dict[str, int]) -> Any:
    """Ids as we write them: the file's own padding and start as PAD and BOS."""
    if isinstance(value, dict):
        return {key: in_ours(part, fixed) for key, part in value.items()}
    if isinstance(value, tuple):
        return tuple(in_ours(part, fixed) for part in value)
    ids = to_numpy(value)
    if ids is None or ids.dtype.kind not in "iu":
        return value
    places = {name: ids == number for name, number in fixed.items()}
    ids = np.where(places["pad"], PAD, ids) if "pad" in places else ids
    return np.where(places["bos"], BOS, ids) if "bos" in places else ids


def as_batch(value: Any) -> Any:
    """What was made of one text, as of a batch of one."""
    if isinstance(value, dict):
        return {key: as_batch(part) for key, part in value.items()}
    if isinstance(value, tuple) or (isinstance(value, list) and value and not isinstance(value[0], int)):
        return tuple(as_batch(part) for part in value)
    made = to_numpy(value)
    return made if made is None or made.ndim == 0 else made[None]


def read_pair(case: Case, value: Any) -> Any:
    if isinstance(value, dict):
        first = sorted(
            value,
            key=lambda k: (
                bool(re.search(r"target|label|y", str(k).lower())) - bool(re.search(r"input|^x", str(k).lower()))
            ),
        )
        value = [value[k] for k in first][:: max(1, len(first) - 1)]
    if not isinstance(value, tuple | list) or len(value) < 2:
        return Failed("it returned no pair", "TypeError")
    inputs, targets = to_numpy(value[0]), to_numpy(value[1])
    if inputs is None or targets is None or inputs.ndim == 0:
        return Failed("it returned no pair of arrays", "TypeError")
    return trim(case, inputs, targets), None


def trim(case: Case, inputs: Any, targets: Any) -> Any:
    """Full-length pairs whose last target is a filler: the last column says nothing."""
    ids = case.context["ids"]
    if case.context["padded"] and not (ids == -100).any():  # targets that do not count may be marked so
        targets = np.where(targets == -100, PAD, targets)
    if targets.ndim == 2 and targets.shape == ids.shape and np.isin(targets[:, -1], (-100, PAD, 0, -1)).all():
        same = inputs.shape == ids.shape
        return (inputs[:, :-1] if same else inputs), targets[:, :-1]
    return inputs, targets
