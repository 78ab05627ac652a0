"""Which function or class of a file is the attempt, and at which task."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from clearhead.checker.names import parameters, role
from clearhead.checker.subject import Subject

NAMES = (
    ("decoder_shift", r"shift|teacher|next_token|decoder_input|(^|_)loss|cross_entropy|make_pairs|targets|"
        r"lm_batch|training_pairs|input_target|prepare_decoder|nll|get_batch"),
    ("kv_cache", r"cache|decode_step|attend_step|incremental|(^|_)step($|_)|kv_"),
    ("cross_attention", r"cross|encoder_decoder|enc_dec|encdec"),
    ("multi_head_attention", r"multi_?head|(^|_)mha|mhsa|multihead|grouped|gqa|mqa|multi_query|heads_att|"
        r"causal_self_attention"),
    ("causal_mask", r"mask|triangle|look_?ahead|subsequent|visible|may_attend|tril|triu"),
    ("positional_encoding", r"posit|sinus|(^|_)pe($|_)|pos_enc|pos_emb|encoding"),
    ("sdpa", r"scaled|dot_product|att(entio|e)n|sdpa|attn|attend"),
)  # fmt: skip


PAST = r"(layer_)?past_?(kv|key_?values?|states?)?|(kv_?|key_?value_?|layer_?)?(cache|state|memory)"
LAYERS = ("Linear", "Parameter", "LazyLinear", "Conv1d", "Conv1D", "MultiheadAttention")


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


def main_method(node: ast.ClassDef) -> ast.FunctionDef | None:
    methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
    for name in ("forward", "__call__"):
        if name in methods:
            return methods[name]
    steps = [
        m for n, m in methods.items() if re.fullmatch(r"(step|attend|update|append|decode|add|push|decode_step|run)", n)
    ]
    return steps[-1] if steps else None


def is_number(method: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter's annotation or default says that it is a whole number (tokens before, say)."""
    args = [*method.args.posonlyargs, *method.args.args]
    defaults = dict(zip(reversed(args), reversed(method.args.defaults), strict=False))
    defaults |= {a: d for a, d in zip(method.args.kwonlyargs, method.args.kw_defaults, strict=True) if d is not None}
    arg = next(a for a in (*args, *method.args.kwonlyargs) if a.arg == name)
    value = defaults.get(arg)
    noted = arg.annotation is not None and ast.unparse(arg.annotation) == "int"
    return noted or (isinstance(value, ast.Constant) and isinstance(value.value, int))


def projects(node: ast.ClassDef) -> bool:
    """Whether a class has weights of its own."""
    return any(
        (isinstance(n, ast.Attribute) and n.attr in LAYERS) or (isinstance(n, ast.Name) and n.id in LAYERS)
        for n in ast.walk(node)
    )


def find(subject: Subject) -> list[Candidate]:
    """All candidates, best first."""
    nodes = [n for n in subject.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    helpers = {n.name: projects(n) for n in nodes if isinstance(n, ast.ClassDef)}
    found = [c for node in nodes if (c := classify(node, helpers)) is not None]
    called = _called(nodes, {c.name for c in found})
    scored = [Candidate(c.name, c.task, c.node, c.score - 10 * (c.name in called)) for c in found]
    return sorted(scored, key=lambda c: -c.score)


def _called(nodes: list[ast.FunctionDef | ast.ClassDef], names: set[str]) -> set[str]:
    """Candidates used by other definitions of the file: helpers."""
    used: set[str] = set()
    for node in nodes:
        inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        used |= (inside & names) - {node.name}
    return used


def classify(node: ast.FunctionDef | ast.ClassDef, helpers: dict[str, bool]) -> Candidate | None:
    """The task that a definition attempts, by its name and its parameters, or None."""
    method = node if isinstance(node, ast.FunctionDef) else main_method(node)
    named = named_task(node.name)
    private = -3 if node.name.startswith("_") else 0
    if method is None:
        return Candidate(node.name, "kv_cache", node, 2) if named == "kv_cache" else None
    params = [name for name, _ in parameters(method)]
    roles = {role(name) for name in params}
    inner = isinstance(node, ast.ClassDef) and (
        projects(node)
        or any(isinstance(n, ast.Name) and helpers.get(n.id, False) and n.id != node.name for n in ast.walk(node))
    )
    three = {"Q", "K", "V"} <= roles
    if named in ("decoder_shift", "kv_cache", "positional_encoding"):
        return Candidate(node.name, named, node, 6 + private + three)
    if three and not inner and any(re.fullmatch(PAST, name.lower()) for name in params if not is_number(method, name)):
        return Candidate(node.name, "kv_cache", node, 6 + private)
    weights = bool(roles & {"Wq", "Wk", "Wv", "Wqkv"}) or inner
    if named == "causal_mask" and not three and not weights:
        return Candidate(node.name, named, node, 4 + private)
    if three and not weights:
        task = "cross_attention" if named == "cross_attention" and "x" in roles else "sdpa"
        return Candidate(node.name, task, node, (8 if named else 5) + private)
    if weights and (
        named in ("cross_attention", "multi_head_attention", "sdpa", "causal_mask") or roles & {"x", "Q", "mem"}
    ):
        cross = named == "cross_attention" or (named != "multi_head_attention" and {"x", "mem"} <= roles)
        return Candidate(node.name, "cross_attention" if cross else "multi_head_attention", node, 7 + private)
    if named in ("cross_attention", "multi_head_attention", "sdpa"):
        return Candidate(node.name, named, node, 4 + private)
    return None
