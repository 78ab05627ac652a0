"""The feed-forward branch: every bend, with and without a gate."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from clearhead import reference
from clearhead.formulas.feed_forward import activate, feed_forward
from clearhead.tap import Tap

BY_HAND = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * 0.5 * (1 + math.erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_activations_by_hand(kind: Any) -> None:
    x = torch.linspace(-6, 6, 49, dtype=torch.float64)
    expected = torch.tensor([BY_HAND[kind](v) for v in x.tolist()], dtype=torch.float64)
    torch.testing.assert_close(activate(x, kind), expected, atol=1e-12, rtol=0)


def test_the_two_gelus_differ_by_less_than_a_thousandth() -> None:
    x = torch.linspace(-6, 6, 200, dtype=torch.float64)
    difference = (activate(x, "gelu") - activate(x, "gelu_tanh")).abs().max()
    assert 1e-4 < difference < 1e-3


def test_feed_forward_is_the_reference() -> None:
    x, w1, b1, w2, b2 = (torch.randn(*s, dtype=torch.float64) for s in ((2, 3, 4), (4, 7), (7,), (7, 4), (4,)))
    got = feed_forward(x, lambda t: t @ w1 + b1, lambda t: t @ w2 + b2)
    expected = reference.feed_forward(*(t.numpy() for t in (x, w1, b1, w2, b2)))
    np.testing.assert_allclose(got, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", BY_HAND)
def test_the_gate_is_bent_and_the_other_half_is_not(kind: Any) -> None:
    x, up, gate, down = (torch.randn(*s, dtype=torch.float64) for s in ((3, 4), (4, 7), (4, 7), (7, 4)))
    got = feed_forward(x, lambda t: t @ up, lambda t: t @ down, lambda t: t @ gate, kind)
    torch.testing.assert_close(got, (activate(x @ gate, kind) * (x @ up)) @ down)


def test_the_tap_sees_and_changes_what_enters_the_last_map() -> None:
    class Double(Tap):
        def __call__(self, site: str, value: Any) -> Any:
            assert site == "hidden"
            return value * 2

    x, up, down = torch.randn(3, 4), torch.randn(4, 7), torch.randn(7, 4)
    plain = feed_forward(x, lambda t: t @ up, lambda t: t @ down)
    torch.testing.assert_close(feed_forward(x, lambda t: t @ up, lambda t: t @ down, tap=Double()), 2 * plain)
