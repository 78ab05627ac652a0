"""Which function or class of a file is the attempt, and at which task."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from clearhead.checker import bundle
from clearhead.checker.names import parameters, role
from clearhead.checker.source import Source
from clearhead.checker.subject import Subject

NAMES = (
    ("decoder_shift", r"shift|teacher|next_token|decoder_input|(^|_)loss|cross_entropy|make_pairs|targets|"
        r"lm_batch|(^|_)pairs|training_pairs|input_target|prepare_decoder|nll|get_batch"),
    ("kv_cache", r"cache|decode_step|attend_step|incremental|(^|_)step($|_)|(?<!q)kv_"),
    ("cross_attention", r"cross|crois[eé]|kreuz|encoder_decoder|enc_dec|encdec"),
    ("multi_head_attention", r"multi_?head|(^|_)mha|mhsa|multihead|grouped|gqa|mqa|multi_query|heads_att|"
        r"causal_self_attention"),
    ("causal_mask", r"mask|triangle|look_?ahead|subsequent|visible|may_attend|tril|triu"),
    ("positional_encoding", r"posit|sinus|(^|_)pe($|_)|pos_enc|pos_emb|encoding"),
    ("sdpa", r"scaled|dot_product|att(entio|e)n|sdpa|attn|attend"),
)  # fmt: skip


PAST = r"(layer_)?past_?(kv|key_?values?|states?)?|(kv_?|key_?value_?|layer_?)?(cache|state|memory)"
START = r"(bos|sos|start|decoder_start)(_?(id|idx|token|token_id|symbol|index))?"
CACHE = r"(layer_)?past_?(kv|key_?values?|states?)?|(kv_?|key_?value_?|layer_?)?cache"
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
    public = [m for n, m in methods.items() if not n.startswith("_") and parameters(m)]
    return steps[-1] if steps else public[0] if len(public) == 1 else None


def constructor(node: ast.ClassDef) -> ast.FunctionDef | None:
    """__init__, or what a dataclass's fields stand for, or None."""
    own = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    fields = [n for n in node.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)]
    if own is not None or not fields or not any("dataclass" in ast.unparse(d) for d in node.decorator_list):
        return own
    given = ", ".join(ast.unparse(n) for n in fields if "init=False" not in ast.unparse(n))
    made = ast.parse(f"def __init__(self, {given}): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    return made


def called_directly(node: ast.ClassDef, method: str) -> bool:
    """Whether an instance is called itself: __call__, or a module's forward."""
    return method == "__call__" or (method == "forward" and bool(node.bases))


def attends(node: ast.ClassDef) -> bool:
    """Whether a method takes queries or an input; else the class keeps only."""
    methods = [m for m in node.body if isinstance(m, ast.FunctionDef) and m.name != "__init__"]
    return any(role(name) in ("Q", "x") for method in methods for name, _ in parameters(method))


def keeps(method: ast.FunctionDef) -> bool:
    """Whether a method goes on with what its object holds: self.k = cat([self.k, k]), self.k[t] = k."""
    text = ast.unparse(method)
    own = r"self\.\w+(\.append\(|\[[^\n]*\] = )"
    alias = r"(\w+) = self\.\w+\n(?s:.*)\b\1(\.append\(|\[[^\n]*\] = )"
    if re.search(own, text) or re.search(alias, text):
        return True
    kept = re.findall(r"self\.(\w+)(?:, self\.\w+)* \+?= ", text)
    return read_first(text, kept)


def read_first(text: str, kept: list[str]) -> bool:
    """Whether one of the attributes is read before, or where, it is set."""
    for name in kept:
        first = re.search(rf"self\.{name}\b", text)
        line = text[text.rfind("\n", 0, first.start()) + 1 :].split("\n")[0] if first else ""
        sets = re.match(rf"\s*(self\.\w+, )*self\.{name}\b(, self\.\w+)* = ", line)
        if not sets or line.count(f"self.{name}") > 1:
            return True
    return False


def holds(method: ast.FunctionDef, name: str) -> bool:
    """Whether a parameter is a dict of keys and values that the function puts new ones into, whatever its name."""
    put = {ast.unparse(t) for n in ast.walk(method) if isinstance(n, ast.Assign) for t in n.targets}
    keys, _, _ = bundle.uses(method, name)
    kept = {role(key, frozenset(("K", "V"))) for key in keys if f"{name}['{key}']" in put}
    return kept >= {"K", "V"}


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
    """All candidates, best first; what other definitions of the file use comes after what uses it."""
    nodes = [n for n in subject.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    helpers = {n.name: projects(n) for n in nodes if isinstance(n, ast.ClassDef)}
    found = [c for node in nodes if (c := classify(node, helpers)) is not None]
    names = {c.name for c in found}
    if all(c.name.startswith("_") for c in found):
        found += [c for node in nodes if node.name not in names for c in by_evidence(node, subject)[:1]]
    called = _called(nodes, {c.name for c in found})
    scored = [replace(c, score=c.score - 10 * (c.name in called)) for c in found]
    return sorted(scored, key=lambda c: -c.score)


def has_weights(candidate: Candidate) -> bool:
    """Whether it is a class with weights of its own."""
    return isinstance(candidate.node, ast.ClassDef) and projects(candidate.node)


def tasks_of(subject: Subject, candidate: Candidate | None, task: str) -> list[str]:
    """The task that the names say, then those that the code speaks for."""
    more = by_evidence(candidate.node, subject) if candidate is not None else []
    return list(dict.fromkeys([task, *(c.task for c in more)]))


def _called(nodes: list[ast.FunctionDef | ast.ClassDef], names: set[str]) -> set[str]:
    """Candidates used by other definitions of the file: helpers."""
    used: set[str] = set()
    for node in nodes:
        inside = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        used |= (inside & names) - {node.name}
    return used


# What code of each task has, and what it has not; the first that fits comes first.
SIGNS = (
    (
        "decoder_shift",
        r"cross_entropy|nll_loss|CrossEntropy|log_softmax\(.*gather|\[:, ?1:\]|\[1:\]|\[:-1\]|\[:, ?:-1\]|roll\(|"
        r"narrow\(|unfold\(|yield|\+ 1 ?:|predicts|next token",
        r"softmax\(.*@|\bsin\(|\bcos\(",
    ),
    ("positional_encoding", r"\bsin\w*\(|\bcos\w*\(", r"softmax|\bexp\(.*sum\("),
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
    ("causal_mask", r"tril|triu|\btri\(|<=|>=|[<>]|!=|==", r"softmax|exp\(|@|cross_entropy"),
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


def count_required(node: ast.FunctionDef) -> int:
    return sum(not default for _, default in parameters(node))


def classify(node: ast.FunctionDef | ast.ClassDef, helpers: dict[str, bool]) -> Candidate | None:
    """The task that a definition attempts, by its name and its parameters, or None."""
    method = node if isinstance(node, ast.FunctionDef) else main_method(node)
    named = named_task(node.name)
    private = -3 if node.name.startswith("_") else 0
    if method is None or (isinstance(node, ast.ClassDef) and named == "kv_cache" and not attends(node)):
        return Candidate(node.name, "kv_cache", node, 2) if named == "kv_cache" else None
    params = [name for name, _ in parameters(method)]
    roles = {role(name) for name in params}
    inner = isinstance(node, ast.ClassDef) and (
        projects(node)
        or any(isinstance(n, ast.Name) and helpers.get(n.id, False) and n.id != node.name for n in ast.walk(node))
    )
    three = {"Q", "K", "V"} <= roles
    if named is None and not three and any(re.fullmatch(START, name.lower()) for name in params):
        return Candidate(node.name, "decoder_shift", node, 6 + private)
    if three and not inner and isinstance(node, ast.ClassDef) and keeps(method):
        return Candidate(node.name, "kv_cache", node, 6 + private)
    if named == "kv_cache" and isinstance(node, ast.FunctionDef) and not roles & {"Q", "K", "V", "x"}:
        return Candidate(node.name, named, node, 1)
    if named in ("decoder_shift", "kv_cache", "positional_encoding"):
        return Candidate(node.name, named, node, 6 + private + three)
    past = [n for n in params if (re.fullmatch(PAST, n.lower()) and not is_number(method, n)) or holds(method, n)]
    if three and not inner and past:
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
        named in ("cross_attention", "multi_head_attention", "sdpa", "causal_mask") or roles & {"x", "Q", "mem"}
    ):
        cross = named == "cross_attention" or (named != "multi_head_attention" and {"x", "mem"} <= roles)
        return Candidate(node.name, "cross_attention" if cross else "multi_head_attention", node, 7 + private)
    if named in ("cross_attention", "multi_head_attention", "sdpa"):
        return Candidate(node.name, named, node, 4 + private)
    return None
