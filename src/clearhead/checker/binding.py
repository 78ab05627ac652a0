"""What each parameter of a signature may be given: by its name, by the docs, by its use; all plausible ways."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from clearhead.checker.names import WEIGHTS, filler, keyword_only, parameters

KEPT = r"cache|past|state|history"
MOST = 40  # ways of one signature
WHOLE = frozenset(
    ("H", "Hkv", "D", "dk", "d", "n", "T", "B", "q_len", "k_len", "past", "window", "pad", "bos", "eos", "maxlen")
)
ROWS = (("Q", "K", "V"), ("x", "mem"), WEIGHTS, ("q_len", "k_len"))
SURE, NAME, GUESS = "sure", "name", "guess"
Option = tuple[str, str]  # a text, and how sure it is
# What the docs call a parameter; first match wins.
WORDS = (
    ("mask", r"mask|ignored?\b|hidden key|may (be )?attend|padding|\btrue\b|not be seen"),
    ("Hkv", r"(key.?value|kv) heads"),
    ("H", r"heads?\b"),
    ("mem", r"encoder|memory|source|context"),
    ("x", r"decoder|input|target|sequence|tokens|embeddings"),
    ("Q", r"quer"),
    ("K", r"keys?\b"),
    ("V", r"values?\b"),
    ("bos", r"bos|start"),
    ("pad", r"pad"),
    ("past", r"position|how many|so far|offset"),
    ("D", r"width|model|dimension|features"),
)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a signature, with what its use in the body says of it."""

    name: str
    default: bool
    none: bool  # whether the default is None
    keyword: bool
    kind: str  # whole, array or ""


@dataclass(frozen=True)
class Binding:
    """The argument texts of a call, and parameter -> role."""

    texts: tuple[str, ...]
    roles: dict[str, str]

    def call(self) -> str:
        return ", ".join(self.texts)


def bindings(
    node: ast.FunctionDef,
    known: Callable[[str], str | None],
    spare: tuple[str, ...],
    optional: frozenset[str] = frozenset(),
    docs: str = "",
) -> list[Binding]:
    """All ways to fill the parameters, likeliest first; empty when one cannot be filled at all.

    `known(name)` is the role that a name says. A parameter whose name says nothing, or is a single letter, may also
    be any role of `spare` that its use in the body allows, in their usual order. Parameters with a default are filled
    only where their role is among `optional`.
    """
    params = read(node)
    found = [(p, options(p, known, spare, docs, optional)) for p in params]
    ways = choices([(p.name, some) for p, some in found], spare)
    guessed = [p.name for p, some in found if ("mask", GUESS) in some and like_mask(node, p.name)]
    full = (one for one in ways if "mask" in one.values() or all(one[name] for name in guessed))
    return [written(params, picked) for picked in itertools.islice(full, MOST)]


def like_mask(node: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter is used as masks are: ~m, masked_fill(m), where(m, ...), m[:, None], m.unsqueeze(1)."""
    one, code = rf"\b{re.escape(name)}\b", ast.unparse(node)
    uses = rf"~{one}|(masked_fill|where|logical_not)\([^\n]*{one}|{one}(\.unsqueeze\(|\.bool\(|\[[^\]\n]*None| == )"
    return re.search(uses, code) is not None and not re.search(r"pos|freq|cos|sin|rope|emb|weight|scale", name.lower())


def compared(node: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter is a value that others are held against: tokens == p, tokens.ne(p), np.equal(tokens, p)."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Compare) and names(inner.comparators[0], name):
            return isinstance(inner.ops[0], ast.Eq | ast.NotEq)
        called = inner.func.attr if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) else ""
        if called in ("eq", "ne", "equal", "not_equal") and isinstance(inner, ast.Call) and names(inner.args[-1], name):
            return True
    return False


def read(node: ast.FunctionDef) -> list[Parameter]:
    named, none = keyword_only(node), by_default_none(node)
    return [Parameter(p, default, p in none, p in named, kind(node, p)) for p, default in parameters(node)]


def by_default_none(node: ast.FunctionDef) -> set[str]:
    args = [*node.args.posonlyargs, *node.args.args]
    pairs = [*zip(reversed(args), reversed(node.args.defaults), strict=False)]
    pairs += [(a, d) for a, d in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if d is not None]
    return {a.arg for a, d in pairs if isinstance(d, ast.Constant) and d.value is None}


def options(
    p: Parameter, known: Callable[[str], str | None], spare: tuple[str, ...], docs: str, optional: frozenset[str]
) -> list[Option]:
    """What a parameter may be, likeliest first; "" leaves it out."""
    by_name, told = known(p.name), by_docs(p.name, docs)
    if p.default:
        if by_name is not None and (by_name in optional or "(" in by_name):
            return [(by_name, SURE)]
        silent = by_name is None and told is None
        guess = p.none and not re.search(KEPT, p.name.lower()) and filler(p.name) is None and (silent or told == "mask")
        return [("mask", GUESS), ("", SURE)] if guess and {"mask"} <= optional & set(spare) else [("", SURE)]
    if by_name is not None and fits(by_name, p.kind):
        if len(p.name) > 1 or p.name.lower() in "qkvx":
            return [(by_name, SURE)]
    else:
        by_name = None
    if told in spare and by_name is None and fits(told, p.kind):
        return [(told, SURE)]
    text = filler(p.name)
    text = text if text is not None and fits(text, p.kind) else None
    named = [(by_name, NAME)] if by_name is not None else [] if text is None else [(text, NAME)]
    return [*named, *((role, GUESS) for role in spare if fits(role, p.kind) and role != by_name)]


def fits(role: str, kind: str) -> bool:
    return not kind or (kind == "whole") == (role in WHOLE) or not role.isidentifier()


def by_docs(name: str, docs: str) -> str | None:
    """The role that the docs give a parameter: "n: number of heads", "a is the decoder's state"."""
    match = re.search(rf"(?<![\w.]){re.escape(name)}`*\s*(?:\([^)]*\))?\s*(?::|=|,? is\b|are\b|-)\s*([^\n;.]*)", docs)
    if match is None:
        return None
    return next((role for role, words in WORDS if re.search(words, match[1].lower())), None)


def kind(node: ast.FunctionDef, name: str) -> str:
    """Whether a parameter is used as a whole number or as an array."""
    arg = next(a for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs) if a.arg == name)
    note = ast.unparse(arg.annotation) if arg.annotation is not None else ""
    if note == "int":
        return "whole"
    if re.search(r"Tensor|ndarray|NDArray|List|list|Sequence", note):
        return "array"
    for inner in ast.walk(node):
        if is_whole(inner, name):
            return "whole"
        if is_array(inner, name):
            return "array"
    return ""


def names(node: ast.AST | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def is_whole(node: ast.AST, name: str) -> bool:
    """range(n), x // n, x % n, arange(n), view(b, t, n, -1), Linear(n, n), eye(n)."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Mod):
        return names(node.right, name)
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        wants = r"range|arange|view|reshape|Linear|zeros|ones|eye|tri|unflatten|repeat_interleave|empty|randn|normal"
        parts = [part for arg in node.args for part in (arg.elts if isinstance(arg, ast.Tuple) else [arg])]
        return re.fullmatch(wants, called) is not None and any(names(part, name) for part in parts)
    return False


def is_array(node: ast.AST, name: str) -> bool:
    """x.shape and other attributes, x @ y, x[...]."""
    if isinstance(node, ast.Attribute | ast.Subscript):
        return names(node.value, name)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return names(node.left, name) or names(node.right, name)
    return isinstance(node, ast.Call) and names(node.func, name)


def choices(params: list[tuple[str, list[Option]]], spare: tuple[str, ...]) -> Iterator[dict[str, str]]:
    """Every assignment in which no unsure parameter takes a role twice, and guesses of one row come in its order."""
    sure = {word for _, found in params if found and found[0][1] == SURE for word in re.findall(r"\w+", found[0][0])}

    def rest(i: int, picked: dict[str, str], unsure: list[Option]) -> Iterator[dict[str, str]]:
        if i == len(params):
            yield picked
            return
        name, found = params[i]
        for text, how in found:
            if how != SURE and text in spare and (text in sure or text in (t for t, _ in unsure)):
                continue
            taken = unsure if how == SURE else [*unsure, (text, how)]
            if how != GUESS or ordered([t for t, h in taken if h == GUESS]):
                yield from rest(i + 1, {**picked, name: text}, taken)

    return rest(0, {}, [])


def ordered(guessed: list[str]) -> bool:
    """Whether guesses of one row stand in the row's order."""
    rows = ([g for g in guessed if g in row] for row in ROWS)
    return all(there == sorted(there, key=row.index) for there, row in zip(rows, ROWS, strict=True))


def written(params: list[Parameter], picked: dict[str, str]) -> Binding:
    """The argument texts; by keyword where a parameter may be left out or one before it was."""
    skipped, texts = False, list[str]()
    for p in params:
        text = picked[p.name]
        skipped = skipped or not text
        if text:
            texts.append(f"{p.name}={text}" if p.default or p.keyword or skipped else text)
    roles = {name: text for name, text in picked.items() if text.isidentifier() and text not in ("None", "False")}
    return Binding(tuple(texts), roles)
