"""How a shift or a loss is called: from its parameters, on a batch, on one text, or window by window."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from clearhead.checker import settings
from clearhead.checker.binding import Binding, bindings
from clearhead.checker.candidates import Candidate
from clearhead.checker.definitions import called_directly, constructor, main_method
from clearhead.checker.names import parameters
from clearhead.checker.setup import Flags, Setup
from clearhead.checker.source import Source, shape_words
from clearhead.checker.subject import Subject

ROLES = (
    ("logp", r"log_?p(rob(abilitie)?s?)?|log_probs?|lp"),
    ("logits", r"logits?|scores|outputs?|preds?|predictions?|y_?hat|lm_logits"),
    ("pad", r"(\w+_)?pad(ding)?(_?(id|idx|token|token_id|index|value))?"),
    ("bos", r"(bos|sos|start|begin|decoder_start|go|cls)(_?(id|idx|token|token_id|symbol|index))?"),
    ("mask", r"(attention_|attn_|loss_|pad_|padding_)?mask|valid|keep|weights?"),
    ("model", r"model|net|network|lm|decoder|transformer"),
    ("T", r"block_size|context_(len|length|size)|window(_size)?|seq_len(gth)?|max_len(gth)?|length|chunk_size|ctx_len"),
    ("B", r"batch_size|bs|n_samples"),
    ("eos", r"(eos|end|stop|sep)(_?(id|idx|token|token_id|symbol|index))?"),
    ("labels", r"labels?|lm_labels|targets?|gold|y|tgt_out"),
    ("lengths", r"lengths?|lens"),
    ("ids", r".*ids?|tokens?|x|seqs?|sequences?|batch|tgt|trg|text|data|idx|inputs?|sentences?|target_tokens|t"),
)  # fmt: skip


def role_of(name: str) -> str | None:
    return next((r for r, pattern in ROLES if re.fullmatch(pattern, name.lower().strip("_"))), None)


def constants(
    subject: Subject, init: ast.FunctionDef | None, method: ast.FunctionDef | None
) -> tuple[tuple[str, int], ...]:
    """The ids of padding and start that the file fixes: PAD = 0, or pad_id=0 among the parameters."""
    found = {role_of(name): value for name, value in subject.defined.items() if type(value) is int}
    for function in (init, method):
        found |= {role_of(name): value for name, value in defaults(function) if type(value) is int} if function else {}
    return tuple((name, found[name]) for name in ("pad", "bos") if name in found)


def defaults(method: ast.FunctionDef) -> list[tuple[str, Any]]:
    """(name, default) of the parameters whose default is a constant."""
    args = [*method.args.posonlyargs, *method.args.args]
    pairs = [*zip(reversed(args), reversed(method.args.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(method.args.kwonlyargs, method.args.kw_defaults, strict=True) if d is not None]
    return [(a.arg, d.value) for a, d in pairs if isinstance(d, ast.Constant)]


SPARE = ("ids", "bos", "pad", "labels", "logits", "model", "T")


def reader(method: ast.FunctionDef, source: Source) -> Callable[[str], str | None]:
    """What a name says, in view of the others: "labels" without logits are the ids."""
    roles = {role_of(name) for name, _ in parameters(method)}
    ignored = {"pad", "bos"} <= roles and (source.says("-100") or source.tells("-100"))

    def known(name: str) -> str | None:
        found = role_of(name)
        if found == "labels" and not roles & {"logits", "logp"} and not re.search("label", name):
            found = "ids"
        if name == "vocab_size":
            return "V"
        return "labels" if found == "ids" and ignored else found

    return known


def fallback(setups: list[Setup]) -> list[Setup]:
    """The same on one text at a time, or cut into windows: for code that no batch explains."""
    one = [replace(s, rank=1) for s in setups if s.rank == 3]
    return one + [replace(s, variant="windows", rank=1) for s in setups[:2] if not s.uses & {"logits", "bos", "model"}]


def calls(subject: Subject, source: Source, candidate: Candidate, base: Setup) -> list[Setup]:
    method = candidate.node if isinstance(candidate.node, ast.FunctionDef) else main_method(candidate.node)
    assert method is not None
    base = replace(base, form="wrapped" if source.says(r"\.logits") else "")
    init = constructor(candidate.node) if isinstance(candidate.node, ast.ClassDef) else None
    started = bindings(init, settings.within(subject, init, role_of), SPARE[1:3]) if init else []
    made = [f"({b.call()})" for b in started] or ["()" if isinstance(candidate.node, ast.ClassDef) else ""]
    known = settings.within(subject, method, reader(method, source))
    found = bindings(method, known, SPARE, frozenset(("pad", "bos")), source.docs)
    node = candidate.node
    direct = isinstance(node, ast.FunctionDef) or called_directly(node, method.name)
    name = "" if direct else f".{method.name}"
    texts = [(f"{candidate.name}{m}{name}", b) for m in made for b in found]
    if any(time_first(shape_words(source.docs, one)) for one, _ in parameters(method)):
        return [replace(base, call=text) for start, b in texts for text in turned(start, b)]
    return [replace(base, call=f"{start}({b.call()})") for start, b in texts]


def time_first(words: list[str] | None) -> bool:
    """Whether the axes that the docs give are tokens, then samples: [T, B], (seq_len, batch, vocab)."""
    tokens, samples = r"t|l|s|n|(seq|len|time|tokens|steps|tgt)\w*", r"b|bs|bsz|batch.*"
    low = [word.lower() for word in words or []]
    return len(low) > 1 and all(re.fullmatch(p, word) for p, word in zip((tokens, samples), low, strict=False))


def turned(start: str, b: Binding) -> list[str]:
    """The calls with tokens first; their answer, one array or several, with samples first again."""
    given = re.sub(r"\b(ids|labels|logits|logp|mask)\b(?!=)", r"\1.swapaxes(0, 1)", b.call())
    call = f"{start}({given})"
    if {"logits", "logp"} & set(b.roles.values()):
        return [call]
    return [f"{call}.swapaxes(0, 1)", f"tuple(part.swapaxes(0, 1) for part in {call})"]


def variants(source: Source, setup: Setup, flags: Flags) -> list[Setup]:
    """What the call computes, on a batch or on one text or window by window."""
    init = constructor(source.node) if isinstance(source.node, ast.ClassDef) else None
    method = main_method(source.node) if isinstance(source.node, ast.ClassDef) else source.function()
    setup = replace(setup, sizes=constants(source.subject, init, method))
    many = source.tells(r"\bbatch|\(B\b|\[B\b|\(N, ?T")
    one = not many and (source.tells(ONE) or source.names(ONE_NAMED))
    found = kinds_of(source, setup)
    made = [replace(v, rank=rank) for v in found for rank in ((1, 3) if one else (3,))]
    if "T" in setup.uses:
        return [replace(setup, variant="windows", rank=1), *made]
    return made


ONE = r"\b1-?D\b|one (sequence|text|sentence)|list of (token|int|id)|\(T,?\)|\[T\]|\(N,\)|\(n,\)"

ONE_NAMED = r"sequence|sentence|text|line|stream|corpus|data|seq"


def kinds_of(source: Source, setup: Setup) -> list[Setup]:
    """What the call may compute, by its names and the words of the source, likeliest first."""
    uses = setup.uses
    if "model" in uses and "logits" not in uses:
        return [replace(setup, variant="loss")]
    if uses & {"logits", "logp"}:
        node = source.function()
        names = " ".join(name for name, _ in parameters(node)) if node else ""
        done = source.tells(
            r"already (been )?(shift|next|the next)|\baligned|shifted (in|by|outside|before|already)|are shifted"
        )
        aligned = done or (
            re.search(r"target|gold|\by\b", names) and not source.tells(r"shift|next.token|input.?ids|causal|own ids")
        )
        open_ = "labels" in uses and not source.tells(r"next.token|causal|shift|language model|\blm\b")
        kinds = ["loss unshifted"] if aligned else ["loss", "loss unshifted"] if open_ else ["loss"]
        pads = bool(uses & {"pad", "mask"}) or "pad" in dict(setup.sizes)
        form = "pad labels" if pads and "labels" in uses else ""
        return [replace(setup, variant=kind, form=form) for kind in kinds]
    if "eos" in uses:
        return [replace(setup, variant="with end")]
    if "bos" in uses:
        return [replace(setup, variant=kind) for kind in ("right", "with start", "pairs")]
    kinds = ["pairs", "right", "targets"]
    if re.search(r"target|label|next", (source.name or "").lower()):
        kinds = ["pairs", "targets"]
    if source.tells(r"shift_?(tokens_)?right|decoder_input"):
        kinds = ["right", "pairs", "targets"]
    return [replace(setup, variant=kind) for kind in kinds]
