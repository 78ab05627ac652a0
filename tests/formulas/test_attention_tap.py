"""What a tap sees and changes inside attention, and dropout beside it."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.formulas.attention import attention, attention_weights
from clearhead.tap import Tap
from formulas.ways import WAYS


class Steps(Tap):
    """Keeps what passes, and doubles one site."""

    def __init__(self, doubled: str = ""):
        self.seen: dict[str, Tensor] = {}
        self.doubled = doubled
        self.products: list[Any] = []

    def opens(self) -> bool:
        return self.doubled in ("scores", "weights")

    def product(self, q: Any, k: Any, v: Any, weigh: Any) -> None:
        self.products.append((q, k, weigh))

    def __call__(self, site: str, value: Any) -> Any:
        self.seen[site] = value
        return value * 2 if site == self.doubled else value


def test_a_tap_sees_and_changes_each_step() -> None:
    q, k, v = (torch.randn(1, 2, 4, 3, dtype=torch.float64) for _ in range(3))
    out = attention(q, k, v, causal=True)
    closed = Steps()
    assert torch.equal(attention(q, k, v, causal=True, tap=closed), out)
    assert list(closed.seen) == ["heads"]
    opened = Steps("weights")
    torch.testing.assert_close(attention(q, k, v, causal=True, tap=opened), 2 * out)
    assert list(opened.seen) == ["scores", "weights", "heads"]
    torch.testing.assert_close(opened.seen["weights"], attention_weights(q, k, causal=True))
    hot = Steps("scores")
    torch.testing.assert_close(
        attention(q, k, v, causal=True, tap=hot), attention(q, k, v, causal=True, scale=2 / math.sqrt(3))
    )
    assert bool((opened.seen["scores"][..., 0, 1:] == -torch.inf).all())


def test_the_product_gives_any_row_of_weights_later() -> None:
    q, k, v = torch.randn(2, 4, 6, 3), torch.randn(2, 2, 6, 3), torch.randn(2, 2, 6, 3)
    bias, mask = torch.randn(1, 4, 6, 6), torch.rand(2, 1, 1, 6) < 0.7
    for options in ({"causal": True}, {"window": 2, "softcap": 0.5}, {"bias": bias, "mask": mask}):
        for opened in ("", "scores"):
            tap = Steps(opened)
            attention(q, k, v, **options, tap=tap)
            ((q_seen, k_seen, scoring),) = tap.products
            assert q_seen is q
            assert k_seen is k
            whole = attention_weights(q, k, **options)
            for rows in (slice(2, 4), slice(5, 6), slice(None)):
                torch.testing.assert_close(scoring.weights(q, k, rows), whole[:, :, rows], atol=1e-6, rtol=0)


@pytest.mark.parametrize("way", WAYS)
def test_dropout_is_on_the_weights_and_keeps_their_mean(way: str) -> None:
    q, k = torch.randn(1, 1, 50, 4), torch.randn(1, 1, 50, 4)
    v = torch.ones(1, 1, 50, 1)
    outs = torch.stack([WAYS[way](q, k, v, dropout=0.5) for _ in range(40)])
    assert outs.std() > 0.01
    assert outs.mean() == pytest.approx(1.0, abs=0.02)


def test_msk_11_weights_are_reported_before_dropout() -> None:
    q, k, v = (torch.randn(1, 2, 4, 3) for _ in range(3))
    tap = Steps("scores")
    attention(q, k, v, dropout=0.5, tap=tap)
    torch.testing.assert_close(tap.seen["weights"].sum(-1), torch.ones(1, 2, 4))


def test_blocks_draw_the_same_dropout_again_for_the_gradient() -> None:
    """Dropped weights give no gradient to their value; with v = 1 the output is the sum of the kept weights."""
    q, k = torch.randn(1, 1, 6, 4), torch.randn(1, 1, 6, 4)
    v = torch.ones(1, 1, 6, 1, requires_grad=True)
    out = WAYS["blocks"](q, k, v, dropout=0.5)
    out.sum().backward()
    assert v.grad is not None
    assert v.grad.sum().item() == pytest.approx(out.sum().item(), abs=1e-5)
