"""One weight of any model, worked out from the embeddings on: every number, its formula and its place in the code.

From query and key on the numbers are rounded so that a reader gets each from those above it: whatever is computed here
is computed from the numbers that are shown, with as many decimals as the end result needs to come out right.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import clearhead
from clearhead.formulas import norm as norms
from clearhead.formulas.attention import Scoring, softmax
from clearhead.formulas.position import rotate
from clearhead.lens.inputs import Inputs, names, single
from clearhead.lens.listen import bare
from clearhead.lens.record import record
from clearhead.lens.rows import index
from clearhead.model.attention import Attention
from clearhead.model.layer import Layer, Residual
from clearhead.model.norm import Norm
from clearhead.model.stack import Stack
from clearhead.model.transformer import Transformer

DECIMALS = range(3, 10)
NARROW = 16  # widest matrix of which every row is shown


@dataclass(frozen=True)
class Step:
    """One step: what happens, its formula, the numbers by name, and the function in which it happens."""

    title: str
    formula: str
    latex: str
    numbers: dict[str, float | list[float]]
    code: str
    note: str = ""


@dataclass(frozen=True)
class Explanation:
    """All steps to one weight. `shown` is what the shown numbers come to, `value` what the model computed."""

    address: str
    head: int
    query: int
    key: int
    words: tuple[str, str]  # the query's token and the key's
    decimals: int
    steps: tuple[Step, ...]
    shown: float
    value: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """Lines for a terminal; long lists of numbers are cut in the middle."""
        lines = [f"{self.address}, head {self.head}: how far token {self.query} ({self.words[0]!r}) looks at token "
                 f"{self.key} ({self.words[1]!r})"]  # fmt: skip
        for i, step in enumerate(self.steps, 1):
            lines += ["", f"{i}. {step.title}", f"   {step.formula}    [{step.code}]"]
            for name, number in step.numbers.items():
                lines.append(f"   {name} = {written(number, self.decimals)}")
            lines += [f"   {step.note}"] if step.note else []
        return "\n".join([*lines, "", f"weight = {self.shown:.{self.decimals}f} (the model: {self.value:.9g})"])

    __repr__ = __str__


def written(number: float | list[float], decimals: int, most: int = 8) -> str:
    """A number, or several of which the middle is left out where there are more than `most`."""
    if not isinstance(number, list):
        return f"{number:.{decimals}f}"
    each = [f"{n:.{decimals}f}" for n in number]
    if len(each) > most:
        each = [*each[: most // 2], f"... {len(each) - most} more ...", *each[-(most // 2) :]]
    return "  ".join(each)


def explain(model: nn.Module, inputs: Inputs, address: str, *, head: int, query: int, key: int) -> Explanation:
    """How the weight at `address` (an attention's `weights`) of one head, query token and key token comes about.

    inputs: one text, ids, a pair (source, target) or the arguments of a forward pass. Raises ValueError for another
    address, and IndexError for a head or token that does not exist.
    """
    inner = bare(model)
    names_of = address.split(".")
    if len(names_of) != 4 or names_of[3] != "weights" or address not in clearhead.sites(inner.config):
        raise ValueError(f"address={address!r}; a weight stands at such as decoder.0.self.weights, see clearhead.sites")
    stack, number, part = names_of[0], int(names_of[1]), names_of[2]
    given = single(inner, inputs)
    wanted = [f"{stack}.embed", f"{stack}.*.residual", f"{stack}.*.out", address]
    wanted += ["encoder.final"] if part == "cross" else []
    was = inner.training
    inner.eval()
    try:
        with torch.no_grad(), record(inner, wanted) as seen:
            inner(**given)
    finally:
        inner.train(was)
    view = seen[address]
    head, query, key = (
        index(name, place, count)
        for name, place, count in zip(("head", "query", "key"), (head, query, key), view.shape[1:], strict=True)
    )
    exact = float(view[0, head, query][key])
    story = _Story(inner, seen, stack, number, part, head, query, key)
    sides = (stack, stack if part == "self" else "encoder")
    words = tuple(_word(inner, given, side, i) for side, i in zip(sides, (query, key), strict=True))
    for decimals in DECIMALS:
        steps, shown = story.told(decimals)
        if abs(shown - exact) <= 0.5 * 10.0**-decimals or decimals == DECIMALS[-1]:
            return Explanation(address, head, query, key, (words[0], words[1]), decimals, steps, shown, exact)
    raise AssertionError("the last number of decimals returns")


class _Story:
    """What is needed to tell the steps with any number of decimals."""

    def __init__(
        self, model: Transformer, seen: Any, stack: str, number: int, part: str, head: int, query: int, key: int
    ) -> None:
        view = seen[f"{stack}.{number}.{part}.weights"]
        self.model, self.seen, self.stack, self.number, self.part = model, seen, stack, number, part
        self.head, self.query, self.key = head, query, key
        self.scoring: Scoring = view.scoring
        share = view.q.shape[1] // view.k.shape[1]
        self.q: Tensor = view.q[0, head, query].double()
        self.k: Tensor = view.k[0, head // share, key].double()
        whole = view.scoring.scores(view.q, view.k, slice(query, query + 1))
        self.row: Tensor = whole[0, head, 0].double()  # [K]
        added = view.scoring.added(slice(query, query + 1), slice(key, key + 1))
        self.bias = 0.0 if added is None else float(added.expand(1, view.q.shape[1], 1, 1)[0, head, 0, 0])
        module = model.encoder if stack == "encoder" else model.decoder
        assert isinstance(module, Stack)
        layer = module.layers[module.order[number]]
        assert isinstance(layer, Layer)
        self.layer = layer
        self.look: Attention = layer.self_attention if part == "self" else layer.cross_attention
        residual: Residual = layer.self_residual if part == "self" else layer.cross_residual
        self.before = residual.before

    def told(self, decimals: int) -> tuple[tuple[Step, ...], float]:
        """The steps, and what the shown numbers come to."""

        def cut(x: float) -> float:
            return round(x, decimals) + 0.0  # no -0.000

        q, k = ([cut(n) for n in vector.tolist()] for vector in (self.q, self.k))
        terms = [cut(a * b) for a, b in zip(q, k, strict=True)]
        dot, scale = cut(sum(terms)), float(f"{self.scoring.scale:.6g}")
        score = scaled = cut(dot * scale)
        steps = [*self._inputs(cut), self._made("query", q, cut), self._made("key", k, cut)]
        numbers: dict[str, float | list[float]] = {"products": terms, "their sum": dot, "score": score}
        steps.append(Step("Score: how well the query fits the key", f"score = sum(q * k) * {scale:g}",
                          r"s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}", numbers, where(Scoring.raw)))  # fmt: skip
        if (cap := self.scoring.softcap) is not None:
            score = cut(cap * math.tanh(scaled / cap))
            formula, latex = f"score = {cap:g} tanh(score / {cap:g})", rf"s \leftarrow {cap:g}\tanh(s/{cap:g})"
            steps.append(Step("Soft cap", formula, latex, {"score": score}, where(Scoring.raw)))
        if self.bias:
            bias = cut(self.bias)
            score = cut(score + bias)
            steps.append(Step("Bias", "score + bias", r"s_{ij} \leftarrow s_{ij} + b_{ij}",
                              {"bias": bias, "score": score}, where(Scoring.added)))  # fmt: skip
        last, weight = self._softmax(score, cut)
        return (*steps, last), weight

    def _softmax(self, score: float, cut: Callable[[float], float]) -> tuple[Step, float]:
        visible = [i for i, s in enumerate(self.row.tolist()) if s > -math.inf]
        if self.key not in visible:
            numbers: dict[str, float | list[float]] = {"score": -math.inf}
            return Step("Softmax: the query may not see this key", "exp(-inf) = 0", r"w_{ij} = 0", numbers,
                        where(softmax)), 0.0  # fmt: skip
        scores = {i: cut(float(self.row[i])) for i in visible} | {self.key: score}
        top = max(scores.values())
        powers = {i: cut(math.exp(s - top)) for i, s in scores.items()}
        total = cut(sum(powers.values()))
        weight = cut(powers[self.key] / total)
        hidden = len(self.row) - len(visible)
        found: dict[str, float | list[float]] = {
            "scores of all keys that it may see": list(scores.values()),
            "the largest": top,
            "exp(score - largest)": list(powers.values()),
            "their sum": total,
            "weight": weight,
        }
        note = f"{hidden} keys are hidden from this query" if hidden else ""
        return Step("Softmax: its share among all keys", f"weight = {powers[self.key]:g} / {total:g}",
                    r"w_{ij} = \frac{e^{s_{ij} - \max_j s_{ij}}}{\sum_j e^{s_{ij} - \max_j s_{ij}}}", found,
                    where(softmax), note), weight  # fmt: skip

    def _inputs(self, cut: Callable[[float], float]) -> Iterator[Step]:
        """From the embeddings to what the projections read, for the query's token and for the key's."""
        yield self._residual("query", self.query, self.stack, self.number, cut)
        if self.part == "cross":
            memory = self.seen["encoder.final"][0, self.key]
            yield Step("What the key is made from: the encoder's last states", "y = encoder.final[key]",
                       r"y_j = \mathrm{Encoder}(x)_j", {"y": _list(memory, cut)}, where(Stack.forward))  # fmt: skip
        elif self.key != self.query:
            yield self._residual("key", self.key, self.stack, self.number, cut)
        if isinstance(self.before, Norm):
            kind = self.before.form.kind
            formula = {"layer": norms.layer_norm, "layer_gain": norms.layer_norm}.get(kind, norms.rms_norm)
            normed: dict[str, float | list[float]] = {
                "h of the query": _list(self.before(self._state(self.query)), cut)
            }
            if self.part == "self" and self.key != self.query:
                normed["h of the key"] = _list(self.before(self._before(self.key)), cut)
            yield Step(f"Norm before the attention ({kind})", "h = norm(x)",
                       r"h = \mathrm{norm}(x)", normed, where(formula))  # fmt: skip

    def _state(self, token: int) -> Tensor:
        """What enters the attention's branch at this token, [D]."""
        if self.part == "cross" and not self.layer.form.parallel:
            added = self.seen[f"{self.stack}.{self.number}.self.out"][0, token]
            return self.layer.self_residual.total(self._before(token) + added)
        return self._before(token)

    def _before(self, token: int) -> Tensor:
        address = f"{self.stack}.embed" if self.number == 0 else f"{self.stack}.{self.number - 1}.residual"
        return self.seen[address][0, token]

    def _residual(self, role: str, token: int, stack: str, number: int, cut: Callable[[float], float]) -> Step:
        found: dict[str, float | list[float]] = {"embedding": _list(self.seen[f"{stack}.embed"][0, token], cut)}
        for i in range(number):
            for part in ("self", "cross", "feed_forward"):
                address = f"{stack}.{i}.{part}.out"
                if address in self.seen:
                    found[f"+ layer {i}, {part.replace('_', '-')}"] = _list(self.seen[address][0, token], cut)
        after = role == "query" and self.part == "cross" and not self.layer.form.parallel
        if after:
            found[f"+ layer {number}, self"] = _list(self.seen[f"{stack}.{number}.self.out"][0, token], cut)
        found["x"] = _list(self._state(token) if role == "query" else self._before(token), cut)
        post = self.layer.form.norm_place == "post" and len(found) > 2
        note = "each sum is normed before the next is added (post-norm)" if post else ""
        branch = f"the {self.part}-attention of layer {number}"
        return Step(f"What enters {branch} at the {role}'s token", "x = embedding + what has been added since",
                    r"x^{(\ell)} = x^{(0)} + \sum_{m<\ell} f_m", found, where(Layer.forward), note)  # fmt: skip

    def _matrix(self, letter: str, cut: Callable[[float], float]) -> dict[str, float | list[float]]:
        """The head's rows of W_q or W_k, and its bias, where they are few enough to read."""
        linear, width = self.look.q if letter == "q" else self.look.k, self.look.width
        if max(linear.weight.shape) > NARROW:
            return {}
        first = width * (self.head if letter == "q" else self.head * self.look.form.groups // self.look.form.heads)
        rows = linear.weight[first : first + width]
        found: dict[str, float | list[float]] = {
            f"W_{letter}, row {i}": _list(row, cut) for i, row in enumerate(rows, 1)
        }
        return (
            found
            if letter not in self.look.form.bias
            else {**found, "b": _list(linear.bias[first : first + width], cut)}
        )

    def _made(self, role: str, numbers: list[float], cut: Callable[[float], float]) -> Step:
        letter, form = role[0], self.look.form
        source = "y" if role == "key" and self.part == "cross" else "h" if isinstance(self.before, Norm) else "x"
        steps = [f"W_{letter} {source}"]
        steps += ["+ b"] if letter in form.bias else []
        steps += ["normed"] if form.qk_norm else []
        steps += ["turned by its position"] if form.rotary is not None else []
        code = where(rotate) if form.rotary is not None else where(Attention.forward)
        made = {**self._matrix(letter, cut), letter: [float(n) for n in numbers]}
        return Step(f"The {role} of head {self.head}", f"{letter} = {', '.join(steps).replace(', +', ' +')}",
                    rf"{letter} = W_{letter} {source}", made, code)  # fmt: skip


def _list(vector: Tensor, cut: Callable[[float], float]) -> list[float]:
    return [cut(float(n)) for n in vector.tolist()]


def where(function: Callable[..., Any]) -> str:
    """File, line and name of a function of this package."""
    function = inspect.unwrap(function)
    path = Path(inspect.getsourcefile(function) or "").relative_to(Path(clearhead.__file__).parent)
    return f"{path}:{inspect.getsourcelines(function)[1]} {function.__name__}"


def _word(model: Transformer, given: dict[str, Any], side: str, token: int) -> str:
    two = model.encoder is not None and model.decoder is not None
    name = "decoder_input_ids" if two and side == "decoder" else "input_ids"
    ids = given.get(name)
    return str(token) if ids is None else names(model, ids[0], side)[token]
