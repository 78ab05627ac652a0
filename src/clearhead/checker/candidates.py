"""Which function or class of a file is the attempt, and at which task."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from clearhead.checker.definitions import (
    attends,
    demo,
    holds,
    is_number,
    keeps,
    main_method,
    methods_of,
    noted,
    pairs,
    projects,
    returned,
)
from clearhead.checker.names import parameters, role
from clearhead.checker.source import Source
from clearhead.checker.subject import Subject

NAMES = (
    ("decoder_shift", r"shift|teacher|next_token|decoder_input|(^|_)loss|cross_entropy|make_pairs|targets|"
        r"lm_batch|(^|_)pairs|training_pairs|input_target|prepare_decoder(?!.*mask)|nll|get_batch|(^|_)xy($|_)"),
    ("kv_cache", r"cache|decode_step|attend_step|incremental|(^|_)step($|_)|(?<!q)kv_"),
    ("cross_attention", r"cross|crois[eé]|kreuz|encoder_decoder|enc_dec|encdec"),
    ("multi_head_attention", r"multi_?head|(^|_)mha|mhsa|multihead|grouped|gqa|mqa|multi_query|heads_att|"
        r"causal_self_attention"),
    ("causal_mask", r"ma(sk|sque|scar|scher)|triangle|additive(?!_att)|look_?ahead|subsequent|visible|may_attend|"
        r"tril|triu"),
    ("positional_encoding", r"posi[tcz]|sinus|senoid|(^|_)pe($|_)|pos_enc|pos_emb|encoding|"
        r"^((?!att).)*(rotary|(^|_)rope($|_))((?!att).)*$"),
    ("sdpa", r"scaled|dot_product|att(entio|e)n|atenc|attenzion|aufmerksam|sdpa|attn|attend"),
)  # fmt: skip


PAST = (
    r"(layer_)?past_?(kv|key_?values?|states?)?|"
    r"(kv_?|[kv]_|keys?_|values?_|key_?value_?|layer_?|incremental_|saved_)?(cache|state|memory)"
)
START = r"(bos|sos|start|decoder_start)(_?(id|idx|token|token_id|symbol|index))?"
CACHE = r"(layer_)?past_?(kv|key_?values?|states?)?|(kv_?|key_?value_?|layer_?)?cache"


@dataclass(frozen=True)
class Candidate:
    name: str
    task: str
    node: ast.FunctionDef | ast.ClassDef
    score: int


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def named_task(name: str) -> str | None:
    for task, pattern in NAMES:
        if re.search(pattern, snake(name)):
            return task
    return None


def find(subject: Subject) -> list[Candidate]:
    """All candidates, best first; what other definitions of the file use comes after what uses it."""
    nodes = [n for n in subject.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    helpers = {n.name: projects(n) for n in nodes if isinstance(n, ast.ClassDef)}
    states = {n.name for n in nodes if isinstance(n, ast.ClassDef) and pairs(n)}
    found = [c for node in nodes if (c := classify(node, helpers, states)) is not None]
    names = {c.name for c in found}
    if all(c.name.startswith("_") for c in found):
        found += [c for node in nodes if node.name not in names for c in by_evidence(node, subject)[:1]]
    called = _called(nodes, {c.name for c in found})
    names = {c.name for c in found}
    if names and called >= names:  # only helpers: what uses them
        found += [c for node in nodes if node.name not in names for c in by_evidence(node, subject)[:1]]
        called |= _called(nodes, {c.name for c in found})
    kept = {c.name: plain_cache(c, found) for c in found if c.name not in called}
    scored = [replace(c, score=c.score - 10 * (c.name in called) + kept.get(c.name, 0)) for c in found]
    return sorted(scored, key=lambda c: -c.score)


def plain_cache(candidate: Candidate, found: list[Candidate]) -> int:
    """How much more a class that only keeps keys and values counts beside a function that attends with them."""
    only = candidate.task == "kv_cache" and isinstance(candidate.node, ast.ClassDef) and not attends(candidate.node)
    return 8 if only and any(c.task == "sdpa" and isinstance(c.node, ast.FunctionDef) for c in found) else 0


def has_weights(candidate: Candidate) -> bool:
    """Whether it is a class with weights of its own."""
    return isinstance(candidate.node, ast.ClassDef) and projects(candidate.node)


def tasks_of(subject: Subject, candidate: Candidate | None, task: str) -> list[str]:
    """The task that the names say, then those that the code speaks for."""
    more = by_evidence(candidate.node, subject) if candidate is not None else []
    return list(dict.fromkeys([task, *(c.task for c in more)]))


def _called(nodes: list[ast.FunctionDef | ast.ClassDef], names: set[str]) -> set[str]:
    """Candidates used by other definitions of the file: helpers. What takes and gives nothing only tries them."""
    used: set[str] = set()
    for node in (n for n in nodes if not demo(n)):
        inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        used |= (inside & names) - {node.name}
    return used


# What code of each task has, and what it has not; the first that fits comes first.
SIGNS = (
    (
        "decoder_shift",
        r"cross_entropy|nll_loss|CrossEntropy|log_softmax\(.*gather|\[:, ?1:\]|\[1:\]|\[:-1\]|\[:, ?:-1\]|roll\(|"
        r"narrow\(|unfold\(|yield|\+ 1 ?:|\+ 1\) % |predicts|next token",
        r"softmax\(.*@|\bsin\(|\bcos\(|\b1j\b",
    ),
    (
        "positional_encoding",
        r"\bsin\w*\(|\bcos\w*\(|\b(np|torch|math)\.sin\b|exp\(-?1j|\bpolar\(",
        r"softmax|\bexp\(.*sum\(",
    ),
    (
        "kv_cache",
        r"(cat|concatenate|append|hstack|vstack|concat)\(.*(?s:.*)(softmax|exp)|cache|\bpast",
        r"cross_entropy",
    ),
    (
        "multi_head_attention",
        r"(softmax|exp|scaled_dot_product_attention|MultiheadAttention)\b",
        r"cross_entropy",
    ),
    ("sdpa", r"(softmax|exp|scaled_dot_product_attention)\b", r"cross_entropy"),
    ("causal_mask", r"(above|below) the diagonal|tril|triu|\btri\(|<=|>=|[<>]|!=|==", r"softmax|exp\(|@|cross_entropy"),
)


def by_evidence(node: ast.FunctionDef | ast.ClassDef, subject: Subject) -> list[Candidate]:
    """What a definition whose name says nothing may attempt, by what its code has; likeliest first."""
    if node.name.startswith("__") or (isinstance(node, ast.ClassDef) and main_method(node) is None):
        return []
    code = Source(subject, node.name).own
    weights = projects(node) if isinstance(node, ast.ClassDef) else count_required(node) > 4
    tasks = [task for task, has, lacks in SIGNS if re.search(has, code) and not re.search(lacks, code)]
    if "multi_head_attention" in tasks and not weights:
        tasks = [t for t in tasks if t != "multi_head_attention"] + ["multi_head_attention"]
    if weights and "sdpa" in tasks and isinstance(node, ast.ClassDef):
        tasks.remove("sdpa")
    if isinstance(node, ast.ClassDef) and weights:
        tasks = [t for t in tasks if t != "causal_mask"]
    return [Candidate(node.name, task, node, 2 if i == 0 else 1) for i, task in enumerate(tasks)]


def is_past(method: ast.FunctionDef, states: set[str]) -> bool:
    """Whether a function is given what was kept before: by a parameter's name, its use or its class."""
    given = [name for name, _ in parameters(method)]
    named = [n for n in given if re.fullmatch(PAST, n.lower()) and not is_number(method, n)]
    return bool(named) or any(holds(method, n) or noted(method, n) & states for n in given)


def count_required(node: ast.FunctionDef) -> int:
    return sum(not default for _, default in parameters(node))


def classify(node: ast.FunctionDef | ast.ClassDef, helpers: dict[str, bool], states: set[str]) -> Candidate | None:
    """The task that a definition attempts, by its name and its parameters, or None."""
    method = node if isinstance(node, ast.FunctionDef) else main_method(node)
    named = named_task(node.name)
    private = -3 if node.name.startswith("_") else 0
    if method is None or (isinstance(node, ast.ClassDef) and named == "kv_cache" and not attends(node)):
        return Candidate(node.name, "kv_cache", node, 2) if named == "kv_cache" else None
    inside = returned(node)
    params = [name for function in (method, inside) if function is not None for name, _ in parameters(function)]
    roles = {role(name) for name in params}
    inner = isinstance(node, ast.ClassDef) and (
        projects(node)
        or any(isinstance(n, ast.Name) and helpers.get(n.id, False) and n.id != node.name for n in ast.walk(node))
    )
    three = {"Q", "K", "V"} <= roles
    if named is None and not three and any(re.fullmatch(START, name.lower()) for name in params):
        return Candidate(node.name, "decoder_shift", node, 6 + private)
    if three and not inner and isinstance(node, ast.ClassDef) and keeps(method, methods_of(node)):
        return Candidate(node.name, "kv_cache", node, 6 + private)
    if named == "kv_cache" and isinstance(node, ast.FunctionDef) and not roles & {"Q", "K", "V", "x"}:
        return Candidate(node.name, named, node, 1)
    if named in ("decoder_shift", "kv_cache", "positional_encoding"):
        return Candidate(node.name, named, node, 6 + private + three)
    if three and not inner and any(is_past(function, states) for function in (method, inside) if function):
        return Candidate(node.name, "kv_cache", node, 6 + private)
    weights = bool(roles & {"Wq", "Wk", "Wv", "Wqkv"}) or inner
    if inner and any(re.fullmatch(CACHE, name.lower()) for name in params if not is_number(method, name)):
        return Candidate(node.name, "kv_cache", node, 7 + private)
    if named == "causal_mask" and not three and not weights:
        return Candidate(node.name, named, node, 4 + private)
    if three and not weights and "H" in roles and isinstance(node, ast.FunctionDef) and "Hkv" not in roles:
        return Candidate(node.name, "multi_head_attention", node, 7 + private)
    if three and not weights:
        task = "cross_attention" if named == "cross_attention" and "x" in roles else "sdpa"
        return Candidate(node.name, task, node, (8 if named else 5) + private)
    if weights and (
        named in ("cross_attention", "multi_head_attention", "sdpa", "causal_mask")
        or roles & {"x", "Q", "mem"}
        or ({"Wq", "Wk", "Wv"} <= roles and re.search(r"@|einsum|matmul|dot\(", ast.unparse(node)))
    ):
        cross = named == "cross_attention" or (named != "multi_head_attention" and {"x", "mem"} <= roles)
        return Candidate(node.name, "cross_attention" if cross else "multi_head_attention", node, 7 + private)
    if named in ("cross_attention", "multi_head_attention", "sdpa"):
        return Candidate(node.name, named, node, 4 + private)
    return None
