"""Norms over the last axis. What is computed in which type is part of the formula: bf16 checkpoints depend on it."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def layer_norm(
    x: Float[Tensor, "*B D"], gain: Float[Tensor, "D"], shift: Float[Tensor, "D"] | None, eps: float
) -> Float[Tensor, "*B D"]:
    """(x - mean) / sqrt(variance + eps) * gain + shift (Ba et al. 2016). The kernel sums in float32 inside."""
    return F.layer_norm(x, x.shape[-1:], gain, shift, eps)


def rms_norm(x: Float[Tensor, "*B D"], gain: Float[Tensor, "D"], eps: float) -> Float[Tensor, "*B D"]:
    """x / sqrt(mean(x^2) + eps) * gain (Zhang & Sennrich 2019).

    Normalised in float32 or wider, cast back to x's type, and only then multiplied by the gain.
    """
    return gain * _normalised(x, eps).to(x.dtype)


def rms_plus_one_norm(x: Float[Tensor, "*B D"], gain: Float[Tensor, "D"], eps: float) -> Float[Tensor, "*B D"]:
    """x / sqrt(mean(x^2) + eps) * (1 + gain): stored gains are around 0.

    Multiplied in float32 or wider, cast back last.
    """
    wide = _normalised(x, eps)
    return (wide * (1.0 + gain.to(wide.dtype))).to(x.dtype)


def _normalised(x: Tensor, eps: float) -> Tensor:
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
