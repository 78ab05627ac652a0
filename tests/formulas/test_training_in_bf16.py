"""Training in bf16 at short lengths writes the weights down, because that is faster. It must be the same formula."""

from unittest import mock

import pytest
import torch
from torch import Tensor

from clearhead.formulas import attention as module
from clearhead.formulas.attention import BLOCK, attention
from clearhead.formulas.mask import Visible
from clearhead.tap import Tap


def inputs(keys: int = 40, dtype: torch.dtype = torch.bfloat16, training: bool = True) -> list[Tensor]:
    """As a model has them: heads split off a projection. [2 4 keys 8]."""
    seed = torch.Generator().manual_seed(keys)
    found = (torch.randn(2, keys, 4, 8, generator=seed).to(dtype).transpose(1, 2) for _ in range(3))
    return [x.requires_grad_(training) for x in found]


def fuses(q: Tensor, k: Tensor, v: Tensor, causal: bool = True) -> bool:
    with mock.patch.object(module, "_fused", wraps=module._fused) as fused:
        attention(q, k, v, causal=causal)
    return fused.called


def test_the_way_depends_on_type_length_and_training_only() -> None:
    assert not fuses(*inputs())
    assert not fuses(*inputs(384))
    assert fuses(*inputs(385))
    assert fuses(*inputs(dtype=torch.float32))
    assert fuses(*inputs(training=False))
    with torch.no_grad():
        assert fuses(*(x * 1 for x in inputs()))
    wide = torch.zeros(BLOCK // 384**2 + 1, 1, 384, 1, dtype=torch.bfloat16, requires_grad=True)
    assert fuses(wide, wide, wide)


@pytest.mark.parametrize("kind", ["full", "causal", "padded", "blind"])
def test_output_and_gradients_are_those_of_the_exact_formula(kind: str) -> None:
    mask = (
        None if kind in ("full", "causal") else torch.arange(40) < torch.tensor([[25], [0 if kind == "blind" else 40]])
    )
    mask = None if mask is None else mask[:, None, None, :]
    q, k, v = inputs()
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    goal = torch.randn(2, 4, 40, 8)
    out = attention(q, k, v, mask, causal=kind == "causal")
    true = attention(*exact, mask, causal=kind == "causal")
    torch.testing.assert_close(out.double(), true, atol=0.03, rtol=0.03)
    found = torch.autograd.grad(out, (q, k, v), goal.bfloat16())
    expected = torch.autograd.grad(true, exact, goal.bfloat16().double())
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a.double(), b, atol=0.06, rtol=0.06)
    if kind == "blind":
        assert not out[1].any()
        assert not any(gradient[1].any() for gradient in found)


def test_looking_changes_no_bit_while_training() -> None:
    class Look(Tap):
        seen = False

        def product(self, q: Tensor, k: Tensor, v: Tensor, weigh: object) -> None:
            self.seen = True

    q, k, v = inputs()
    look = Look()
    assert torch.equal(attention(q, k, v, causal=True, tap=look), attention(q, k, v, causal=True))
    assert look.seen


def test_a_settled_mask_knows_whether_every_query_sees_a_key() -> None:
    lengths = torch.tensor([[3], [1]])
    keep = (torch.arange(4) < lengths)[:, None, None, :]
    assert Visible.last(4, 4, mask=keep).settled(100).complete
    assert not Visible.last(4, 4, mask=keep).complete  # nobody has looked
    assert not Visible.last(4, 4, mask=keep & (lengths > 1)[:, None, None, :]).settled(100).complete
    left = keep.flip(-1)  # padding on the left: causal queries in it see nothing
    assert not Visible.last(4, 4, causal=True, mask=left).settled(100).complete
    assert Visible.last(4, 4, causal=True, mask=keep).settled(100).complete
    assert Visible.last(5, 3).settled(100).complete
