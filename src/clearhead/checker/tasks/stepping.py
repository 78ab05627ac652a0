"""How a cache is made and stepped: from the flags, or from a class's methods or a function's parameters."""

from __future__ import annotations

import ast
import itertools
import re
from dataclasses import replace

from clearhead.checker.candidates import Candidate
from clearhead.checker.infer import library
from clearhead.checker.names import filler, parameters, role
from clearhead.checker.setup import Flags, Setup
from clearhead.checker.source import Source
from clearhead.checker.subject import CannotRunError, Subject


def setups(subject: Subject, source: Source, candidate: Candidate | None, flags: Flags) -> list[Setup]:
    """The make and step expressions from the flags or the signature; ranks and chunks by the source."""
    pairs: list[tuple[str, str]] = []
    if flags.make and (flags.step or flags.call):
        pairs = [(flags.make, flags.step or flags.call or "")]
    elif candidate is None:
        raise CannotRunError('a cache needs --make and --step, e.g. --make "Cache()" --step "state.step(q, k, v)"')
    elif isinstance(candidate.node, ast.ClassDef):
        pairs = class_pairs(candidate.node)
    else:
        pairs = function_pairs(candidate.node, flags, subject)
    rank = source.rank_of("q", "Q", "query", "k") or batch_rank(source.docs)
    ranks = (rank,) if rank in (2, 3, 4) else (4, 3)
    chunky = source.says(r"tril|triu|tri\(|causal|mask") or source.tells(
        r"chunk|prefill|prompt|several tokens|T_new|any number"
    )
    own_mask = isinstance(candidate, Candidate) and takes_mask(candidate.node)
    variant = "" if chunky and not own_mask else "single steps"
    base = Setup("kv_cache", "0", variant=variant)
    choices = itertools.product((False, True), library(source, flags), pairs, ranks)
    return [replace(base, make=p[0], call=p[1], lib=lib, rank=r, single=single) for single, lib, p, r in choices]


def batch_rank(docs: str) -> int | None:
    """The number of axes of the shapes in the docs that begin with a batch, where all agree: "[batch, heads, n, d]"."""
    shapes = re.findall(r"[(\[]((?:[A-Za-z_]\w*, *){1,3}[A-Za-z_]\w*)[)\]]", docs)
    counts = {len(shape.split(",")) for shape in shapes if re.match(r"(?i)b\b|batch|bsz?\b", shape)}
    return counts.pop() if len(counts) == 1 else None


def takes_mask(node: ast.AST) -> bool:
    """Whether a function leaves it to its caller what the tokens of one chunk may see."""
    return isinstance(node, ast.FunctionDef) and any(
        role(name, frozenset(("mask",))) and not re.search(r"bias", name) for name, _ in parameters(node)
    )


def class_pairs(node: ast.ClassDef) -> list[tuple[str, str]]:
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    found = []
    for name in (
        "step",
        "forward",
        "__call__",
        "attend",
        "decode",
        "decode_step",
        "run",
        "update",
        "append",
        "add",
        "push",
        "extend",
    ):
        if name not in methods:
            continue
        names = [n for n, default in parameters(methods[name]) if not default]
        roles = [role(n, frozenset(("Q", "K", "V"))) for n in names]
        call = f"state{'' if name in ('forward', '__call__') else '.' + name}"
        if roles == ["Q", "K", "V"]:
            found.append(f"{call}(q, k, v)")
        elif roles == ["K", "V"]:
            found += [f"attend(q, *{call}(k, v))"]
    if not found:
        raise CannotRunError(f"it is not clear how to step {node.name}; say it with --make and --step")
    return [(made_by(node), step) for step in found]


def made_by(node: ast.ClassDef) -> str:
    """The text that makes the state of this class, from its constructor or, in a dataclass, its fields."""
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    given = parameters(init) if init else [(ast.unparse(n.target), n.value is not None) for n in fields]
    return f"{node.name}({', '.join(make_args(given))})"


def make_args(given: list[tuple[str, bool]]) -> list[str]:
    """The arguments for the parameters (name, has a default) that must be given."""
    found = []
    for name, default in given:
        if default:
            continue
        low = name.lower()
        text = (
            "B"
            if re.fullmatch(r"b|bs|bsz|batch(_size)?", low)
            else "maxlen"
            if re.search(r"max|len|size|capacity|ctx", low)
            else None
        )
        found.append(text or role(name, frozenset(("H", "D", "dk"))) or filler(name) or "None")
    return ["dk" if t == "D" else t for t in found]


def own_states(node: ast.FunctionDef, name: str, subject: Subject) -> list[str]:
    """What makes the state that a parameter is annotated with, or else that the file's class names announce."""
    classes = [n for n in subject.tree.body if isinstance(n, ast.ClassDef)]
    noted = next((a.annotation for a in (*node.args.args, *node.args.kwonlyargs) if a.arg == name), None)
    words = set(re.findall(r"\w+", ast.unparse(noted))) if noted else set[str]()
    chosen = [n for n in classes if n.name in words] or [n for n in classes if re.search(r"(?i)cache|state", n.name)]
    return [made_by(n) for n in chosen]


def function_pairs(node: ast.FunctionDef, flags: Flags, subject: Subject) -> list[tuple[str, str]]:
    names = [n for n, _ in parameters(node)]
    required = [n for n, default in parameters(node) if not default]
    data = frozenset(("Q", "K", "V"))
    texts, caches = [], []
    for name in names:
        low = name.lower()
        if re.search(r"cache|past|state|memory|history|store|buffer|prev|kv", low) and not re.match(
            r"use_|return_|with_|is_", low
        ):
            caches.append(name)
            texts.append(None)
        elif role(name, data):
            texts.append(role(name, data).lower())  # type: ignore[union-attr]
        elif name in required:
            raise CannotRunError(f"the parameter {name!r} of {node.name} says nothing; use --make and --step")
    if len(caches) == 2:
        step = ", ".join(t or f"state[{caches.index(names[i])}]" for i, t in enumerate(texts))
        return [("(None, None)", f"{node.name}({step})")]
    step = ", ".join(t or "state" for t in texts)
    makes = (
        [flags.make]
        if flags.make
        else [
            "{}",
            "None",
            "[]",
            "{'k': None, 'v': None}",
            "(None, None)",
            "[None, None]",
            "{'k': [], 'v': []}",
            "([], [])",
        ]
    )
    if caches and caches[0] not in required:
        makes = ["None", *[m for m in makes if m != "None"]]
    makes = [*(own_states(node, caches[0], subject) if caches and not flags.make else []), *makes]
    return [(make, f"{node.name}({step})") for make in makes]
