"""From a candidate to the ways in which it may be called: expressions, ranks, masks, conventions."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from clearhead.checker import settings
from clearhead.checker.binding import Binding, bindings
from clearhead.checker.companions import with_mask_makers
from clearhead.checker.definitions import constructor, returned
from clearhead.checker.layout import OURS, announced, documented, unpacked
from clearhead.checker.names import WEIGHTS, parameters, role
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


DATA = {
    "sdpa": ("Q", "K", "V", "x"),
    "multi_head_attention": ("Q", "K", "V", "x", "mem"),
    "cross_attention": ("Q", "K", "V", "x", "mem"),
}
SPARE = {
    "sdpa": ("Q", "K", "V", "mask", "dk", "H", "causal"),
    "multi_head_attention": ("x", "mem", "Wq", "Wk", "Wv", "Wo", "Wqkv", "H", "mask", "Hkv", "dk"),
    "cross_attention": ("x", "mem", "Wq", "Wk", "Wv", "Wo", "H", "mask", "dk"),
}


def reader(subject: Subject, node: ast.FunctionDef, task: str, allowed: frozenset[str]) -> Callable[[str], str | None]:
    """What a name says at a task. One head's width is d_k also where it is called the model's."""

    def known(name: str) -> str | None:
        found = role(name, allowed)
        return "dk" if task == "sdpa" and found == "D" else found

    owned = owners(node, known) if task != "sdpa" else {}
    return settings.within(subject, node, lambda name: owned.get(name) or known(name), task)


OWNED = r"_(key_)?(padding_|pad_|attn_|attention_)?(mask|keep|valid|pad|ok)"


def owners(node: ast.FunctionDef, known: Callable[[str], str | None]) -> dict[str, str]:
    """The masks that carry the names of two inputs, x_mask and memory_mask: whose keys each of them hides."""
    given = [name for name, _ in parameters(node)]
    of = {one: name for one in given for name in given if re.fullmatch(re.escape(name) + OWNED, one)}
    data = [name for name in given if name in of.values()]
    if len(data) != 2:
        return {}
    source = next((name for name in data if known(name) in ("mem", "K")), data[1])
    return {one: "src_mask" if name == source else "tgt_mask" for one, name in of.items()}


def function_calls(node: ast.FunctionDef, source: Source, task: str) -> list[tuple[str, dict[str, str]]]:
    """The calls of a plain function, likeliest first, each with parameter -> role."""
    allowed = frozenset((*DATA[task], *WEIGHTS)) | MASKS | SIZES
    optional = MASKS | frozenset(("H", "Hkv", "Wo"))
    found: list[Binding] = []
    for data in (allowed, allowed - frozenset(("x", "mem"))):  # "source", "target" may be keys and queries
        found += bindings(node, reader(source.subject, node, task, data), SPARE[task], optional, source.docs)
    calls = [(f"{node.name}({b.call()})", b.roles) for b in found]
    inner = returned(node)
    if inner is not None:
        calls = list(called_twice(calls, inner, source, task))
    fine = [(call, roles) for call, roles in calls if complete(task, set(roles.values()), call)]
    if any(isinstance(n, ast.Yield) for n in ast.walk(node)):  # one row after the other
        stack = "torch.stack" if source.subject.torch else "np.stack"
        fine = [(f"{stack}(list({call}))", roles) for call, roles in fine]
    fine = list({call: (call, roles) for call, roles in fine}.values())
    return list(with_mask_makers(source.subject, node, fine))


def called_twice(
    calls: list[tuple[str, dict[str, str]]], inner: ast.FunctionDef, source: Source, task: str
) -> Iterator[tuple[str, dict[str, str]]]:
    """The calls of the function that each of these calls makes and returns."""
    known = reader(source.subject, inner, task, frozenset(DATA[task]) | MASKS)
    spare = tuple(role for role in SPARE[task] if role not in WEIGHTS)
    for b in bindings(inner, known, spare, MASKS, source.docs):
        for call, roles in calls:
            yield f"{call}({b.call()})", roles | b.roles


def complete(task: str, roles: set[str], text: str) -> bool:
    """Whether a call gives what the task needs."""
    if task == "sdpa":
        return {"Q", "K"} <= roles or "x" in roles or "(Q, K, V)" in text
    return bool(roles & {"x", "Q"}) and (task != "cross_attention" or bool(roles & {"mem", "K"}))


def construct(node: ast.ClassDef, subject: Subject, task: str = "") -> list[str]:
    """The texts that make an instance of a module, likeliest first."""
    init = constructor(node)
    if init is None:
        return [f"{node.name}()"]
    spare = ("dk", "H") if task == "sdpa" else ("D", "H", "dk", "Hkv")
    known = reader(subject, init, task or "multi_head_attention", SIZES | frozenset(WEIGHTS))
    return [f"{node.name}({b.call()})" for b in bindings(init, known, spare, SIZES)]


def convention_choices(source: Source, roles: dict[str, str], flags: Flags, call: str) -> tuple[str, ...]:
    """The mask conventions to try: the flag's or the documented one, else every one that is usual."""
    if flags.mask:
        return (flags.mask,)
    names = [name for name, found in roles.items() if found in ("mask", "src_mask", "tgt_mask")]
    plain = [next((n[len(p) :] for p in roles if p != n and n.startswith(f"{p}_")), n) for n in names]
    announced = next((c for n in plain if (c := source.convention(n))), None) if names else source.convention()
    guessed = all(role(name, MASKS) is None and name not in MASKS for name in names)
    pairs = re.search(r"mask\w*\(mask\b", call)  # what a mask is made of shows pairs
    ones = (
        ("keep", "hide") if pairs or source.says(r"(?<![\w.\[:])1(\.0*)? ?- ") else ("keep", "hide", "add")
    )  # 1 - mask
    return (announced,) if announced and not pairs else (*ones, *(("lengths",) if names and guessed else ()))


def axes_choices(source: Source, roles: dict[str, str], base: Setup, flags: Flags) -> tuple[tuple[int, str], ...]:
    """The ranks and layouts of Q, K, V (or x) to try: what is announced alone, else all."""
    names = [name for name, found in roles.items() if found in ("Q", "K", "V", "x")] or ["Q", "query", "q", "x"]
    names += [name for name, found in roles.items() if found == "mem"]
    if base.rank:  # the call says so
        return ((base.rank, ""),) if base.task == "sdpa" else ((3, "td"),)
    if base.task == "sdpa" and flags.call:
        told = documented(source, names)
        if told is not None and told in OURS.values():
            return ((len(told), ""),)
        return tuple((rank, "") for rank in rank_choices(source, names))
    if base.task != "sdpa":
        read, code = documented(source, names), unpacked(source, names)
        told = code if code and read and len(code) != len(read) else read or code
        if told in ("tbd", "td", "dt"):
            return ((3, told),) if told != "tbd" or not flags.call else ((3, ""),)
        return ((3, ""), (2, "td"))
    told = documented(source, names) or announced(source, names)
    if told is not None:
        return ((len(told), "" if told == OURS[len(told)] else told),)
    ranks = rank_choices(source, names)
    if re.search(FEATURES_FIRST, source.docs, re.IGNORECASE):
        return tuple((rank, {2: "dt", 3: "bdt", 4: "bhdt"}[rank]) for rank in ranks)
    return (*((rank, "") for rank in ranks), *([(4, "bthd")] if 4 in ranks else []))


FEATURES_FIRST = r"[(\[]\.\.\., *(c|d|e|\w*channels?|\w*dim|features|width), *(t|l|n|s|len\w*|seq\w*|time|tokens)[)\]]"


def rank_choices(source: Source, names: list[str]) -> tuple[int, ...]:
    """The ranks of Q, K, V to try."""
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
    says = r"(?<!non)(?<!non_)causal(?!_?free)|autoregress|decoder_self|masked_self|look_?ahead"
    if re.search(says, head, re.IGNORECASE):
        return (True,)
    if uses & {"mask", "src_mask", "tgt_mask"}:
        return (False, True) if source.says(r"tril|triu|np\.tri\b|causal|>=|<=| [<>] ") else (False,)
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


UNEQUAL = (
    r"(shorter|fewer|less) (than|queries)|more keys|last (positions|tokens)|T_?q\b.*T_?k\b|decod\w+ step|with a cache"
)


def handed_over(call: str) -> bool:
    """Whether the call gives every mask as it is: what works on it first, np.asarray(mask), cannot take None."""
    tree = ast.parse(call, mode="eval")
    node, given = tree.body, set[int]()
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):  # load(Attn(d))(x, mask)[0].mT
        if isinstance(node, ast.Call):
            given |= {id(a) for a in (*node.args, *(k.value for k in node.keywords))}
        node = node.func if isinstance(node, ast.Call) else node.value
    masks = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id in ("mask", "src_mask", "tgt_mask")]
    return all(id(n) in given for n in masks)


def attention_setups(subject: Subject, source: Source, base: Setup, roles: dict[str, str], flags: Flags) -> list[Setup]:
    """All ways of calling worth a try, likeliest first."""
    uses = base.uses
    masked = bool(uses & {"mask", "src_mask", "tgt_mask"})
    axes = axes_choices(source, roles, base, flags)
    if "lengths" in uses or flags.mask == "lengths":
        axes = tuple(one for one in axes if one[0] > 2) or ((3, ""),)
    conventions = convention_choices(source, roles, flags, base.call) if masked else ("none",)
    optional = source.says(r"is not None|is None|\bif (not )?\w*mask\w*:|if \w*mask\w* else|=None")
    optional = optional and handed_over(base.call)
    base = replace(base, optional=optional, unequal=source.tells(UNEQUAL))
    if base.task == "sdpa" and (
        source.says(r"n_?rep\b|kv_head|n_kv|group") or (source.says(r"repeat") and not masked and "lengths" not in uses)
    ):
        grouped = replace(base, variant="grouped")
        return [replace(grouped, lib=lib, rank=4, mask=conventions[0], form="qk") for lib in library(source, flags)]
    found: list[Setup] = []
    for lib, (rank, layout), causal in itertools.product(library(source, flags), axes, causal_choices(source, uses)):
        forms = form_choices(source, roles, rank if base.task == "sdpa" else 4) if masked else ("bqk",)
        known = set(FORMS[rank if base.task == "sdpa" else 4])
        forms = tuple(f for f in forms if f in known) or FORMS[rank if base.task == "sdpa" else 4]
        if conventions in (("lengths",), ("none",)):
            forms = forms[:1]
        whole = source.tells(r"\bint(eger)?s?\b|whole numbers|0/1|zeros and ones|0s and 1s")
        real = source.tells(r"\bfloats?\b")
        kinds = (
            ("float", "bool", "int")
            if masked and real
            else ("int", "bool", "float")
            if masked and whole
            else ("bool", "float", "int")
            if masked
            else ("bool",)
        )
        for convention, form in itertools.product(conventions, forms):
            for kind in kinds if convention in ("keep", "hide") else kinds[:1]:
                one = (*base.sizes, ("B", 1)) if base.task != "sdpa" and len(layout) == 2 else base.sizes
                axes_of = {"rank": rank, "layout": layout, "form": form, "sizes": one}
                found.append(replace(base, lib=lib, causal=causal, mask=convention, kind=kind, **axes_of))
    return found
