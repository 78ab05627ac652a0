"""One formula, three ways: each equals the NumPy reference, PyTorch's kernel and the other two."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from clearhead.formulas import attention as module
from clearhead.formulas.attention import attention, attention_weights, softmax
from formulas.ways import WAYS, Open, plain

Case = tuple[tuple[Tensor, Tensor, Tensor], dict[str, Any]]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Any shapes (d_v != d_k, shared heads, more queries than keys) with any options."""
    size = st.integers(1, 6)
    batch, groups, share, queries, keys = (draw(st.integers(1, n)) for n in (3, 2, 3, 7, 7))
    heads, width, wide = groups * share, draw(size), draw(size)
    seed = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=seed, dtype=torch.float64)

    q, k, v = (
        normal(batch, heads, queries, width),
        normal(batch, groups, keys, width),
        normal(batch, groups, keys, wide),
    )
    options: dict[str, Any] = {
        "causal": draw(st.booleans()),
        "window": draw(st.sampled_from([None, None, 1, 2, 4, 50])),
        "scale": draw(st.sampled_from([None, 1.0, 0.3])),
        "softcap": draw(st.sampled_from([None, None, 0.7])),
    }
    shape = draw(
        st.sampled_from(
            [None, (queries, keys), (batch, 1, 1, keys), (1, heads, queries, keys), (batch, heads, queries, keys)]
        )
    )
    if shape is not None:
        options["mask"] = torch.rand(*shape, generator=seed) < 0.6
    shape = draw(
        st.sampled_from(
            [None, None, (queries, keys), (1, heads, queries, keys), (batch, 1, 1, keys), (1, heads, 1, keys)]
        )
    )
    if shape is not None:
        bias = normal(*shape)
        options["bias"] = bias.masked_fill(
            torch.rand(*shape, generator=seed) < draw(st.sampled_from([0, 0.4])), -math.inf
        )
    if draw(st.booleans()):
        options["q_positions"] = torch.randint(0, 8, (queries,), generator=seed)
        options["k_positions"] = torch.randint(0, 8, (keys,), generator=seed)
        if draw(st.booleans()):
            options["q_positions"] = torch.randint(0, 8, (batch, queries), generator=seed)
            options["k_positions"] = torch.randint(0, 8, (batch, keys), generator=seed)
    return (q, k, v), options


def lower(case: Case, dtype: torch.dtype) -> Case:
    qkv, options = case
    bias = options.get("bias")
    return tuple(t.to(dtype) for t in qkv), options | ({} if bias is None else {"bias": bias.to(dtype)})  # type: ignore


@pytest.mark.parametrize("way", WAYS)
@given(case=cases())
@torch.no_grad()
def test_every_way_equals_numpy_in_float64(way: str, case: Case) -> None:
    out, weights = plain(*case[0], **case[1])
    np.testing.assert_allclose(WAYS[way](*case[0], **case[1]), out, atol=1e-10, rtol=0)
    np.testing.assert_allclose(attention_weights(*case[0][:2], **case[1]), weights, atol=1e-10, rtol=0)


@pytest.mark.parametrize("way", WAYS)
@given(case=cases())
@torch.no_grad()
def test_every_way_is_within_1e5_in_float32(way: str, case: Case) -> None:
    qkv, options = lower(case, torch.float32)
    got = WAYS[way](*qkv, **options)
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got, plain(*qkv, **options)[0], atol=1e-5)


@pytest.mark.parametrize("way", WAYS)
@given(case=cases())
@torch.no_grad()
def test_every_way_is_within_1_in_20_in_bfloat16(way: str, case: Case) -> None:
    """bfloat16 keeps 8 bits: scores up to about 8 are off by up to 1/32, weights by as much in proportion."""
    qkv, options = lower(case, torch.bfloat16)
    got = WAYS[way](*qkv, **options)
    assert got.dtype == torch.bfloat16
    np.testing.assert_allclose(got.float(), plain(*qkv, **options)[0], atol=0.05, rtol=0.05)


def gradients(way: str, case: Case) -> list[Tensor]:
    qkv, options = case
    leaves = [t.clone().requires_grad_() for t in qkv]
    if "bias" in options:
        options = options | {"bias": options["bias"].clone().requires_grad_()}
        leaves.append(options["bias"])
    out = WAYS[way](*leaves[:3], **options)
    (out * torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return [torch.zeros_like(t) if t.grad is None else t.grad for t in leaves]


@settings(max_examples=25)
@given(case=cases())
def test_gradients_are_the_same_on_every_way(case: Case) -> None:
    expected = gradients("open", case)
    assert all(bool(g.isfinite().all()) for g in expected)
    for way in WAYS:
        for got, want in zip(gradients(way, case), expected, strict=True):
            torch.testing.assert_close(got, want, atol=1e-10, rtol=1e-10)


@settings(max_examples=25)
@given(case=cases())
def test_gradients_are_finite_in_float32(case: Case) -> None:
    case = lower(case, torch.float32)
    for way in WAYS:
        assert all(bool(g.isfinite().all()) for g in gradients(way, case))


def test_the_gradient_is_the_derivative() -> None:
    q, k, v = (torch.randn(1, h, 3, 2, dtype=torch.float64, requires_grad=True) for h in (2, 1, 1))
    mask = torch.tensor([[True, True, False], [False, False, False], [False, True, True]])
    for way in (WAYS["fused"], WAYS["open"]):
        assert torch.autograd.gradcheck(lambda *qkv, way=way: way(*qkv, mask, softcap=2.0), (q, k, v))
        assert torch.autograd.gradcheck(lambda *qkv, way=way: way(*qkv, mask), (q, k, v))


@given(case=cases())
def test_rows_of_weights_sum_to_one_or_see_nothing(case: Case) -> None:
    (q, k, v), options = case
    weights = attention_weights(q, k, **options)
    sums = weights.sum(-1)
    assert bool((weights >= 0).all())
    assert bool((((sums - 1).abs() < 1e-12) | ((weights == 0).all(-1))).all())
    torch.testing.assert_close(
        weights @ v.repeat_interleave(q.shape[1] // k.shape[1], 1), attention(q, k, v, **options), atol=1e-10, rtol=0
    )


@given(st.permutations(range(5)))
def test_attention_does_not_know_the_order(order: list[int]) -> None:
    q, k, v = (torch.randn(2, 3, 5, 4, dtype=torch.float64) for _ in range(3))
    out = attention(q, k, v)
    torch.testing.assert_close(attention(q[:, :, order], k[:, :, order], v[:, :, order]), out[:, :, order])
    torch.testing.assert_close(attention(q, k[:, :, order], v[:, :, order]), out)


@pytest.mark.parametrize("way", WAYS)
@given(case=cases(), cut=st.integers(0, 6))
@torch.no_grad()
def test_the_future_changes_nothing(way: str, case: Case, cut: int) -> None:
    (q, k, v), options = case
    options = options | {"causal": True, "q_positions": None, "k_positions": None}
    queries, keys = q.shape[2], k.shape[2]
    before = WAYS[way](q, k, v, **options)
    after = torch.arange(keys) > cut
    k2, v2 = (torch.where(after[:, None], t * 100 + 7, t) for t in (k, v))
    changed = WAYS[way](q, k2, v2, **options)
    earlier = torch.arange(keys - queries, keys) <= cut
    torch.testing.assert_close(changed[:, :, earlier], before[:, :, earlier], atol=0, rtol=0)


@pytest.mark.parametrize("way", WAYS)
@given(case=cases())
@torch.no_grad()
def test_hidden_keys_have_no_influence(way: str, case: Case) -> None:
    (q, k, v), options = case
    hidden = torch.arange(k.shape[2]) % 2 == 0
    options = options | {"mask": ~hidden[None]}
    before = WAYS[way](q, k, v, **options)
    k2, v2 = (t.masked_fill(hidden[:, None], 1e30) for t in (k, v))
    torch.testing.assert_close(WAYS[way](q, k2, v2, **options), before, atol=0, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_plain_attention_is_bit_equal_to_torch(dtype: torch.dtype, causal: bool) -> None:
    q, k, v = (torch.randn(2, 3, 5, 8, dtype=dtype) for _ in range(3))
    assert torch.equal(attention(q, k, v, causal=causal), F.scaled_dot_product_attention(q, k, v, is_causal=causal))
    mask = torch.rand(2, 1, 5, 5) < 0.7
    mask[..., 0] = True
    assert torch.equal(attention(q, k, v, mask), F.scaled_dot_product_attention(q, k, v, mask))


def test_the_cheapest_form_of_the_mask_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    given_masks: list[Any] = []
    kernel = F.scaled_dot_product_attention

    def spy(q: Tensor, k: Tensor, v: Tensor, mask: Any, dropout: float, causal: bool, **rest: Any) -> Tensor:
        given_masks.append((mask if mask is None else tuple(mask.shape), causal))
        return kernel(q, k, v, mask, dropout, causal, **rest)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    q, k, v = (torch.randn(2, 3, 5, 8) for _ in range(3))
    attention(q, k, v)
    attention(q, k, v, causal=True)
    attention(q[:, :, -1:], k, v, causal=True)
    attention(q[:, :, -2:], k, v, causal=True)
    attention(q, k, v, window=5)
    attention(q, k, v, torch.ones(2, 1, 1, 5, dtype=torch.bool))
    assert given_masks == [
        (None, False),
        (None, True),
        (None, False),
        ((2, 5), False),
        (None, False),
        ((2, 1, 1, 5), False),
    ]


def test_the_way_is_chosen_by_need(monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []
    for name in ("_fused", "_open", "_blocks"):
        formula = getattr(module, name)

        def spy(*args: Any, formula: Any = formula, name: str = name) -> Tensor:
            taken.append(name)
            return formula(*args)

        monkeypatch.setattr(module, name, spy)
    q, k, v = (torch.randn(1, 1, 5, 8) for _ in range(3))
    attention(q, k, v)
    attention(q, k, v, softcap=1.0)
    attention(q, k, v, softcap=1.0, tap=Open())
    monkeypatch.setattr(module, "BLOCK", 10)
    attention(q, k, v, causal=True)
    attention(q, k, v, window=2)
    attention(q, k, v, torch.ones(1, 1, 1, 5, dtype=torch.bool))
    assert taken == ["_fused", "_blocks", "_open", "_fused", "_blocks", "_fused"]


def test_blocks_never_hold_more_than_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    scores = module.Scoring.scores

    def spy(self: module.Scoring, q: Tensor, k: Tensor, *places: slice) -> Tensor:
        out = scores(self, q, k, *places)
        sizes.append(out.numel())
        return out

    monkeypatch.setattr(module.Scoring, "scores", spy)
    monkeypatch.setattr(module, "BLOCK", 100)
    q, k, v = (torch.randn(1, 2, 23, 4) for _ in range(3))
    attention(q, k, v, window=3)
    assert sizes == [2 * 2 * 23] * 11 + [2 * 1 * 23]
    sizes.clear()
    attention(q, k, v, causal=True, softcap=1.0)  # a block reads the keys up to its last row
    assert sizes == [2 * 2 * stop for stop in range(2, 23, 2)] + [2 * 1 * 23]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)], ids=str)
def test_no_queries_or_no_keys(way: str, shape: tuple[int, int]) -> None:
    queries, keys = shape
    q, k, v = torch.randn(2, 2, queries, 4), torch.randn(2, 1, keys, 4), torch.randn(2, 1, keys, 5)
    assert torch.equal(WAYS[way](q, k, v, causal=True), torch.zeros(2, 2, queries, 5))


def test_softmax_has_no_fear_of_large_scores() -> None:
    out = softmax(torch.tensor([[[1e4, 1e4 - math.log(3)], [-torch.inf, 5.0], [-torch.inf, -torch.inf]]]))
    torch.testing.assert_close(out, torch.tensor([[[0.75, 0.25], [0.0, 1.0], [0.0, 0.0]]]), atol=1e-3, rtol=0)
    half = softmax(torch.tensor([[[8.0, 0.0, 0.0]]], dtype=torch.bfloat16))
    assert half.dtype == torch.bfloat16


@pytest.mark.parametrize("way", WAYS)
def test_a_bias_of_another_type_gives_the_type_of_the_queries(way: str) -> None:
    q, k, v = (torch.randn(1, 2, 3, 4, dtype=torch.bfloat16) for _ in range(3))
    bias = torch.randn(2, 3, 3)[None]
    out = WAYS[way](q, k, v, bias=bias)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out, WAYS[way](q, k, v, bias=bias.bfloat16()))


def test_positions_may_be_shared_by_one_side_only() -> None:
    q, k, v = (torch.randn(2, 1, 3, 4) for _ in range(3))
    one, many = torch.arange(3), torch.arange(3).expand(2, 3)
    expected = attention(q, k, v, causal=True)
    for q_at, k_at in ((one, many), (many, one), (many, many), (None, many), (one, None)):
        torch.testing.assert_close(attention(q, k, v, causal=True, q_positions=q_at, k_positions=k_at), expected)
