"""From a candidate to the ways in which it may be called: expressions, ranks, masks, conventions."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import replace

from clearhead.checker.candidates import Candidate
from clearhead.checker.names import WEIGHTS, arguments, role
from clearhead.checker.setup import Flags, Setup
from clearhead.checker.source import Source, shape_words
from clearhead.checker.subject import Subject

MASKS = frozenset(("mask", "src_mask", "tgt_mask", "lengths", "causal", "window"))
SIZES = frozenset(("H", "Hkv", "D", "dk"))
FORMS = {
    2: ("qk", "1k"),
    3: ("bqk", "qk", "bk", "b1k"),
    4: ("b1qk", "bqk", "qk", "b11k", "bk", "b1k", "bhqk"),
}


def library(source: Source, flags: Flags) -> tuple[str, ...]:
    """The libraries to try, likeliest first."""
    if flags.lib:
        return (flags.lib,)
    code = source.code
    uses_torch = re.search(
        r"\btorch\b|\bnn\.|\bF\.|\.transpose\(-?\d, *-?\d\)|masked_fill|unsqueeze|\.softmax\(|\.view\(|\.size\(", code
    )
    uses_numpy = re.search(r"\bnp\.|\bnumpy\.|keepdims", code)
    if uses_torch and source.subject.torch:
        return ("torch", "numpy")
    if uses_numpy:
        return ("numpy", "torch") if source.subject.torch else ("numpy",)
    return ("torch", "numpy", "list") if source.subject.torch else ("numpy", "list")


def function_call(candidate: Candidate, task: str) -> tuple[str, dict[str, str]]:
    """The call of a plain function, and parameter -> role."""
    node = candidate.node
    assert isinstance(node, ast.FunctionDef)
    data = {
        "sdpa": ("Q", "K", "V", "x"),
        "multi_head_attention": ("Q", "K", "V", "x", "mem"),
        "cross_attention": ("Q", "K", "V", "x", "mem"),
    }
    allowed = frozenset((*data[task], *WEIGHTS)) | MASKS | SIZES
    try:
        texts, roles = arguments(node, allowed, MASKS | frozenset(("H", "Hkv", "Wo")))
    except ValueError:
        if task != "sdpa":
            raise
        texts, roles = positional(node)
    if task == "sdpa" and not {"Q", "K", "V"} <= set(roles.values()) and "x" not in roles.values():
        texts, roles = positional(node)
    return f"{candidate.name}({', '.join(texts)})", roles


def positional(node: ast.FunctionDef) -> tuple[list[str], dict[str, str]]:
    """Q, K, V by position, for names that say nothing."""
    plain = [a.arg for a in node.args.args if a.arg != "self"]
    required = len(plain) - len(node.args.defaults)
    if required < 3:
        raise ValueError("it does not take queries, keys and values")
    texts, roles = ["Q", "K", "V"], dict(zip(plain, "QKV", strict=False))
    for i, name in enumerate(plain[3:], 3):
        found = role(name, MASKS)
        if found:
            roles[name] = found
            texts.append(f"{name}={found}" if i >= required else found)
        elif i < required:
            raise ValueError(f"the parameter {name!r} says nothing")
    return texts, roles


def construct(node: ast.ClassDef, subject: Subject) -> str:
    """The text that makes an instance of a module."""
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    if init is None:
        fields = [n for n in node.body if isinstance(n, ast.AnnAssign)]
        return f"{node.name}()" if not fields else f"{node.name}({', '.join(_field(n) for n in fields)})"
    texts, _ = arguments(init, SIZES | frozenset(WEIGHTS), SIZES)
    return f"{node.name}({', '.join(_config(text, subject) for text in texts)})"


def _field(node: ast.AnnAssign) -> str:
    name = node.target.id if isinstance(node.target, ast.Name) else ""
    found = role(name, SIZES)
    return f"{name}={found}" if found else ""


def _config(text: str, subject: Subject) -> str:
    """The file's own config class, where it has one, in place of ours."""
    if text.split("=")[-1] != "config":
        return text
    own = [
        name
        for name, value in subject.defined.items()
        if isinstance(value, type) and re.search(r"conf|args|param", name.lower())
    ]
    return text.replace("config", f"{own[0]}()") if own and "=" not in text else text


def convention_choices(source: Source, roles: dict[str, str], flags: Flags, call: str) -> tuple[str, ...]:
    """The mask conventions to try: the flag's or the documented one, else every one that is usual."""
    if flags.mask:
        return (flags.mask,)
    names = [name for name, found in roles.items() if found in ("mask", "src_mask", "tgt_mask")]
    announced = next((c for n in names if (c := source.convention(n))), None) if names else source.convention()
    return (announced,) if announced else ("keep", "hide", "add")


def rank_choices(source: Source, roles: dict[str, str], call: str) -> tuple[int, ...]:
    """The ranks of Q, K, V to try."""
    names = [name for name, found in roles.items() if found in ("Q", "K", "V", "x")] or ["Q", "query", "q", "x"]
    found = source.rank_of(*names) or source.rank()
    return (found,) if found in (2, 3, 4) else (3, 4, 2)


def form_choices(source: Source, roles: dict[str, str], rank: int) -> tuple[str, ...]:
    """The axes of the mask to try, those that the docs name first and alone."""
    names = [name for name, found in roles.items() if found in ("mask", "src_mask", "tgt_mask")] or ["mask"]
    for name in names:
        words = shape_words(source.docs, name)
        if words:
            form = form_of(words)
            if form in {f for forms in FORMS.values() for f in forms}:
                return (form,)
        if re.search(r"pad|key_mask", name) and rank > 2:
            return ("bk", *(f for f in FORMS[rank] if f != "bk"))
    return FORMS[rank]


def form_of(words: list[str]) -> str:
    """Axes as the docs write them, in our letters: (B, 1, T_q, T_k) is b1qk, (B, S) is bk."""
    letters = []
    for i, word in enumerate(words):
        plain = word.lower()
        from_end = len(words) - i
        if plain == "1":
            letters.append("1")
        elif from_end == 1:
            letters.append("k")
        elif re.fullmatch(r"b|n|batch.*|bs|bsz", plain) or (i == 0 and len(words) != 2):
            letters.append("b")
        elif re.fullmatch(r"h|.*heads?", plain):
            letters.append("h")
        elif from_end == 2:
            letters.append("q")
        else:
            letters.append("h")
    return "".join(letters)


def causal_choices(source: Source, uses: frozenset[str]) -> tuple[bool, ...]:
    """Whether to judge the code as causal by itself: yes where it says so, else both."""
    if uses & {"causal", "window", "mem"}:
        return (False,)
    head = f"{source.name or ''}"
    if re.search(r"causal|autoregress|decoder_self|masked_self|look_?ahead", head, re.IGNORECASE):
        return (True,)
    if uses & {"mask", "src_mask", "tgt_mask"}:
        return (False, True) if source.says(r"tril|triu|np\.tri\b|causal") else (False,)
    told = re.search(
        r"\bcausal|autoregressive|see the future|look(s|ing)? ahead|up to (its|their) own|future (token|position|key)",
        source.docs,
        re.IGNORECASE,
    )
    denied = re.search(r"(not|non|no|without|un).{0,12}causal", source.docs, re.IGNORECASE)
    if told and not denied:
        return (True, False) if not source.says(r"tril|triu|np\.tri\b|>|<|range") else (True,)
    guarded = source.says(r"\bif\b[^:\n]*(causal|mask|decoder)|causal\w* *=")
    return (True,) if source.says(r"\b(tril|triu|np\.tri)\(") and not guarded and not denied else (False, True)


def attention_setups(subject: Subject, source: Source, base: Setup, roles: dict[str, str], flags: Flags) -> list[Setup]:
    """All ways of calling worth a try, likeliest first."""
    uses = base.uses
    masked = bool(uses & {"mask", "src_mask", "tgt_mask"})
    ranks = rank_choices(source, roles, base.call) if base.task == "sdpa" else (3,)
    if "lengths" in uses or flags.mask == "lengths":
        ranks = tuple(rank for rank in ranks if rank > 2) or (3,)
    conventions = convention_choices(source, roles, flags, base.call) if masked else ("none",)
    optional = source.says(r"is not None|is None|\bif (not )?\w*mask\w*:|if \w*mask\w* else|=None")
    base = replace(base, optional=optional)
    if base.task == "sdpa" and (source.says(r"n_?rep\b|kv_head|n_kv|group") or (source.says(r"repeat") and not masked)):
        grouped = replace(base, variant="grouped")
        return [replace(grouped, lib=lib, rank=4, mask=conventions[0], form="qk") for lib in library(source, flags)]
    found: list[Setup] = []
    for lib, rank, causal in itertools.product(library(source, flags), ranks, causal_choices(source, uses)):
        forms = form_choices(source, roles, rank if base.task == "sdpa" else 4) if masked else ("bqk",)
        known = set(FORMS[rank if base.task == "sdpa" else 4])
        forms = tuple(f for f in forms if f in known) or FORMS[rank if base.task == "sdpa" else 4]
        if conventions in (("lengths",), ("none",)):
            forms = forms[:1]
        whole = source.tells(r"\bint(eger)?s?\b|whole numbers|0/1|zeros and ones|0s and 1s")
        kinds = ("int", "bool", "float") if masked and whole else ("bool", "float", "int") if masked else ("bool",)
        for convention, form in itertools.product(conventions, forms):
            for kind in kinds if convention in ("keep", "hide") else kinds[:1]:
                found.append(replace(base, lib=lib, rank=rank, causal=causal, mask=convention, form=form, kind=kind))
    return found
