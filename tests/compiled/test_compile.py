"""Compiled = eager, in one graph, for the three kinds of model and in three types."""

import shutil
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.formulas.attention import attention
from clearhead.model.cache import Cache
from clearhead.tap import Tap
from model.tiny import ALL, TRANSLATORS, build, close, text

LIMITS = {torch.float32: 1e-5, torch.bfloat16: 1e-2}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    torch._dynamo.reset()


def compiled(model: Any, backend: str = "eager") -> Any:
    return torch.compile(model, fullgraph=True, backend=backend)


def inputs(kind: str, padded: bool) -> dict[str, Tensor]:
    given = {"input_ids": text(2, 6, vocab=31)}
    if padded:
        given["attention_mask"] = torch.tensor([[1] * 6, [0, 0, 1, 1, 1, 1]])
    if kind in TRANSLATORS:
        given["decoder_input_ids"] = text(2, 5, seed=1)
    return given


def last(model: Any, given: dict[str, Tensor]) -> Tensor:
    return model(**given).hidden


@torch.no_grad()
@pytest.mark.parametrize("kind", ALL)
def test_one_graph_equals_eager(kind: str) -> None:
    model, given = build(ALL[kind]()), inputs(kind, padded=True)
    close(last(compiled(model), given), last(model, given))


@pytest.mark.parametrize("kind", ["sinusoidal_decoder", "rotary_encoder", "post_norm_translator"])
def test_one_graph_equals_eager_without_padding(kind: str) -> None:
    model, given = build(ALL[kind]()), inputs(kind, padded=False)
    close(last(compiled(model), given), last(model, given))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["rotary_decoder", "learned_encoder", "relative_translator"])
def test_every_type_compiles(kind: str, dtype: torch.dtype) -> None:
    model, given = build(ALL[kind](), dtype), inputs(kind, True)
    got = last(compiled(model), given)
    assert got.dtype == dtype
    close(got, last(model, given), LIMITS[dtype])


@pytest.mark.parametrize("kind", ["rotary_decoder", "learned_encoder", "relative_translator"])
def test_loss_and_gradients_compile(kind: str) -> None:
    model, labels = build(ALL[kind]()), text(2, 6, seed=2)
    given = {"input_ids": text(2, 6, vocab=31), "labels": labels}
    parameters = [p for p in model.parameters() if p.requires_grad]
    expected = torch.autograd.grad(model(**given).loss, parameters)
    got = torch.autograd.grad(compiled(model)(**given).loss, parameters)
    for a, b in zip(got, expected, strict=True):
        close(a, b)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["rotary_decoder", "learned_decoder"])
def test_a_cache_may_be_used_by_a_compiled_model(kind: str) -> None:
    model, ids, cache = build(ALL[kind]()), text(2, 7), Cache()
    run = compiled(model)
    parts = [run(piece, cache=cache).logits for piece in (ids[:, :4], ids[:, 4:5], ids[:, 5:6], ids[:, 6:])]
    close(torch.cat(parts, 1), model(ids).logits)


class Double(Tap):
    def __init__(self, wanted: str, place: str = ""):
        self.wanted, self.place = wanted, place

    def at(self, name: str) -> Tap:
        return Double(self.wanted, f"{self.place}{name}.")

    def __call__(self, site: str, value: Any) -> Any:
        return value * 2 if self.place + site == self.wanted else value

    def opens(self) -> bool:
        return self.wanted in (f"{self.place}scores", f"{self.place}weights")


@pytest.mark.parametrize("site", ["decoder.0.self.weights", "decoder.1.self.q", "decoder.0.residual"])
def test_a_tap_is_heard_after_compiling(site: str) -> None:
    model, ids = build(ALL["rotary_decoder"]()), text(2, 6)
    run = compiled(model)
    plain = run(ids).logits
    got, expected = run(ids, tap=Double(site)).logits, model(ids, tap=Double(site)).logits
    close(got, expected)
    assert (got - plain).abs().max() > 1e-3
    close(run(ids).logits, plain)


def test_the_formula_compiles_with_every_option() -> None:
    q, k, v = (torch.randn(2, h, 5, 4, dtype=torch.float64) for h in (4, 2, 2))
    mask = torch.rand(2, 1, 5, 5) < 0.7
    for options in (
        {},
        {"causal": True},
        {"window": 2},
        {"softcap": 1.0},
        {"mask": mask},
        {"mask": mask, "causal": True},
    ):
        close(compiled(attention)(q, k, v, **options), attention(q, k, v, **options))


@torch.no_grad()
@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler, and there is no g++ here")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # inductor's own
def test_inductor_equals_eager() -> None:
    model, ids = build(ALL["rotary_decoder"](), torch.float32), text(2, 6)
    close(compiled(model, "inductor")(ids).logits, model(ids).logits, 1e-5)
