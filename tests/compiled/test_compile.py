"""Compiled = eager, in one graph, for the three kinds of model and in three types."""

import shutil
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter

from clearhead.config import Activation, AnswerSpan, AnyHead, Dense, TextClassifier, TextEmbedding
from clearhead.formulas.attention import attention
from clearhead.formulas.feed_forward import activate
from clearhead.lens.edit import edit
from clearhead.lens.edits import ablate
from clearhead.lens.record import record
from clearhead.lens.rows import Scores
from clearhead.model.cache import Cache
from clearhead.tap import Tap
from model.tiny import ALL, TRANSLATORS, build, close, text

HEADS: list[AnyHead] = [
    TextClassifier(labels=("a", "b"), pool="eos", dense=Dense(activation="tanh")),
    TextClassifier(labels=("a", "b"), pool="not_pad"),
    AnswerSpan(),
    TextEmbedding(pool="mean", normalise=True),
]
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


@pytest.mark.parametrize("kind", ["learned_decoder", "learned_encoder", "post_norm_translator"])
@pytest.mark.parametrize("head", HEADS, ids=lambda head: f"{type(head).__name__} {getattr(head, 'pool', '')}")
def test_the_other_heads_compile(kind: str, head: AnyHead) -> None:
    model = build(replace(ALL[kind](), head=head, pad=0, eos=2, start=1))
    given = {key: value for key, value in inputs(kind, True).items() if key != "decoder_input_ids"}
    given["input_ids"][:, 4] = 2
    if isinstance(head, AnswerSpan):
        given["labels"] = torch.tensor([[1, 3], [2, 5]])
    got, expected = compiled(model)(**given), model(**given)
    close(
        got.embedding if got.logits is None else got.logits,
        expected.embedding if got.logits is None else expected.logits,
    )
    if "labels" in given:
        close(got.loss, expected.loss)


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


RECORDED = ["*.weights", "*.residual", "*.q", "logits"]


@torch.no_grad()
@pytest.mark.parametrize("kind", ["relative_translator", "rotary_decoder", "window_decoder", "learned_encoder"])
def test_recording_and_editing_after_compilation(kind: str) -> None:
    """With every kind of rule; a growing recording does not make the compiler look again."""
    model, given = build(ALL[kind]()), inputs(kind, padded=True)
    counted = CompileCounter()
    fast = compiled(model, counted)  # type: ignore[arg-type]
    before = last(fast, given)
    for _ in range(3):
        with record(model, RECORDED) as seen:
            for _ in range(2):
                assert torch.equal(last(fast, given), before)
        with record(model, RECORDED) as truth:
            last(model, given)
        assert len(seen.calls) == 2
        assert set(seen) == set(truth)
        for address, value in seen.items():
            mine, theirs = (v.dense() if isinstance(v, Scores) else v for v in (value, truth[address]))
            close(mine, theirs)
    assert counted.frame_count == 2


@torch.no_grad()
def test_twenty_ablations_cost_two_compilations_at_most() -> None:
    model, given = build(ALL["rotary_decoder"]()), inputs("rotary_decoder", padded=False)
    counted = CompileCounter()
    fast = compiled(model, counted)  # type: ignore[arg-type]
    before, results = last(fast, given), []
    for i in range(20):
        changes = {"decoder.1.self.heads": ablate(heads=[i % 2], positions=[i // 2 % 6] if i < 10 else [0, i // 4])}
        with edit(model, changes):
            results.append(last(fast, given))
            close(results[-1], last(model, given))
        assert not torch.equal(results[-1], before)
    assert torch.equal(last(fast, given), before)
    assert counted.frame_count <= 3, "one without edits, and two"


@torch.no_grad()
@pytest.mark.filterwarnings(
    "ignore:.*torch.jit:DeprecationWarning"
)  # torch's own, when it makes an operator functional
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
def test_recording_and_editing_under_inductor() -> None:
    model, given = build(ALL["rotary_decoder"]()).float(), inputs("rotary_decoder", padded=False)
    fast = compiled(model, "inductor")
    before = last(fast, given)
    with record(model, RECORDED) as seen:
        close(last(fast, given), before, 1e-6)
    with record(model, RECORDED) as truth:
        last(model, given)
    for address, value in seen.items():
        mine, theirs = (v.dense() if isinstance(v, Scores) else v for v in (value, truth[address]))
        close(mine, theirs, 1e-5)
    with edit(model, {"decoder.*.weights": ablate(heads=[0])}):
        close(last(fast, given), last(model, given), 1e-5)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a C++ compiler")
def test_in_bf16_a_recording_changes_no_bit_if_casts_are_emulated() -> None:
    import torch._inductor.config as inductor

    model, given = build(ALL["rotary_decoder"]()).bfloat16(), inputs("rotary_decoder", padded=False)
    fast = compiled(model, "inductor")
    with inductor.patch(emulate_precision_casts=True):
        before = last(fast, given)
        with record(model, RECORDED) as seen:
            assert torch.equal(last(fast, given), before)
    assert len(seen) == len(set(seen)) > 5


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
@pytest.mark.parametrize("kind", get_args(Activation))
def test_a_compiled_activation_is_the_eager_one(kind: Activation) -> None:
    """For the tanh gelu the compiler is given another form of the same number."""
    for dtype, limit in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        x = torch.linspace(-9, 9, 181, dtype=dtype, requires_grad=True)
        out, right = torch.compile(activate, fullgraph=True)(x, kind), activate(x, kind)
        close(out, right, limit)
        close(torch.autograd.grad(out.sum(), x)[0], torch.autograd.grad(right.sum(), x)[0], limit)
