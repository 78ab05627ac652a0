"""What the numbers of the output alone do not show: changed inputs, gradients, types, returned weights."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np

from clearhead.checker.bank import known
from clearhead.checker.engine import Failed, close
from clearhead.checker.gradients import gradient_faults
from clearhead.checker.judge import Trial
from clearhead.checker.pipeline import Context
from clearhead.checker.setup import ATTENTION
from clearhead.checker.subject import evaluate
from clearhead.checker.tasks.attend import soft
from clearhead.checker.tasks.probes import build
from clearhead.checker.tasks.variations import biased


def look(trial: Trial) -> list[tuple[str, str]]:
    """(id, what was seen) of silent faults in code whose output is right."""
    found: list[tuple[str, str]] = []
    if "changed" in trial.notes and trial.setup.task != "kv_cache":
        found.append(
            ("mutates-input", f"after the call the argument {trial.notes['changed']} holds other numbers than before")
        )
    large = [a for a in trial.answers if isinstance(a, Failed) and a.kind == "OverflowError"]
    if large:
        found.append(("softmax-overflow", f"with large scores it fails: {large[0].words}"))
    words = unstable(trial)
    if words:
        found.append(("dropout-in-eval", words))
    if trial.setup.task == "positional_encoding":
        return found + odd_width(trial)
    if trial.setup.task not in ATTENTION:
        return found
    found += not_divisible(trial) + scaled_bias(trial) + like_query(trial) + downcast(trial) + weights_shown(trial)
    if trial.setup.lib == "torch" and not found:
        found += gradient_faults(trial) or half_refused(trial)
    return found


def unstable(trial: Trial) -> str:
    """Words about two equal calls that differ, or nothing."""
    for case, got in zip(trial.cases, trial.answers, strict=True):
        if isinstance(got, Failed) or "changed" in trial.notes:
            continue
        again = trial.ask(case)
        if isinstance(again, Failed) and trial.setup.task == "kv_cache":
            return f"the second time it fails: {again.words}"
        if not isinstance(again, Failed) and not close(again, got, 1e-6):
            gap = np.nanmax(np.abs(again - got)) if again.shape == got.shape else "other shapes"
            return (
                f"two equal calls on '{case.name}' differ by up to {gap:.3g}"
                if gap != "other shapes"
                else "two equal calls differ"
            )
        return ""
    return ""


def downcast(trial: Trial) -> list[tuple[str, str]]:
    """float64 in, float32 out, where the source casts (a buffer of the default type is no mistake)."""
    given, got = ("float32" if trial.setup.single else "float64"), trial.notes.get("dtype", "")
    names = r"\b(q|k|v|x|a|t|z|qs|ks|vs|query|key|value|queries|keys|values|inputs?|scores|att\w*|weights|out\w*)"
    casts = rf"(?i){names}(\.float\(\)|\.half\(\)|\.bfloat16\(\)|\.(to|type|astype)\([^)]*(float(32|16)|single))"
    casts += r"|(asarray|array|tensor)\([^)]*float(32|16)|np\.float32\(\w+\)"
    if not trial.source.says(casts):
        return []
    if got.startswith("float") and got != given:
        return [("dtype-downcast", f"{given} went in and {got} came out")]
    exact = close(trial.answers[0], trial.predict(trial.cases[0], {}), 1e-10)
    if trial.setup.lib == "numpy" and not trial.setup.single and not exact:
        return [("dtype-downcast", "the input is float64, but the result is only as exact as float32")]
    return []


def scaled_bias(trial: Trial) -> list[tuple[str, str]]:
    """A finite additive mask that is divided by sqrt(d_k) with the scores."""
    if trial.setup.mask != "add":
        return []
    case = biased(trial.setup)
    way = known()["bias-scaled"].ways[0]
    got, want = trial.ask(case), trial.predict(case, {})
    if isinstance(got, Failed) or close(got, want, 1e-4) or not close(got, trial.predict(case, way), 1e-4):
        return []
    return [("bias-scaled", "with a finite bias the output is that of (Q K^T + bias) / sqrt(d_k)")]


def not_divisible(trial: Trial) -> list[tuple[str, str]]:
    """A width that the heads do not divide, where the docs promise any number of heads: it must be refused."""
    if trial.setup.task == "sdpa" or "H" not in trial.setup.uses or "load" in trial.setup.uses:
        return []
    if not trial.source.tells(r"any (number|count)|any (h|heads|n_heads|num_heads)\b"):
        return []
    size = {"B": 2, "H": 1, "Hkv": 1, "T": 3, "S": 3, "dk": 10, "dv": 10, "D": 10}
    case = build(trial.setup, "heads do not divide the width", size, 30, masked=False)
    case.names |= {"H": 4, "Hkv": 4}
    value = evaluate(trial.subject, trial.setup.call, trial.environment(case))
    if isinstance(value, Failed):
        return []
    return [("heads-not-divisible", "with width 10 and 4 heads it answers, and 2 features belong to no head")]


def is_floating(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.is_floating_point()


def half_refused(trial: Trial) -> list[tuple[str, str]]:
    """Half precision, where the docs promise it: the number for hidden scores must fit."""
    if not trial.source.tells(r"float16|\bfp16|\bhalf\b|mixed precision"):
        return []
    env = trial.environment(trial.cases[0])
    given = {n: v.half() if is_floating(v) else v for n, v in env.items()}
    value = evaluate(trial.subject, trial.setup.call, given)
    if isinstance(value, Failed) and "overflow" in value.words:
        return [("mask-fp16-overflow", f"with float16 it fails: {value.words}")]
    return []


def odd_width(trial: Trial) -> list[tuple[str, str]]:
    """An odd number of features, where the docs promise any."""
    if not trial.source.tells(
        r"\bodd (d\b|d_?model|dim|width|size|number|feature|model)|(be|is|too|also|even or) odd\b|odd or even|"
        r"any (number|width|size|d_model|dim|d\b|model)"
    ):
        return []
    odd = replace(trial.setup, sizes=(*trial.setup.sizes, ("D", 7)))
    answers = Trial(odd, trial.subject, trial.source).start().answers
    if isinstance(answers[0], Failed):
        return [("pe-odd-dim", f"with d = 7 it fails: {answers[0].words}")]
    return []


def like_query(trial: Trial) -> list[tuple[str, str]]:
    """A buffer shaped like Q, which another d_v does not fit."""
    failed = [
        a
        for case, a in zip(trial.cases, trial.answers, strict=True)
        if case.name == "d_v != d_k" and isinstance(a, Failed)
    ]
    if failed and trial.source.says(r"(zeros|empty|ones|full)_like\((q|Q|query|queries|x)\b"):
        return [("output-like-query", f"with d_v = 5 and d_k = 6 it fails: {failed[0].words} (read from the source)")]
    return []


def weights_shown(trial: Trial) -> list[tuple[str, str]]:
    """Returned "weights" that are the scores."""
    for case, weights in trial.notes.get("weights", []):
        if weights is None or weights.ndim < 2:
            continue
        made = trial.predict(case, {})
        shown = shown_of(trial, case, {})
        if isinstance(made, Failed) or shown is None or weights.shape != shown.shape or close(weights, shown, 1e-4):
            continue
        with np.errstate(all="ignore"):
            others = [shown_of(trial, case, way, "add") for way in known()["weights-are-scores"].ways]
            same = any(o is not None and close(weights, o, 1e-4) and not close(o, shown, 1e-4) for o in others)
            if same or close(np.nan_to_num(soft(Context(style="zero"), weights)), np.nan_to_num(shown), 1e-4):
                total = float(np.nan_to_num(weights, neginf=0.0).reshape(-1, weights.shape[-1])[0].sum())
                return [("weights-are-scores", f"a row of the returned weights sums to {total:.3g}, not to 1")]
    return []


def shown_of(trial: Trial, case: Any, change: Any, style: str = "nan") -> Any:
    from clearhead.checker.tasks.attention import reference

    try:
        return reference(trial.setup, case, change, style).shown
    except Exception:
        return None


# id, what the error says, what the code must have
ERRORS = (
    ("view-noncontiguous", r"view size is not compatible", ""),
    ("mask-fp16-overflow", r"without overflow", ""),
    ("shift-keeps-ignore-index", r"index out of range|out of bounds", "-100|embedding|Embedding"),
    (
        "kv-repeat-wrong-dim",
        r"must match|broadcast|mismatch|xpected size",
        r"repeat(_interleave)?\([^)]*((dim|axis)=-?2|, -?2\))",
    ),
    ("softmax-keepdims", r"broadcast|must match", r"\.sum\((axis|dim)?=?-?1\)|np\.sum\(\w+, (axis=)?-?1\)"),
)


def from_error(trial: Trial) -> tuple[str, str] | None:
    """The mistake that an error message names, with the source or by itself."""
    failed = [answer for answer in trial.answers if isinstance(answer, Failed)]
    if failed and trial.source.shadows():
        return "loop-shadowing", f"it fails: {failed[0].words} (read from the source)"
    groups = trial.setup.variant == "grouped" or "Hkv" in trial.setup.uses
    if failed and groups and trial.source.says(r"repeat|expand\(|tile\("):
        return "kv-repeat-wrong-dim", f"it fails: {failed[0].words}"
    for answer in failed:
        for name, pattern, code in ERRORS:
            if re.search(pattern, answer.words) and trial.source.says(code):
                return name, f"it fails: {answer.words}"
    return None


def guess(trial: Trial) -> tuple[list[str], list[str]]:
    """Ids from properties that break, when nothing reproduces the numbers."""
    want, got = trial.predict(trial.cases[0], {}), trial.answers[0]
    if trial.source.says(r"float16|half\(|bfloat16") and not isinstance(got, Failed) and close(got, want, 2e-2):
        return ["half-inside"], [f"the error is about {np.abs(got - want).max():.1e}, that of half precision"]
    if trial.setup.task in ATTENTION[1:] and trial.source.shadows():
        return ["loop-shadowing"], ["read from the source: a loop overwrites the input that its next round needs"]
    from clearhead.checker.properties import speak

    return speak(trial)
