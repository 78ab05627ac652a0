"""Rows and statistics computed on demand equal those of the dense weights, for every rule that attention knows."""

import math

import pytest
import torch
from torch import Tensor

from clearhead.formulas.attention import Scoring
from clearhead.formulas.mask import Visible
from clearhead.lens import tiles as tiling
from clearhead.lens.record import record
from clearhead.lens.rows import Gradient, Scores, Weights
from clearhead.lens.tiles import largest, tiles
from lens.products import draw, inputs, products
from model.tiny import ALL, build

RULES = list(products())


def near(mine: Tensor, truth: Tensor, atol: float = 1e-5) -> None:
    assert mine.shape == truth.shape
    assert torch.isfinite(mine).all()
    assert (mine - truth).abs().max() <= atol


def positions(scoring: Scoring) -> tuple[Tensor, Tensor]:
    """[1 or B, 1, Q, 1] and [1 or B, 1, 1, K]."""
    q, k = scoring.visible.q_positions, scoring.visible.k_positions
    return q.view(-1, 1, q.shape[-1], 1), k.view(-1, 1, 1, k.shape[-1])


@pytest.fixture(autouse=True, params=[60 * 60 * 12, 300])
def _tile_size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one tile, and in many."""
    monkeypatch.setattr(tiling, "TILE", request.param)
    monkeypatch.setattr(tiles, "__defaults__", (request.param,))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("queries", [60, 13])
def test_ins_10_statistics_equal_the_dense_ones(rule: str, queries: int) -> None:
    q, k, scoring = products(queries)[rule]
    view, w = Weights(q, k, scoring), scoring.weights(q, k).double()
    at, of = positions(scoring)
    sees = w.sum(-1) > 0
    entropy = -(w * w.clamp(min=1e-300).log2()).sum(-1)
    truth = {
        "entropy": entropy,
        "effective_keys": torch.exp2(entropy) * sees,
        "max": w.amax(-1),
        "distance": (w * (at - of).abs()).sum(-1),
        "self": (w * (at == of)).sum(-1),
        "previous": (w * (at - of == 1)).sum(-1),
        "first": (w * (of == 0)).sum(-1),
    }
    found = view.measure()
    assert found.keys() == truth.keys()
    for name in truth:
        near(found[name], truth[name], 2e-5 * max(1.0, float(truth[name].max())))
    for name in ("entropy", "effective_keys", "max", "distance"):
        assert torch.equal(getattr(view, name)(), found[name])


@pytest.mark.parametrize("rule", RULES)
def test_largest_weights_columns_and_profile(rule: str) -> None:
    q, k, scoring = products()[rule]
    view, w = Weights(q, k, scoring), scoring.weights(q, k)
    values, places = view.top(5)
    near(values, w.topk(5).values)
    assert torch.allclose(w.gather(-1, places), values, atol=1e-5)
    assert places.sort(-1).values.diff(dim=-1).min() > 0, "each key once"
    near(view.coverage(5), values.sum(-1))
    near(view.columns(), w.sum(-2), 1e-4)
    at, of = positions(scoring)
    profile = torch.stack([(w * (at - of == d)).sum((-1, -2)) for d in range(9)], -1) / 60
    near(view.profile(8), profile)


@pytest.mark.parametrize("rule", RULES)
def test_any_row_head_or_sample_alone(rule: str) -> None:
    q, k, scoring = products()[rule]
    for view in (Weights(q, k, scoring), Scores(q, k, scoring)):
        dense = view.dense().nan_to_num(neginf=-9.0)
        assert view.shape == dense.shape
        near(view[1, 4, 17].nan_to_num(neginf=-9.0), dense[1, 4, 17])
        near(view[-1, -1, -1].nan_to_num(neginf=-9.0), dense[-1, -1, -1])
        near(view.row(59).nan_to_num(neginf=-9.0), dense[:, :, 59])
        near(view.only(slice(1, 2), slice(2, 5)).dense().nan_to_num(neginf=-9.0), dense[1:2, 2:5])
    assert torch.equal(Scores(q, k, scoring).dense(), scoring.scores(q, k))


def test_induction_is_the_weight_after_earlier_equals() -> None:
    q, k, scoring = products()["causal"]
    ids = torch.randint(0, 7, (2, 60), generator=torch.Generator().manual_seed(5))
    w, truth = scoring.weights(q, k), torch.zeros(2, 6, 60)
    for b in range(2):
        for i in range(60):
            for j in range(1, i):
                if ids[b, j - 1] == ids[b, i]:
                    truth[b, :, i] += w[b, :, i, j]
    near(Weights(q, k, scoring).induction(ids), truth)
    with pytest.raises(ValueError, match=r"ids is \[2, 9\], but the keys are \[2, 60\]"):
        Weights(q, k, scoring).induction(ids[:, :9])


def test_agreement_is_one_minus_the_total_variation() -> None:
    q, k, scoring = products()["causal"]
    view, w = Weights(q, k, scoring), scoring.weights(q, k)
    near(view.agreement(1, 4), 1 - (w[:, 1] - w[:, 4]).abs().sum(-1) / 2)
    near(view.agreement(3, 3), torch.ones(2, 60))


@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("width", [1, 7, 40, 257, 1000])
def test_largest_is_topk(count: int, width: int) -> None:
    e = draw(2, 3, width, seed=width)
    if count > width:
        return
    values, places = largest(e, count)
    assert torch.equal(values, e.topk(count).values)
    assert torch.equal(e.gather(-1, places), values)


def test_a_uniform_row_has_the_entropy_of_its_keys() -> None:
    q, k = torch.zeros(1, 1, 8, 4), torch.zeros(1, 1, 8, 4)
    view = Weights(q, k, Scoring(Visible.last(8, 8, causal=True), 1.0))
    near(view.entropy()[0, 0], torch.arange(1, 9).log2())
    near(view.effective_keys()[0, 0], torch.arange(1.0, 9.0))


def test_dense_over_the_limit_names_both_numbers() -> None:
    q, k, scoring = products()["causal"]
    with pytest.raises(ValueError, match=r"take 172,800 bytes, the limit is 1,000"):
        Weights(q, k, scoring).dense(limit=1000)


def test_bad_questions_are_refused() -> None:
    q, k, scoring = products()["causal"]
    view = Weights(q, k, scoring)
    with pytest.raises(ValueError, match="there is no statistic 'mean'; there are entropy"):
        view.measure("mean")
    with pytest.raises(ValueError, match=r"top\(61\): there are 60 keys"):
        view.top(61)
    with pytest.raises(IndexError, match="head 6 of 6; use 0 to 5"):
        view[0, 6, 0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_types_are_computed_in_float32_or_wider(dtype: torch.dtype) -> None:
    q, k, scoring = products()["causal"]
    view = Weights(q.to(dtype), k.to(dtype), scoring)
    wide = torch.promote_types(dtype, torch.float32)
    w = scoring.weights(q.to(dtype).to(wide), k.to(dtype).to(wide))
    found = view.measure("entropy", "max")
    assert found["max"].dtype == wide
    near(found["max"], w.amax(-1))
    near(found["entropy"], torch.special.entr(w).sum(-1) / math.log(2), 1e-4)


def test_gradients_of_weights_and_scores_follow_from_those_of_the_heads() -> None:
    for rule in ("causal", "causal, padded", "soft cap", "bias"):
        q, k, scoring = products()[rule]
        v, upstream = draw(2, 3, 60, 4, seed=6), draw(2, 6, 60, 4, seed=7)
        scores = scoring.scores(q, k).requires_grad_()
        weights = scores.softmax(-1)
        weights.retain_grad()
        (weights @ v.repeat_interleave(2, 1) * upstream).sum().backward()
        near(Gradient(upstream, v, Weights(q, k, scoring)).dense(), weights.grad)
        near(Gradient(upstream, v, Scores(q, k, scoring)).dense(), scores.grad)
        part = Gradient(upstream, v, Scores(q, k, scoring)).only(slice(1, 2), slice(3, 5))
        near(part.dense(), scores.grad[1:2, 3:5])


@torch.no_grad()
@pytest.mark.parametrize("kind", ALL)
def test_statistics_of_every_kind_of_model(kind: str) -> None:
    model = build(ALL[kind]())
    with record(model, "*.weights") as seen:
        model(**inputs(kind, 44))
    for view in seen.values():
        w = view.dense().double()
        near(view.max(), w.amax(-1))
        near(view.entropy(), -(w * w.clamp(min=1e-300).log2()).sum(-1), 1e-4)
        near(view.columns(), w.sum(-2), 1e-4)
        near(view.top(3)[0], w.topk(3).values)
