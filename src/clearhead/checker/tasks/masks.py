"""Probes and answers for functions that build masks: causal, windowed, padding, and their combination."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from clearhead.checker import settings
from clearhead.checker.binding import bindings, compared
from clearhead.checker.candidates import Candidate
from clearhead.checker.definitions import called_directly, constructor, main_method
from clearhead.checker.engine import Case, Failed
from clearhead.checker.names import parameters
from clearhead.checker.pipeline import Change, Context, work
from clearhead.checker.setup import Flags, Setup
from clearhead.checker.source import Source
from clearhead.checker.subject import Subject, to_numpy
from clearhead.checker.tasks.attend import CORE

PAD = 1
PADS = frozenset(("ids", "lengths", "mask", "src_mask", "tgt_mask"))  # what tells where the padding is
#          name             B  Q  K  needed
PROBES = (
    ("T = 7", 3, 7, 7, True),
    ("T = 4, B = T", 4, 4, 4, True),
    ("T = 12", 2, 12, 12, False),
    ("T = 1", 2, 1, 1, False),
    ("one sample", 1, 5, 5, False),
)
LONGER = (
    ("a chunk of 3 after 4", 3, 3, 7, True),
    ("one query after 6", 3, 1, 7, True),
    ("a chunk of 4 after 5, B = q", 4, 4, 9, True),
    ("no past", 2, 5, 5, True),
)

MASK: Change = {
    "scaled": lambda c: np.zeros((c.batch, c.queries, c.keys)),
    "biased": lambda c: c.scaled,
    "padding": CORE["padding"],
    "ahead": CORE["ahead"],
    "keep": CORE["keep"],
    "seen": lambda c: np.ones((c.queries, c.keys), bool) if c.keep is None else c.keep,
    "result": lambda c: 1.0 * c.seen,
}


def takes_padding(call: str) -> bool:
    """Whether an argument tells where the padding is (the function itself may be called mask)."""
    inside = list(ast.walk(ast.parse(call, mode="eval")))
    called = [n.func for n in inside if isinstance(n, ast.Call)]
    return any(isinstance(n, ast.Name) and n.id in PADS and n not in called for n in inside)


def probes(setup: Setup) -> list[Case]:
    uses = setup.uses
    two = bool(uses & {"q_len", "k_len", "past"})
    padded = takes_padding(setup.call) and setup.variant != "triangle"
    cases = []
    for seed, (name, batch, queries, keys, needed) in enumerate(LONGER if two else PROBES):
        rng = np.random.default_rng(70 + seed)
        pad = dict(setup.sizes).get("pad", PAD)
        if two and not uses & {"k_len", "past"}:
            keys = queries
        lengths = np.resize([max(1, keys // 2), keys, max(1, keys - 2), max(1, keys - 1)], batch).astype(np.int64)
        ids = np.where(np.arange(keys) < lengths[:, None], rng.integers(3, 11, (batch, keys)), pad)
        names: dict[str, Any] = {
            "T": keys if not two else queries,
            "n": keys,
            "q_len": queries,
            "k_len": keys,
            "S": keys,
        }
        names |= {"past": keys - queries, "B": batch, "ids": ids, "pad": pad, "lengths": lengths, "window": 3, "H": 2}
        names |= {"scores": rng.standard_normal((batch, 2, queries, keys)), "causal": True, "bos": 2}
        names["logits"], names["x"] = names["scores"], rng.standard_normal((batch, keys, 6))
        names |= dict.fromkeys(("mask", "src_mask", "tgt_mask"), np.arange(keys) < lengths[:, None])
        context = {"batch": batch, "queries": queries, "keys": keys, "given": None, "form": "bk", "style": "nan"}
        context |= {"causal": setup.causal or bool(uses & {"window", "causal"}), "lengths": lengths if padded else None}
        context |= {"window": 3 if "window" in uses else None, "bias": None, "rows": setup.form}
        cases.append(Case(name, names, context, needed))
    return cases


def predict(setup: Setup, case: Case, change: Change, style: str = "nan") -> Any:
    try:
        made = work(MASK, Context(**{**case.context, "style": style}), change)
        keep = np.asarray(made.result, np.float64)
        return spread_out(keep[None] if keep.ndim == 2 else keep, case)
    except Exception as error:
        return Failed(str(error))


def spread_out(keep: Any, case: Case) -> Any:
    """[B Q K] from whatever axes of size 1 a mask has; other shapes stay as they are."""
    batch, queries, keys = case.context["batch"], case.context["queries"], case.context["keys"]
    if keep.ndim == 4 and keep.shape[1] == 1:
        keep = keep[:, 0]
    if keep.ndim <= 3 and all(
        n in (1, full) for n, full in zip(keep.shape[::-1], (keys, queries, batch), strict=False)
    ):
        return np.array(np.broadcast_to(keep, (batch, queries, keys)))
    return keep


def read_answer(setup: Setup, case: Case, value: Any, notes: dict[str, Any]) -> Any:
    """The mask as numbers: 1 = visible, 0 = hidden, anything else as it came."""
    value = value[0] if isinstance(value, tuple) and value else value
    out = to_numpy(value)
    if out is None or out.dtype.kind not in "fiub":
        return Failed("it returned no mask", "TypeError")
    out = out.astype(np.float64)
    if setup.mask == "add":
        if "scores" in setup.uses or "logits" in setup.uses:
            out = out - case.names["scores"]
        out = np.where(out <= -1000, 0.0, np.where(np.abs(out) < 1e-9, 1.0, np.where(out == 1.0, 2.0, out)))
        out = out[:, 0] if out.ndim == 4 and "scores" in setup.uses else out
    elif setup.mask == "hide":
        out = 1.0 - out
    if out.ndim == 2:  # which axes it has shows on the first probe, whose sizes differ
        notes.setdefault(
            "flat", case.context["rows"] == "bk" and out.shape == (case.context["batch"], case.context["keys"])
        )
        out = out[:, None] if notes["flat"] else out[None]
    return spread_out(out, case), None


ROLES = (
    ("window", r"window.*|sliding_window|w|span|width"),
    ("past", r"(n_)?past(_(kv|keys?|key_values?))?(_len|_length|_tokens)?|offset|cache(d)?_?(len|length)?|"
        r"start(_pos)?|prefix_len"),
    ("q_len", r"(q|query|queries|tgt|target|num_queries|n_q|t_q|tq)(_?(len|length|size|seq_len))?|n_queries|t_q"),
    ("k_len", r"(k|kv|key|keys|src|source|t_k|tk|n_k)(_?(len|length|size|seq_len))?|n_keys|num_keys|t_k|total(_len)?"),
    ("lengths", r"lengths|lens|valid_len(s|gths)?|seq_(lens|lengths)|n_valid"),
    ("mask", r"(attention_|attn_|key_)?(padding_|pad_)?mask|keep|valid"),
    ("pad", r"(\w+_)?pad(ding)?(_?(id|idx|token|token_id|index))?"),
    ("ids", r".*ids|tokens|seqs?|sequences|batch|src|tgt|trg|inputs?|x|target|idx"),
    ("scores", r"scores|att|attn|energy|logits|scaled"),
    ("T", r"n|t|l|s|sz|size|(seq|max|sequence|max_seq|context|block|num|target|n)_?(len|length|"
        r"size|tokens|positions|seq_len)|length|dim|count|seqlen"),
    ("x", r"(inputs?_)?embed(s|dings?)|hidden(_states)?"),
    ("B", r"b|bs|bsz|batch_size"),
    ("H", r"h|heads|n_heads|num_heads"),
    ("causal", r"(is_)?causal"),
)  # fmt: skip


SPARE = ("T", "ids", "q_len", "k_len", "lengths", "window", "scores", "x", "past", "B")
OPTIONAL = frozenset(("past", "window", "pad", "lengths", "k_len", "q_len"))


def role_of(name: str) -> str | None:
    return next((r for r, pattern in ROLES if re.fullmatch(pattern, name.lower().strip("_"))), None)


def reader(method: ast.FunctionDef) -> Callable[[str], str | None]:
    """What a name says, in view of the others: the length of keys alone is the length."""
    roles = [role_of(name) for name, _ in parameters(method)]

    def known(name: str) -> str | None:
        found = role_of(name) or ("pad" if len(name) > 1 and compared(method, name) else None)
        if found in ("q_len", "k_len") and not {"q_len", "k_len"} <= set(roles) and "past" not in roles:
            other = "k_len" if found == "q_len" else "q_len"
            alone = "T" not in roles and other not in roles and roles.count(found) == 1
            return "T" if alone and not re.search("past", name) else found
        return "q_len" if found == "T" and "past" in roles else found

    return known


def calls(subject: Subject, source: Source, candidate: Candidate, base: Setup) -> list[Setup]:
    """The calls of a function or of a class's forward; one that takes two indices is asked for every pair."""
    method = candidate.node if isinstance(candidate.node, ast.FunctionDef) else main_method(candidate.node)
    assert method is not None
    made = [""] if method is candidate.node else [f"({text})" for text in made_with(candidate.node)]
    known = settings.within(subject, method, reader(method))
    found = bindings(method, known, SPARE, OPTIONAL, source.docs)
    base = replace(base, sizes=tuple((role_of(n) or n, v) for n, v in subject.defined.items() if is_pad(n, v)))
    node = candidate.node
    direct = isinstance(node, ast.FunctionDef) or called_directly(node, method.name)
    name = "" if direct else f".{method.name}"
    texts = [f"{candidate.name}{m}{name}({b.call()})" for m in made for b in found if fitting(set(b.roles.values()))]
    if len(parameters(method)) == 2 and made == [""]:
        each = f"[[{candidate.name}(i, j) for j in range(n)] for i in range(n)]"
        texts.insert(0 if all(len(name) == 1 for name, _ in parameters(method)) else len(texts), each)
    return [replace(base, call=text) for text in texts]


def is_pad(name: str, value: Any) -> bool:
    return type(value) is int and role_of(name) == "pad"


def fitting(roles: set[str]) -> bool:
    """Whether lengths are given in one way: T alone, or q_len and what lies before it."""
    return not ("T" in roles and roles & {"q_len", "k_len"}) and not (
        "past" in roles and not roles & {"q_len", "k_len"}
    )


def made_with(node: ast.AST) -> list[str]:
    """The arguments of a class's constructor: lengths at most, no weights."""
    init = constructor(node) if isinstance(node, ast.ClassDef) else None
    if init is None:
        return [""]

    def known(name: str) -> str | None:
        found = role_of(name)
        return "512" if found in ("T", "k_len") else found

    return [b.call() for b in bindings(init, known, ("512",), frozenset(("past",)))]


def variants(source: Source, setup: Setup, flags: Flags) -> list[Setup]:
    """The conventions and meanings worth a try: what the docs announce, else all."""
    announced = flags.mask if flags.mask in ("keep", "hide", "add") else source.convention("")
    if source.name and not announced:
        name = source.name.lower()
        announced = (
            "hide"
            if re.search(r"hid|block|forbid", name)
            else "keep"
            if re.search(r"visible|keep|may|allow", name)
            else None
        )
    adds = source.says(r"inf|1e\+?\d|finfo|-?1000000") or "scores" in setup.uses
    hides = source.says(r"triu") and not source.says(r"== 0|== False|~|1 - |1\.0 - |logical_not|\.T\b")
    usual = ("hide", "keep") if hides else ("keep", "hide")
    choices = (announced,) if announced else ("add", *usual) if adds else (*usual, "add")
    pads = takes_padding(setup.call)
    says_causal = source.says(r"tril|triu|np\.tri\b|causal|subsequent|>=|<=") or source.tells(
        r"causal|future|look.?ahead|decoder|subsequent|triang"
    )
    told = source.tells(r"causal|future|look.?ahead|subsequent|triang|decoder|tgt|target")
    causal = (True,) if not pads or told else (True, False) if says_causal else (False,)
    meanings = [replace(setup, mask=m, causal=c, form="bk" if pads else "qk") for m in choices for c in causal]
    if "ids" in setup.uses and "pad" not in setup.uses and not source.says(r"!=|=="):
        meanings += [replace(s, variant="triangle") for s in meanings]
    return meanings
