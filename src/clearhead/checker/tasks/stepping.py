"""How a cache is made and stepped: from the flags, or from a class's methods or a function's parameters."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from clearhead.checker.binding import Binding, bindings, kind
from clearhead.checker.candidates import Candidate
from clearhead.checker.definitions import called_directly, holds, keeps, main_method, methods_of, projects
from clearhead.checker.infer import library
from clearhead.checker.layout import OURS, announced
from clearhead.checker.modules import loaded
from clearhead.checker.names import parameters, role
from clearhead.checker.setup import Flags, Setup, names_in
from clearhead.checker.source import Source
from clearhead.checker.subject import CannotRunError, Subject
from clearhead.checker.tasks.starting import default_kept, made_by, makes_for

KEPT = r"cache|past|state|memory|history|store|buf|prev|kv|old|mem"
POSITION = (
    r"(cache_?|cur(rent)?_?|start_?|n_?|past_?|token_?|write_?)?(pos(ition)?|len(gth)?|step|offset|idx|index|past|"
    r"seen|cached|filled|start)(_?(pos(ition)?|len(gth)?|tokens|id|ids|so_far))?|t|i"
)
ORDERS = (None, "state,out")
SPARE = ("Q", "K", "V", "state", "past", "H")


def plans(subject: Subject, source: Source, candidate: Candidate | None, flags: Flags) -> Iterator[list[Setup]]:
    """Groups of setups, one for each way to step. Raises CannotRunError when there is none."""
    base = Setup("kv_cache", "0", returns=flags.returns, form=form_of(source, candidate))
    axes = axes_choices(source)
    count = 0
    for makes, step, extra in ways(subject, source, candidate, flags):
        count += 1
        known = replace(base, call=step, variant=extra.variant, sizes=extra.sizes)
        places = [(4, "")] if names_in(step) & {"x"} else axes
        first, *more = [(flags.returns, place) for place in places if not place[1]] or [(flags.returns, places[0])]
        others = [(order, place) for order in ORDERS for place in places if (order, place) not in (first, *more)]
        for part in ([first], more, others if not flags.returns else []):
            if not part or not makes:
                continue
            choices = itertools.product((False, True), library(source, flags), part, makes)
            yield [
                replace(known, single=single, lib=lib, returns=order, make=make, rank=rank, layout=layout)
                for single, lib, (order, (rank, layout)), make in choices
            ]
    if not count:
        raise CannotRunError(
            'it is not clear how to step it; say so with --make "Cache()" --step "state.step(q, k, v)"'
        )


def form_of(source: Source, candidate: Candidate | None) -> str:
    """Whether several tokens at once are part of the task: where the code has a triangle or the docs speak of them."""
    chunky = source.says(r"tril|triu|tri\(|causal|mask|>=|<=") or source.tells(
        r"chunk|prefill|prompt|several tokens|T_new|any number"
    )
    own_mask = candidate is not None and takes_mask(candidate.node)
    return "" if chunky and not own_mask else "single steps"


def takes_mask(node: ast.AST) -> bool:
    """Whether a function leaves it to its caller what the tokens of one chunk may see."""
    return isinstance(node, ast.FunctionDef) and any(
        role(name, frozenset(("mask",))) and not re.search(r"bias", name) for name, _ in parameters(node)
    )


def axes_choices(source: Source) -> list[tuple[int, str]]:
    """(rank, layout) of q, k and v: what is announced, else all; at last one token without its axis."""
    told = announced(source, ["q", "Q", "query", "k", "q_t", "q_new", "new_k", "k_new"])
    rank = batch_rank(source.docs)
    if told is not None:
        return [(len(told), "" if told == OURS[len(told)] else told)]
    if rank in (2, 3, 4):
        return [(rank, ""), *([(4, "bthd")] if rank == 4 else []), *([(4, "bhd")] if rank == 3 else [(3, "bd")])]
    return [(4, ""), (3, ""), (2, ""), (4, "bthd"), (4, "bhd"), (3, "bd"), (2, "d")]


def batch_rank(docs: str) -> int | None:
    """The number of axes of the shapes in the docs that begin with a batch, where all agree: "[batch, heads, n, d]"."""
    shapes = re.findall(r"[(\[]((?:[A-Za-z_]\w*, *){1,3}[A-Za-z_]\w*)[)\]]", docs)
    counts = {len(shape.split(",")) for shape in shapes if re.match(r"(?i)b\b|batch|bsz?\b", shape)}
    return counts.pop() if len(counts) == 1 else None


Way = tuple[list[str], str, Setup]  # what may make the state, the step, and sizes and variant of a projection


def ways(subject: Subject, source: Source, candidate: Candidate | None, flags: Flags) -> Iterator[Way]:
    plain = Setup("kv_cache", "0")
    step = flags.step or flags.call
    if step and flags.make:
        yield [flags.make], step, sized(plain, names_in(step) | names_in(flags.make))
    elif candidate is None:
        raise CannotRunError('a cache needs --make and --step, e.g. --make "Cache()" --step "state.step(q, k, v)"')
    elif isinstance(candidate.node, ast.ClassDef):
        if projects(candidate.node):
            yield from module_ways(subject, source, candidate.node)
        else:
            yield from given_ways(candidate.node, subject, source)
            yield from ((made_by(candidate.node), step, plain) for step in class_steps(candidate.node, subject))
    else:
        yield from closure_ways(candidate.node)
        yield from function_ways(candidate.node, subject, source, flags)


def sized(plain: Setup, uses: frozenset[str]) -> Setup:
    """One head where a projecting call names no number of heads."""
    one = bool(uses & {"Wq", "Wqkv"}) and "H" not in uses
    return replace(plain, sizes=(("H", 1),), variant="" if "Wo" in uses else "no out") if one else plain


def given_ways(node: ast.ClassDef, subject: Subject, source: Source) -> Iterator[Way]:
    """A class without weights whose step is given the state, and keeps none itself."""
    method = main_method(node)
    if method is None or keeps(method, methods_of(node)):
        return
    for b in bindings(method, reader(method), SPARE, frozenset(("state", "past", "k_cache", "v_cache")), source.docs)[
        :3
    ]:
        own = [name for name, found in b.roles.items() if found == "state"]
        if own and {"Q", "K", "V"} <= set(b.roles.values()):
            call = "" if called_directly(node, method.name) else f".{method.name}"
            for made in made_by(node)[:2]:
                yield makes_for(method, subject, own, False), f"{made}{call}({worded(b)})", Setup("kv_cache", "0")


def attenders(subject: Subject) -> list[str]:
    """What attends over all keys: the file's own functions of q, k and v, else ours."""
    nodes = [n for n in subject.tree.body if isinstance(n, ast.FunctionDef)]
    needed = {n.name: [role(name) for name, default in parameters(n) if not default] for n in nodes}
    return [*(name for name, roles in needed.items() if roles == ["Q", "K", "V"]), "attend_to"]


def class_steps(node: ast.ClassDef, subject: Subject) -> list[str]:
    """The steps of a class that keeps keys and values: it attends itself, or keeps and is asked for what it has."""
    methods = [n for n in node.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("__i")]
    named = {m: {role(name) for name, _ in parameters(m)} & {"Q", "K", "V"} for m in methods}
    found: dict[str, str] = {}
    for method in sorted(methods, key=lambda m: -len(named[m])):
        for b in bindings(method, reader(method), ("Q", "K", "V", "past"), frozenset(("past",)))[:3]:
            call = "state" if called_directly(node, method.name) else f"state.{method.name}"
            found.setdefault(kind_of(b), f"{call}({worded(b)})")
    steps = [found["QKV"]] if "QKV" in found else []
    if "KV" in found:
        steps += [f"{attend}(q, *{found['KV']})" for attend in attenders(subject)]
        if "Q" in found:
            steps.append(f"({found['KV']}, {found['Q']})[1]")
        asked = [m.name for m in methods if not parameters(m) and not re.search(r"reset|clear|len|size", m.name)]
        also = itertools.product(asked, attenders(subject))
        steps += [f"({found['KV']}, {attend}(q, *state.{name}()))[1]" for name, attend in also]
    return steps


def kind_of(b: Binding) -> str:
    return "".join(r for r in ("Q", "K", "V") if r in b.roles.values())


def reader(node: ast.FunctionDef) -> Callable[[str], str | None]:
    """What a name says in a step: the new token's q, k, v or x, what is kept, the position, weights."""
    given = [name for name, _ in parameters(node)]
    kept = [name for name in given if re.search(KEPT, name.lower()) and not re.match(r"use_|return_|with_|is_", name)]
    kept += [name for name in given if name not in kept and holds(node, name)]
    sides = {
        name: side for name in kept for side in "kv" if re.search(rf"(^|_){side}(ey|al)?\w*$|^{side}", name.lower())
    }
    pair = len(sides) == 2 and len(set(sides.values())) == 2

    def known(name: str) -> str | None:
        low = name.lower()
        if pair and name in sides:
            return f"{sides[name]}_cache"
        if re.fullmatch(POSITION, low) and low != "past" and not (low in ("t", "i") and len(given) < 4):
            return "past"
        if name in kept and (kind(node, name) != "whole" or not re.fullmatch(POSITION, low)):
            return "state"
        if re.fullmatch(r"layer(_?(idx|index|id|number|no|i))?|i_?layer", low):
            return "0"
        if low in ("max_len", "maxlen", "max_seq_len"):
            return "maxlen"
        return role(name, frozenset(("Q", "K", "V", "x", "Wq", "Wk", "Wv", "Wo", "Wqkv", "H", "mask", "window")))

    return known


WORDS = {"Q": "q", "K": "k", "V": "v", "k_cache": "state[0]", "v_cache": "state[1]"}


def worded(b: Binding) -> str:
    """The arguments in the names of a step."""
    return re.sub(r"\b(Q|K|V|k_cache|v_cache)\b(?!=)", lambda m: WORDS[m[1]], b.call())


def closure_ways(node: ast.FunctionDef) -> Iterator[Way]:
    """A function without parameters that returns a step of its own: the step keeps what the function holds."""
    inner = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    last = node.body[-1]
    if parameters(node) or not (isinstance(last, ast.Return) and isinstance(last.value, ast.Name)):
        return
    step = inner.get(last.value.id)
    for b in bindings(step, reader(step), ("Q", "K", "V")) if step is not None else []:
        if {"Q", "K", "V"} <= set(b.roles.values()):
            yield [f"{node.name}()"], f"state({worded(b)})", Setup("kv_cache", "0")


def function_ways(node: ast.FunctionDef, subject: Subject, source: Source, flags: Flags) -> Iterator[Way]:
    plain, optional = (
        Setup("kv_cache", "0"),
        frozenset(("state", "past", "k_cache", "v_cache", "x", "H", "Wo", "window")),
    )
    kept_by_default = frozenset(default_kept(node))
    found = bindings(node, reader(node), SPARE, optional, source.docs)
    for b in found:
        roles = set(b.roles.values())
        if not (roles >= {"Q", "K", "V"} or "x" in roles):
            continue
        own = [name for name, found_role in b.roles.items() if found_role == "state"]
        if kept_by_default & set(own):  # it keeps its state itself, in a default that lives as long as it
            rest = Binding(tuple(t for t in b.texts if t.split("=")[0] not in own), b.roles)
            step = f"{node.name}({worded(rest)})"
            yield ["None"], step, sized(plain, names_in(step))
        makes = [flags.make] if flags.make else makes_for(node, subject, own, "k_cache" in roles)
        step = f"{node.name}({worded(b)})"
        yield makes, step, sized(plain, names_in(step))


def module_ways(subject: Subject, source: Source, node: ast.ClassDef) -> Iterator[Way]:
    """A module that projects x: it keeps the cache itself, or takes and returns it."""
    from clearhead.checker.infer import construct

    method = source.method("forward") or source.method("step") or source.method("__call__")
    if method is None:
        return
    name = "" if called_directly(node, method.name) else f".{method.name}"
    for text in construct(node, subject)[:4]:
        try:
            put, sizes, variant = loaded(subject, source, text)
        except CannotRunError:
            continue
        more = Setup("kv_cache", "0", sizes=sizes, variant=variant)
        optional = frozenset(("state", "past", "k_cache", "v_cache"))
        for b in bindings(method, reader(method), ("x", "state", "past"), optional, source.docs)[:4]:
            own = [p for p, found in b.roles.items() if found == "state"]
            pair = "k_cache" in b.roles.values()
            if not own and not pair:
                yield [put], f"state{name}({b.call()})", more
            else:
                yield makes_for(method, subject, own, pair), f"{put}{name}({worded(b)})", more
