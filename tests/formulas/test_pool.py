"""One vector for a text: against NumPy, and whatever the padding."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.formulas.pool import pool

KINDS = ("first", "last", "mean", "max")
X = torch.arange(24.0, dtype=torch.float64).view(2, 4, 3).sin() - 2  # below 0, so that a 0 in the padding would win


@pytest.mark.parametrize("kind", KINDS)
def test_without_padding(kind: str) -> None:
    x = X.numpy()
    expected = {"first": x[:, 0], "last": x[:, -1], "mean": x.mean(1), "max": x.max(1)}[kind]
    np.testing.assert_allclose(pool(X, kind), expected, rtol=1e-15)


@pytest.mark.parametrize("kind", KINDS)
@given(st.lists(st.booleans(), min_size=4, max_size=4))
def test_what_is_not_kept_is_as_if_it_were_not_there(kind: str, kept: list[bool]) -> None:
    keep = torch.tensor([kept, [True] * 4])
    x = X.masked_fill(~keep[..., None], torch.nan)
    found = pool(x, kind, keep)
    expected = pool(X[:1, kept], kind) if any(kept) else torch.zeros(1, 3)
    np.testing.assert_allclose(found[:1], expected, rtol=1e-15)
    np.testing.assert_allclose(found[1:], pool(X[1:], kind), rtol=1e-15)


def test_a_text_of_which_nothing_is_kept_gives_zeros_and_no_gradient() -> None:
    for kind in KINDS:
        x = X.clone().requires_grad_()
        pool(x, kind, torch.zeros(2, 4, dtype=torch.bool)).sum().backward()
        assert x.grad is not None
        assert not x.grad.any()


def test_a_mean_in_bfloat16_is_the_rounded_mean() -> None:
    x = torch.full((1, 1001, 1), 1.0, dtype=torch.bfloat16)
    x[0, 0] = 4.0
    assert pool(x, "mean").item() == torch.tensor(1004 / 1001).bfloat16().item()
