"""Probes and answers for the decoder's shift: training pairs, decoder inputs, and the loss."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

import numpy as np

from clearhead.checker.candidates import Candidate, main_method
from clearhead.checker.engine import Case, Failed
from clearhead.checker.names import filler, keyword_only, parameters
from clearhead.checker.pipeline import Change, Context, work
from clearhead.checker.setup import Flags, Setup
from clearhead.checker.source import Source
from clearhead.checker.subject import Subject, to_numpy

PAD, BOS, VOCAB = 1, 2, 11
SIZES = (("plain", 3, 7, True), ("two samples", 2, 5, True), ("B = T", 4, 4, False), ("one sample", 1, 6, False))


def nll(logits: Any, targets: Any) -> Any:
    """-log softmax(logits)[target], per token; negative targets count as class 0 (they are not kept)."""
    shifted = logits - logits.max(-1, keepdims=True)
    log = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.take_along_axis(log, np.maximum(targets, 0)[..., None].astype(int), -1)[..., 0]


def kept(c: Any) -> Any:
    """Which targets count: not -100 and, where the call names the pad id, not padding."""
    keep = c.used[1] != -100
    return keep & (c.used[1] != PAD) if c.padded else keep


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
STAGES = {"pairs": PAIRS, "right": RIGHT, "loss": LOSS, "loss unshifted": LOSS, "targets": PAIRS, "with start": PAIRS}


def probes(setup: Setup) -> list[Case]:
    cases = []
    for seed, (name, batch, count, needed) in enumerate(SIZES):
        rng = np.random.default_rng(50 + seed)
        ids = np.stack([rng.permutation(np.arange(3, VOCAB))[:count] for _ in range(batch)])
        lengths = np.resize([count, max(2, count - 2), max(2, count - 1)], batch)
        hidden = np.arange(count) >= lengths[:, None]
        padded = "pad" in setup.uses
        ids = np.where(hidden, PAD, ids) if padded or "lengths" in setup.uses else ids
        labels = (
            np.where(hidden, -100, ids) if padded or setup.variant.startswith("loss") or "labels" in setup.uses else ids
        )
        logits = rng.standard_normal((batch, count, VOCAB)) * 3
        names = {
            "ids": ids,
            "labels": labels,
            "logits": logits,
            "pad": PAD,
            "bos": BOS,
            "B": batch,
            "T": count,
            "n": count,
        }
        names |= {"lengths": lengths, "V": VOCAB, "x": ids, "eos": VOCAB - 1}
        source = labels if "labels" in setup.uses else ids
        plain_pad = (
            "labels" in setup.uses and setup.variant.startswith("loss") and padded and setup.form == "pad labels"
        )
        if plain_pad:
            source = names["labels"] = np.where(hidden, PAD, ids)
        context = {"ids": source, "logits": logits, "padded": padded, "style": "nan"}
        cases.append(Case(name, names, context, needed))
    return cases


def predict(setup: Setup, case: Case, change: Change, style: str = "nan") -> Any:
    stages = {**STAGES[setup.variant or "pairs"]}
    if setup.variant == "loss unshifted":
        stages["used"] = lambda c: (c.seen, c.ids)
    if setup.variant == "with start":
        stages |= {"inputs": lambda c: np.concatenate([c.start, c.clean[:, :-1]], 1), "targets": lambda c: c.ids}
    try:
        made = work(stages, Context(**case.context), change)
    except Exception as error:
        return Failed(str(error))
    return np.asarray(made.targets) if setup.variant == "targets" and "result" not in change else made.result


def read_answer(setup: Setup, case: Case, value: Any, notes: dict[str, Any]) -> Any:
    notes["single"] = setup.variant.startswith("loss")
    if setup.variant in ("pairs", "with start"):
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
    if targets.ndim == 2 and targets.shape == ids.shape and np.isin(targets[:, -1], (-100, PAD, 0, -1)).all():
        same = inputs.shape == ids.shape
        return (inputs[:, :-1] if same else inputs), targets[:, :-1]
    return inputs, targets


ROLES = (
    ("logits", r"logits?|scores|outputs?|preds?|predictions?|y_?hat|lm_logits"),
    ("pad", r"pad(ding)?(_?(id|idx|token|token_id|index|value))?"),
    ("bos", r"(bos|sos|start|begin|decoder_start|go|cls)(_?(id|idx|token|token_id|symbol|index))?"),
    ("labels", r"labels?|lm_labels|targets?|gold|y|tgt_out"),
    ("lengths", r"lengths?|lens"),
    ("ids", r".*ids?|tokens?|x|seqs?|sequences?|batch|tgt|trg|text|data|idx|inputs?|sentences?|target_tokens|t"),
)  # fmt: skip


def role_of(name: str) -> str | None:
    return next((r for r, pattern in ROLES if re.fullmatch(pattern, name.lower().strip("_"))), None)


def calls(subject: Subject, source: Source, candidate: Candidate, base: Setup) -> list[Setup]:
    node = candidate.node if isinstance(candidate.node, ast.FunctionDef) else main_method(candidate.node)
    assert node is not None
    params, texts = parameters(node), []
    roles = {role_of(name) for name, _ in params}
    has_logits = "logits" in roles
    ignored = {"pad", "bos"} <= roles and (source.says("-100") or source.tells("-100"))
    for name, default in params:
        found = role_of(name)
        if found == "labels" and not has_logits and not re.search("label", name):
            found = "ids"
        found = "labels" if found == "ids" and ignored else found
        if default and found not in ("pad", "bos"):
            continue
        if found is None:
            found = {"block_size": "T - 1", "vocab_size": "V"}.get(name) or filler(name)
        if found is None and not texts:
            found = "ids"  # whatever it is called, a shift shifts what it is given first
        if found is None:
            raise ValueError(f"the parameter {name!r} says nothing")
        texts.append(f"{name}={found}" if default or name in keyword_only(node) else found)
    made = "()" if isinstance(candidate.node, ast.ClassDef) else ""
    return [replace(base, call=f"{candidate.name}{made}({', '.join(texts)})")]


def variants(source: Source, setup: Setup, flags: Flags) -> list[Setup]:
    """What the call computes, by its names and the words of the source."""
    uses = setup.uses
    if "logits" in uses:
        node = source.function()
        names = " ".join(name for name, _ in parameters(node)) if node else ""
        aligned = re.search(r"target|gold|\by\b", names) and not source.tells(
            r"shift|next.token|input.?ids|causal|own ids"
        )
        open_ = "labels" in uses and not source.tells(r"next.token|causal|shift|language model|\blm\b")
        kinds = ["loss unshifted"] if aligned else ["loss", "loss unshifted"] if open_ else ["loss"]
        form = "pad labels" if "pad" in uses and "labels" in uses else ""
        return [replace(setup, variant=kind, form=form) for kind in kinds]
    if "bos" in uses:
        return [replace(setup, variant=kind) for kind in ("right", "with start", "pairs")]
    kinds = ["pairs", "right", "targets"]
    if source.tells(r"shift_?(tokens_)?right|decoder_input"):
        kinds = ["right", "pairs", "targets"]
    return [replace(setup, variant=kind) for kind in kinds]
