"""How unseen code is to be called: what parameters may be, the order of axes, bundles, the start of a cache."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

import clearhead.checker as checker
from clearhead.checker import bundle
from clearhead.checker.binding import bindings, by_docs, kind
from clearhead.checker.infer import reader
from clearhead.checker.layout import OURS, give, read, take
from clearhead.checker.subject import Subject


def function(text: str) -> ast.FunctionDef:
    node = ast.parse(text).body[0]
    assert isinstance(node, ast.FunctionDef)
    return node


def calls(text: str, spare: tuple[str, ...], docs: str = "") -> list[str]:
    node = function(text)
    known = reader(Subject("", text, ast.parse(text), {}), node, "sdpa", frozenset(("Q", "K", "V", "mask", "dk")))
    return [b.call() for b in bindings(node, known, spare, frozenset(("mask",)), docs)]


def test_names_that_say_nothing_take_the_roles_in_their_order() -> None:
    found = calls("def f(a, b, c): return a @ b.T @ c", ("Q", "K", "V"))
    assert found == ["Q, K, V"]


def test_an_optional_parameter_may_be_the_mask_or_left_out() -> None:
    assert calls("def f(q, k, v, m=None): return q", ("Q", "K", "V", "mask")) == ["Q, K, V, m=mask", "Q, K, V"]


def test_the_use_in_the_body_tells_numbers_from_arrays() -> None:
    node = function("def f(a, n, m): return a[..., : a.shape[-1] // n] @ m")
    assert [kind(node, name) for name in "anm"] == ["array", "whole", "array"]


def test_the_docs_tell_a_parameter() -> None:
    docs = "n: number of heads\nb: encoder states (B, S, D)"
    assert (by_docs("n", docs), by_docs("b", docs), by_docs("c", docs)) == ("H", "mem", None)


@pytest.mark.parametrize(
    ("words", "layout"),
    [
        ("B T H d", "bthd"),
        ("batch heads seq dim", "bhtd"),
        ("T B D", "tbd"),
        ("B C T", "bdt"),
        ("d n", "dt"),
        ("B H d", None),
    ],
)
def test_axes_as_people_write_them(words: str, layout: str | None) -> None:
    assert read(words.split()) == layout


@pytest.mark.parametrize("layout", ["bthd", "tbd", "bdt", "dt", "hbtd"])
def test_a_layout_there_and_back(layout: str) -> None:
    sizes = {"b": 2, "h": 3, "t": 4, "d": 5}
    ours = np.arange(np.prod([sizes[letter] for letter in OURS[len(layout)]])).reshape(
        [sizes[letter] for letter in OURS[len(layout)]]
    )
    theirs = give(ours, layout)
    assert theirs.shape == tuple(sizes[letter] for letter in layout)
    assert np.array_equal(take(theirs, layout), ours)


def test_a_bundle_of_weights_by_keys_and_by_unpacking() -> None:
    by_key = function("def f(x, w, n): return (x @ w['q']) @ (x @ w['k']).T @ (x @ w['v']) @ w['o']")
    unpacked = function("def f(x, w):\n    a, b, c, d = w\n    return x @ a @ b @ c @ d")
    assert bundle.text(by_key, "w", "multi_head_attention") == "bundle(q=Wq, k=Wk, v=Wv, o=Wo)"
    assert bundle.text(unpacked, "w", "multi_head_attention") == "(Wq, Wk, Wv, Wo)"


HEAD = "import torch\n"
STEP = """
    s = q @ k.mT / q.shape[-1] ** 0.5
    return s.softmax(-1) @ v
"""
TOLD = {
    "a wrapper that names nothing": (
        "def f(a, b, c):\n    return (a @ b.mT / a.shape[-1] ** 0.5).softmax(-1) @ c\n",
        "sdpa",
    ),
    "tokens before heads": (
        "def attention(q, k, v):\n    s = torch.einsum('bqhd,bkhd->bhqk', q, k) / q.shape[-1] ** 0.5\n"
        "    return torch.einsum('bhqk,bkhd->bqhd', s.softmax(-1), v)\n",
        "sdpa",
    ),
    "slots made beforehand, written at a position": (
        "def decode(q, k, v, k_cache, v_cache, pos):\n    k_cache[:, :, pos : pos + 1] = k\n"
        "    v_cache[:, :, pos : pos + 1] = v\n    k, v = k_cache[:, :, : pos + 1], v_cache[:, :, : pos + 1]" + STEP,
        "kv_cache",
    ),
    "the state comes first and goes first": (
        "def advance(state, q, k, v):\n    if state is not None:\n"
        "        k, v = torch.cat([state[0], k], 2), torch.cat([state[1], v], 2)\n"
        "    return (k, v), (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v\n",
        "kv_cache",
    ),
    "windows of a long text": (
        "def windows(data, block_size):\n    n = len(data) - block_size\n"
        "    return [(data[i : i + block_size], data[i + 1 : i + 1 + block_size]) for i in range(n)]\n",
        "decoder_shift",
    ),
    "settings as a dataclass whose own sizes are too large": (
        "from dataclasses import dataclass\n@dataclass\nclass Args:\n    dim: int = 400000\n    n_heads: int = 32\n"
        "class Attention(torch.nn.Module):\n    def __init__(self, args: Args):\n        super().__init__()\n"
        "        self.n = args.n_heads\n"
        "        self.q, self.k, self.v, self.o = (torch.nn.Linear(args.dim, args.dim) for _ in range(4))\n"
        "    def forward(self, x):\n"
        "        q, k, v = (f(x).unflatten(-1, (self.n, -1)).transpose(1, 2) for f in (self.q, self.k, self.v))\n"
        "        w = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)\n"
        "        return self.o((w @ v).transpose(1, 2).flatten(2))\n",
        "multi_head_attention",
    ),
    "sizes read of a parameter": (
        "def mask(hp):\n    i = torch.arange(hp.seq_len)\n"
        "    return (i[None] <= i[:, None]) & (i[:, None] - i[None] < hp.window)\n",
        "causal_mask",
    ),
    "weights whose keys a loop spells": (
        "def mha(params, x, n_heads):\n"
        "    q, k, v = ((x @ params[n]).unflatten(-1, (n_heads, -1)).transpose(1, 2) for n in 'qkv')\n"
        "    w = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)\n"
        "    return (w @ v).transpose(1, 2).flatten(2) @ params['o']\n",
        "multi_head_attention",
    ),
    "a function that returns the attention": (
        "def multi_head(Wq, Wk, Wv, Wo, heads):\n    def attend(x):\n"
        "        q, k, v = ((x @ w).unflatten(-1, (heads, -1)).transpose(1, 2) for w in (Wq, Wk, Wv))\n"
        "        w = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)\n"
        "        return (w @ v).transpose(1, 2).flatten(2) @ Wo\n    return attend\n",
        "multi_head_attention",
    ),
    "a cache beside the function that attends": (
        "class Cache:\n    def __init__(self):\n        self.k = self.v = None\n    def update(self, k, v):\n"
        "        self.k = k if self.k is None else torch.cat([self.k, k], 2)\n"
        "        self.v = v if self.v is None else torch.cat([self.v, v], 2)\n        return self.k, self.v\n"
        "def attend(q, k, v):\n    s = q @ k.mT / q.shape[-1] ** 0.5\n"
        "    seen = torch.ones(s.shape[-2:]).tril(s.shape[-1] - s.shape[-2]).bool()\n"
        "    return s.masked_fill(~seen, -torch.inf).softmax(-1) @ v\n",
        "kv_cache",
    ),
    "rows without end": (
        "import math\ndef sinusoids(d):\n    p = 0\n    while True:\n"
        "        yield [(math.cos if i % 2 else math.sin)(p / 10000 ** (2 * (i // 2) / d)) for i in range(d)]\n"
        "        p += 1\n",
        "positional_encoding",
    ),
    "a loss with time first": (
        "def lm_loss(logits, tokens):\n    # logits [T, B, V], tokens [T, B]\n"
        "    lp = logits[:-1].log_softmax(-1)\n    return -lp.gather(-1, tokens[1:, :, None]).mean()\n",
        "decoder_shift",
    ),
    "a mask asked for two places": ("def visible(i, j):\n    return j <= i\n", "causal_mask"),
    "a row of the table": (
        "import math\ndef position_row(p, d):\n    angles = [p / 10000 ** (2 * (i // 2) / d) for i in range(d)]\n"
        "    return [math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(angles)]\n",
        "positional_encoding",
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_unseen_styles_are_understood(name: str, tmp_path: Path) -> None:
    text, task = TOLD[name]
    path = tmp_path / "attempt.py"
    path.write_text(HEAD + text)
    report = checker.check_paths([str(path)])[0]
    assert (report.passed, report.task) == (True, task), report


def test_a_width_that_the_heads_do_not_divide(tmp_path: Path) -> None:
    text = (
        "def multi_head_attention(x, Wq, Wk, Wv, Wo, n_heads):\n    '''any number of heads'''\n"
        "    e = x.shape[-1] // n_heads\n    q, k, v = x @ Wq, x @ Wk, x @ Wv\n    out = torch.zeros_like(x)\n"
        "    for i in range(n_heads):\n        part = slice(i * e, (i + 1) * e)\n"
        "        w = (q[..., part] @ k[..., part].mT / e**0.5).softmax(-1)\n"
        "        out[..., part] = w @ v[..., part]\n    return out @ Wo\n"
    )
    path = tmp_path / "attempt.py"
    path.write_text(HEAD + text)
    assert checker.check_paths([str(path)])[0].mistakes[:1] == ["heads-not-divisible"]
    checked = text.replace("    e = ", "    assert x.shape[-1] % n_heads == 0\n    e = ")
    path.write_text(HEAD + checked)
    assert checker.check_paths([str(path)])[0].passed
