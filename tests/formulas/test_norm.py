"""Norms: by hand, against the reference, and to the bit against the library whose checkpoints we run."""

import numpy as np
import pytest
import torch
from torch import nn
from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
from transformers.models.llama.modeling_llama import LlamaRMSNorm
from transformers.models.t5.modeling_t5 import T5LayerNorm

from clearhead import reference
from clearhead.formulas.norm import layer_norm, rms_norm, rms_plus_one_norm

TYPES = [torch.float32, torch.bfloat16]


def some(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """An input of uneven size and a gain."""
    return (torch.randn(4, 7, 33) * 3 + 1).to(dtype), torch.randn(33).to(dtype)


def test_layer_norm_is_the_reference() -> None:
    x, gain, shift = torch.randn(5, 9, dtype=torch.float64) * 4 + 2, *torch.randn(2, 9, dtype=torch.float64)
    expected = reference.layer_norm(x.numpy(), gain.numpy(), shift.numpy(), 1e-5)
    np.testing.assert_allclose(layer_norm(x, gain, shift, 1e-5), expected, atol=1e-12, rtol=0)
    np.testing.assert_allclose(layer_norm(x, gain, None, 1e-5), expected - shift.numpy(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [*TYPES, torch.float64], ids=str)
def test_layer_norm_is_bit_equal_to_torch(dtype: torch.dtype) -> None:
    x, gain = some(dtype)
    theirs = nn.LayerNorm(33, eps=1e-6, dtype=dtype)
    nn.init.normal_(theirs.bias)
    theirs.weight.data = gain
    assert torch.equal(layer_norm(x, gain, theirs.bias, 1e-6), theirs(x))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("kind", [LlamaRMSNorm, T5LayerNorm])
def test_rms_norm_is_bit_equal_to_the_oracle(kind: type[nn.Module], dtype: torch.dtype) -> None:
    x, gain = some(dtype)
    theirs = kind(33, eps=1e-6)
    theirs.weight = nn.Parameter(gain)
    ours = rms_norm(x, gain, 1e-6)
    assert ours.dtype == dtype
    assert torch.equal(ours, theirs(x))


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_rms_plus_one_norm_is_bit_equal_to_the_oracle(dtype: torch.dtype) -> None:
    x, gain = some(dtype)
    theirs = GemmaRMSNorm(33, eps=1e-6)
    theirs.weight = nn.Parameter(gain)
    assert torch.equal(rms_plus_one_norm(x, gain, 1e-6), theirs(x))


def test_the_two_cast_orders_differ_in_bfloat16() -> None:
    x, gain = some(torch.bfloat16)
    assert not torch.equal(rms_plus_one_norm(x, gain, 1e-6), rms_norm(x, 1 + gain, 1e-6))


def test_num_04_a_stored_gain_of_0_means_1() -> None:
    x = torch.tensor([[3.0, 4.0]])
    assert rms_plus_one_norm(x, torch.zeros(2), 0.0)[0].tolist() == pytest.approx([0.84853, 1.13137], abs=5e-6)
    assert rms_norm(x, torch.ones(2), 0.0)[0].tolist() == pytest.approx([0.84853, 1.13137], abs=5e-6)
    assert not rms_norm(x, torch.zeros(2), 0.0).any()


def test_norms_keep_float64() -> None:
    x, gain = torch.randn(2, 3, 8, dtype=torch.float64), torch.randn(8, dtype=torch.float64)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(rms_norm(x, gain, 1e-6), expected * gain, atol=1e-12, rtol=0)
    torch.testing.assert_close(rms_plus_one_norm(x, gain, 1e-6), expected * (1 + gain), atol=1e-12, rtol=0)
