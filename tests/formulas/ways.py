"""The ways through attention, each forced, and a plain NumPy form with every option, for comparison."""

from collections.abc import Callable
from inspect import unwrap
from typing import Any
from unittest import mock

import numpy as np
from torch import Tensor

from clearhead import reference
from clearhead.formulas import attention as module
from clearhead.tap import Tap


class Open(Tap):
    """As if somebody were to change scores or weights."""

    def opens(self) -> bool:
        return True


def _fused(*args: Any, **options: Any) -> Tensor:
    return module.attention(*args, **options)


def _open(*args: Any, **options: Any) -> Tensor:
    return module.attention(*args, **options, tap=Open())


def _blocks(q: Tensor, k: Tensor, *args: Any, **options: Any) -> Tensor:
    """A block for every query row, or for every 25 of many."""
    size = (1 if q.shape[2] < 25 else 25) * q.shape[0] * q.shape[1] * k.shape[2]
    with mock.patch.object(module, "BLOCK", size), mock.patch.object(module, "_fused", module._blocks):
        return module.attention(q, k, *args, **options)


def _whole_block(*args: Any, **options: Any) -> Tensor:
    with mock.patch.object(module, "_fused", module._blocks):
        return module.attention(*args, **options)


def _cut_triangle(*args: Any, **options: Any) -> Tensor:
    """A causal square two query rows at a time, with all that training keeps."""
    with mock.patch.object(module, "TRIANGLE", 2):
        return _whole_block(*args, **options)


WAYS: dict[str, Callable[..., Tensor]] = {
    "fused": _fused,
    "open": _open,
    "blocks": _blocks,
    "one block": _whole_block,
    "cut triangle": _cut_triangle,
}
unchecked = unwrap(module.attention)  # without jaxtyping's look at the shapes, as users run it
unchecked_weights = unwrap(module.attention_weights)


def visible(
    queries: int, keys: int, causal: bool, window: int | None, q_at: np.ndarray | None, k_at: np.ndarray | None
) -> np.ndarray:
    """[B or 1, 1, Q, K] by a double loop over positions."""
    k_at = np.arange(keys)[None] if k_at is None else np.atleast_2d(k_at)
    q_at = k_at[:, -queries:] if q_at is None and queries <= keys else q_at
    q_at = np.arange(keys - queries, keys)[None] if q_at is None else np.atleast_2d(q_at)
    batch = max(len(q_at), len(k_at))
    seen = np.ones((batch, 1, queries, keys), dtype=bool)
    for b in range(batch):
        for i, here in enumerate(q_at[b % len(q_at)]):
            for j, there in enumerate(k_at[b % len(k_at)]):
                late = causal and there > here
                far = window is not None and abs(int(there) - int(here)) >= window
                seen[b, 0, i, j] = not late and not far
    return seen


def plain(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    bias: Tensor | None = None,
    q_positions: Tensor | None = None,
    k_positions: Tensor | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Output and weights in NumPy float64: repeat the shared heads, then the lesson's lines."""
    share = q.shape[1] // k.shape[1]
    a, b, c = (t.detach().double().numpy() for t in (q, k, v))
    b, c = b.repeat(share, axis=1), c.repeat(share, axis=1)
    scores = a @ b.swapaxes(-1, -2) * (a.shape[-1] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * np.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.detach().double().numpy()
    at = [None if p is None else p.numpy() for p in (q_positions, k_positions)]
    seen = visible(a.shape[2], b.shape[2], causal, window, *at)
    if mask is not None:
        seen = seen & mask.numpy()
    weights = reference.softmax(np.where(seen, scores, -np.inf))
    return weights @ c, weights
