"""Queries that may attend to nothing: zero output, zero weights, zero gradients, on every way."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.formulas.attention import attention_weights
from clearhead.formulas.mask import length_mask
from formulas.ways import WAYS

TYPES = [torch.float64, torch.float32, torch.bfloat16]


def both(way: str, options: dict[str, Any], *shapes: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """The output and the gradients of q, k, v (and the bias) of its sum of squares."""
    leaves = [torch.randn(*shape).to(dtype).requires_grad_() for shape in shapes]
    if "bias" in options:
        options = options | {"bias": options["bias"].to(dtype).requires_grad_()}
        leaves.append(options["bias"])
    out = WAYS[way](*leaves[:3], **options)
    out.square().sum().backward()
    assert all(t.grad is not None for t in leaves)
    return out.detach(), *(t.grad for t in leaves if t.grad is not None)


@pytest.mark.parametrize("way", WAYS)
def test_msk_01_a_blind_row_beside_a_seeing_one(way: str) -> None:
    q, k = torch.eye(2)[None, None].requires_grad_(), torch.eye(2)[None, None]
    v, mask = torch.tensor([[1.0, 2], [3, 4]])[None, None], torch.tensor([[False, False], [True, True]])
    out = WAYS[way](q, k, v, mask)
    out.sum().backward()
    torch.testing.assert_close(out[0, 0], torch.tensor([[0, 0], [2.33952, 3.33952]]), atol=1e-5, rtol=0)
    assert q.grad is not None
    assert torch.equal(q.grad[0, 0, 0], torch.zeros(2))
    weights = attention_weights(q, k, mask)
    assert torch.equal(weights[0, 0, 0], torch.zeros(2))
    assert weights[0, 0, 1].sum().item() == pytest.approx(1)


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_msk_02_a_sample_of_length_0(way: str, dtype: torch.dtype) -> None:
    shape = (2, 3, 2, 4)
    mask = length_mask(torch.tensor([2, 0]), 2)
    torch.manual_seed(1)
    out, *grads = both(way, {"mask": mask}, shape, shape, shape, dtype=dtype)
    assert torch.equal(out[1], torch.zeros_like(out[1]))
    torch.manual_seed(1)
    plain, *expected = both(way, {}, shape, shape, shape, dtype=dtype)
    torch.testing.assert_close(out[0], plain[0])
    for grad, want in zip(grads, expected, strict=True):
        assert torch.equal(grad[1], torch.zeros_like(grad[1]))
        torch.testing.assert_close(grad[0], want[0])


@pytest.mark.parametrize("way", WAYS)
def test_msk_03_one_blind_head_of_three(way: str) -> None:
    q, k, v = (torch.randn(2, 3, 4, 5) for _ in range(3))
    mask = torch.tensor([True, False, True])[None, :, None, None].expand(2, 3, 4, 4)
    out = WAYS[way](q, k, v, mask)
    assert torch.equal(out[:, 1], torch.zeros(2, 4, 5))
    torch.testing.assert_close(out[:, [0, 2]], WAYS[way](q, k, v)[:, [0, 2]])
    assert torch.equal(attention_weights(q, k, mask)[:, 1], torch.zeros(2, 4, 4))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("kind", ["mask", "mask and bias", "bias of -inf", "causal before the keys", "mask and cap"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("wide", [4, 6])
def test_blind_rows_are_zero_with_every_option(way: str, kind: str, wide: int, dtype: torch.dtype) -> None:
    blind = torch.tensor([True, False, False, True, False])
    mask = ~blind[:, None] & torch.ones(5, 5, dtype=torch.bool).tril()
    bias = torch.randn(1, 4, 5, 5)
    options: dict[str, Any] = {
        "mask": {"mask": mask},
        "mask and bias": {"mask": mask, "bias": bias},
        "bias of -inf": {"bias": bias.masked_fill(~mask, -math.inf)},
        "causal before the keys": {"causal": True, "q_positions": torch.where(blind, -1, 3)},
        "mask and cap": {"mask": mask, "softcap": 1.0},
    }[kind]
    out, *grads = both(way, options, (2, 4, 5, 4), (2, 2, 5, 4), (2, 2, 5, wide), dtype=dtype)
    assert all(bool(t.isfinite().all()) for t in (out, *grads))
    for t in (out, grads[0]):
        assert torch.equal(t[:, :, blind], torch.zeros_like(t[:, :, blind]))
        assert bool((t[:, :, ~blind] != 0).any())
    if len(grads) == 4:
        assert torch.equal(grads[3][:, :, blind], torch.zeros_like(grads[3][:, :, blind]))


@pytest.mark.parametrize("way", WAYS)
def test_a_text_of_which_nothing_is_visible(way: str) -> None:
    shape = (1, 2, 3, 4)
    nothing = torch.zeros(3, 3, dtype=torch.bool)
    out, *grads = both(way, {"mask": nothing}, shape, shape, shape, dtype=torch.float32)
    assert not any(bool(t.any()) for t in (out, *grads))
