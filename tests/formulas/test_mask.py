"""Masks: from positions, lengths and other conventions; what they hide; how they look."""

import math
from inspect import unwrap

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from clearhead.formulas.attention import attention, attention_weights
from clearhead.formulas.mask import (
    Visible,
    causal_mask,
    check_mask,
    cross_mask,
    draw_mask,
    from_torch_mha,
    length_mask,
    padding_mask,
    to_torch_mha,
    window_mask,
)
from formulas.ways import WAYS, unchecked, visible


@pytest.mark.parametrize("way", WAYS)
def test_msk_04_true_means_may_attend(way: str) -> None:
    q, k, mask = torch.tensor([1.0, 0]).view(1, 1, 1, 2), torch.eye(2)[None, None], torch.tensor([[True, False]])
    assert WAYS[way](q, k, k, mask).flatten().tolist() == [1, 0]
    assert WAYS[way](q, k, k, from_torch_mha(mask)).flatten().tolist() == [0, 1]


@pytest.mark.parametrize("way", WAYS)
def test_msk_05_queries_are_the_last_positions(way: str) -> None:
    for queries, keys, expected in ((2, 5, [2.5, 3.0]), (1, 5, [3.0]), (5, 2, [0, 0, 0, 1, 1.5])):
        q, k, v = (
            torch.zeros(1, 1, queries, 3),
            torch.zeros(1, 1, keys, 3),
            torch.arange(1.0, keys + 1).view(1, 1, -1, 1),
        )
        assert WAYS[way](q, k, v, causal=True).flatten().tolist() == pytest.approx(expected)


def test_msk_06_a_float_of_0_and_1_is_not_a_mask() -> None:
    q, v = torch.zeros(1, 1, 3, 2), torch.tensor([1.0, 2, 3]).view(1, 1, 3, 1)
    with pytest.raises(ValueError, match=r"torch.float32.*only 0 and 1.*mask.bool\(\)"):
        unchecked(q, q, v, torch.ones(3, 3).tril())
    assert attention(q, q, v, torch.ones(3, 3).tril().bool()).flatten().tolist() == pytest.approx([1, 1.5, 2])


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
def test_msk_07_an_integer_mask_is_refused_by_name(dtype: torch.dtype) -> None:
    q = torch.zeros(1, 1, 3, 2)
    with pytest.raises(ValueError, match=rf"{dtype}.*mask.bool\(\).*nn.MultiheadAttention.*mask == 0"):
        unchecked(q, q, q, torch.ones(3, 3, dtype=dtype))
    with pytest.raises(ValueError, match=f"{dtype}.*bias="):
        check_mask(torch.tensor([0, 7, 1]).to(dtype))


def test_a_mask_of_0_and_minus_infinity_is_refused() -> None:
    with pytest.raises(ValueError, match=r"bias=.*mask == 0"):
        check_mask(torch.tensor([[0.0, -math.inf]]))


@pytest.mark.parametrize("way", WAYS)
def test_msk_08_hidden_before_the_softmax_not_after(way: str) -> None:
    q, mask = torch.zeros(1, 1, 4, 2), torch.tensor([[True, True, False, False]])
    assert attention_weights(q, q, mask)[0, 0, 0].tolist() == [0.5, 0.5, 0, 0]
    v = torch.eye(4)[None, None]
    assert WAYS[way](q, q, v, mask)[0, 0, 0].tolist() == [0.5, 0.5, 0, 0]


def test_msk_09_asking_for_weights_changes_nothing() -> None:
    q, k, v = (torch.randn(2, 3, 6, 4) for _ in range(3))
    out = attention(q, k, v, causal=True)
    torch.testing.assert_close(attention_weights(q, k, causal=True) @ v, out)
    assert torch.equal(attention(q, k, v, causal=True), out)


@pytest.mark.parametrize("way", WAYS)
def test_msk_13_a_window_of_3_is_itself_and_two_before(way: str) -> None:
    q = torch.zeros(1, 1, 6, 2)
    weights = WAYS[way](q, q, torch.eye(6)[None, None], causal=True, window=3)[0, 0]
    third = 1 / 3
    expected = [[1] + [0] * 5, [0.5, 0.5, 0, 0, 0, 0], [third] * 3 + [0] * 3]
    expected += [[0] * i + [third] * 3 + [0] * (3 - i) for i in (1, 2, 3)]
    torch.testing.assert_close(weights, torch.tensor(expected))
    both_sides = attention_weights(q, q, window=2)[0, 0] > 0
    torch.testing.assert_close(both_sides, torch.ones(6, 6).tril(1).triu(-1).bool())


@pytest.mark.parametrize("way", WAYS)
def test_a_window_holds_where_queries_outnumber_keys(way: str) -> None:
    """Positions -1 and 0 look at key 0 from a distance of 1 and 0."""
    q, k = torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 1, 3)
    assert WAYS[way](q, k, torch.ones(1, 1, 1, 1), window=1).flatten().tolist() == [0, 1]
    assert WAYS[way](q, k, torch.ones(1, 1, 1, 1), window=2).flatten().tolist() == [1, 1]


@pytest.mark.parametrize("way", WAYS)
def test_msk_15_neighbouring_heads_share_keys_and_values(way: str) -> None:
    q, k = torch.zeros(1, 4, 1, 2), torch.zeros(1, 2, 1, 2)
    v = torch.tensor([10.0, 20]).view(1, 2, 1, 1)
    assert WAYS[way](q, k, v).flatten().tolist() == [10, 10, 20, 20]


@pytest.mark.parametrize("way", WAYS)
def test_msk_16_a_length_that_no_block_divides(way: str) -> None:
    q, k, v = (torch.randn(2, 2, 137, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))
    bias = torch.randn(2, 2, 137, 137, dtype=torch.float64)
    out = WAYS[way](q, k, v, bias=bias, causal=True)
    dense = attention_weights(q, k, bias=bias, causal=True) @ v
    torch.testing.assert_close(out, dense, atol=1e-10, rtol=0)
    grads = torch.autograd.grad(out.square().sum(), (q, k, v))
    for got, want in zip(grads, torch.autograd.grad(dense.square().sum(), (q, k, v)), strict=True):
        torch.testing.assert_close(got, want, atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("way", WAYS)
def test_msk_18_memory_order_makes_no_difference(way: str) -> None:
    q, k, v = (torch.randn(2, 8, 4, 6).transpose(1, 2) for _ in range(3))  # [2 4 8 6], heads and tokens swapped
    mask = torch.rand(2, 1, 8, 8) < 0.7
    straight = WAYS[way](q.contiguous(), k.contiguous(), v.contiguous(), mask.expand(2, 4, 8, 8).contiguous())
    torch.testing.assert_close(WAYS[way](q, k, v, mask), straight)
    shared = k[:, :2]
    torch.testing.assert_close(WAYS[way](q, shared, shared, mask), WAYS[way](q, shared.contiguous(), shared, mask))


@given(st.integers(1, 7), st.integers(1, 7), st.booleans(), st.sampled_from([None, 1, 2, 3, 9]))
def test_visible_rows_are_the_double_loop(queries: int, keys: int, causal: bool, window: int | None) -> None:
    rule = Visible.last(queries, keys, causal=causal, window=window)
    seen = rule.rows()
    expected = visible(queries, keys, causal, window, None, None)[0, 0]
    np.testing.assert_array_equal(np.ones_like(expected) if seen is None else seen, expected)
    assert rule.triangle <= (causal and queries == keys)
    assert not rule.complete or bool(expected.any(-1).all())
    assert rule.entries in (0, queries * keys)
    for start in range(queries):
        part = rule.rows(slice(start, start + 2))
        assert part is None or np.array_equal(part, expected[start : start + 2])


def test_visible_settles_its_mask_once_unless_it_is_too_large() -> None:
    rule = Visible.last(3, 5, causal=True, mask=torch.rand(2, 1, 1, 5) < 0.5)
    settled = rule.settled(100)
    assert not settled.causal
    assert torch.equal(settled.rows(), rule.rows())  # type: ignore[arg-type]
    assert rule.entries == 2 * 3 * 5
    assert rule.settled(29) is rule
    triangle = Visible.last(5, 5, causal=True)
    assert triangle.settled(100) is triangle


def test_documents_in_a_packed_row_do_not_see_each_other() -> None:
    at, ids = torch.tensor([[0, 1, 2, 0, 1]]), torch.tensor([[0, 0, 0, 1, 1]])
    rule = Visible(at, at, causal=True, q_documents=ids, k_documents=ids)
    seen = rule.rows()
    expected = torch.block_diag(torch.ones(3, 3).tril(), torch.ones(2, 2).tril()).bool()
    assert seen is not None
    assert torch.equal(seen[0, 0], expected)
    part = rule.rows(slice(1, 4))
    assert part is not None
    assert torch.equal(part[0, 0], expected[1:4])


def test_masks_combine_with_and() -> None:
    at = torch.arange(4)
    both = causal_mask(at, at) & window_mask(at, at, 2)
    assert both.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    padded = both & length_mask(torch.tensor([4, 2]), 4)
    assert padded.shape == (2, 1, 4, 4)
    assert not padded[1, ..., 2:].any()


def test_cross_mask_knows_both_lengths() -> None:
    mask = cross_mask(torch.tensor([2, 1]), torch.tensor([1, 3]), 2, 3)
    assert mask[:, 0].int().tolist() == [[[1, 0, 0], [1, 0, 0]], [[1, 1, 1], [0, 0, 0]]]


def test_padding_mask_takes_ones_for_tokens() -> None:
    for given_mask in (torch.tensor([[1, 1, 0]]), torch.tensor([[1.0, 1, 0]]), torch.tensor([[True, True, False]])):
        assert padding_mask(given_mask).tolist() == [[[[True, True, False]]]]
    with pytest.raises(ValueError, match=r"holds -inf.*pass `mask == 0`"):
        padding_mask(torch.tensor([[0.0, -math.inf]]))
    with pytest.raises(ValueError, match="holds 2"):
        padding_mask(torch.tensor([[0, 2]]))
    with pytest.raises(ValueError, match=r"4 dimensions.*2: \[batch, tokens\]"):
        padding_mask(torch.ones(1, 1, 2, 2))


@given(st.lists(st.booleans(), min_size=1, max_size=9))
def test_mask_adapters_round_trip(bits: list[bool]) -> None:
    mask = torch.tensor(bits)
    assert torch.equal(from_torch_mha(to_torch_mha(mask)), mask)
    assert not bool((from_torch_mha(mask) & mask).any())
    with pytest.raises(ValueError, match="not boolean"):
        unwrap(from_torch_mha)(mask.int())


def test_the_adapters_give_what_multihead_attention_means() -> None:
    x = torch.randn(2, 5, 8)
    theirs = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
    causal, keep = torch.ones(5, 5).tril().bool(), torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]).bool()
    expected, _ = theirs(x, x, x, attn_mask=to_torch_mha(causal), key_padding_mask=to_torch_mha(keep))
    q, k, v = ((x @ w.T).unflatten(-1, (2, 4)).transpose(1, 2) for w in theirs.in_proj_weight.chunk(3))
    ours = attention(q, k, v, causal & padding_mask(keep)).transpose(1, 2).flatten(2) @ theirs.out_proj.weight.T
    torch.testing.assert_close(ours, expected)


def test_a_mask_draws_itself_on_its_tokens() -> None:
    picture = draw_mask(torch.ones(3, 3).tril().bool(), ["the", "cat", "sat"], ["the", "cat", "sat"])
    assert picture.splitlines() == [
        "    the cat sat",
        "the   █   ·   ·",
        "cat   █   █   ·",
        "sat   █   █   █",
    ]
    with pytest.raises(ValueError, match=r"\[3, 3\].*2 queries and 3 keys"):
        unwrap(draw_mask)(torch.ones(3, 3).bool(), ["a", "b"], ["a", "b", "c"])
