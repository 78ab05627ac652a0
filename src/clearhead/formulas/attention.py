"""Scaled dot-product attention: one formula, three ways to compute it, chosen in one place.

Source: Vaswani et al. 2017, section 3.2.1. Grouped key/value heads: Ainslie et al. 2023. Soft cap: Gemma Team 2024.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from clearhead.formulas.mask import Visible, check_mask
from clearhead.formulas.position import DistanceBias
from clearhead.tap import SILENT, Tap

# Scores that one block of query rows may hold, and masks that may be worked out whole: 2^24 numbers, 64 MB in float32.
BLOCK = 2**24
# Query rows of one block of a causal square: each reads only the keys up to its last row. Measured at 256 and 384 keys.
TRIANGLE = 128


@dataclass(frozen=True, eq=False)
class Scoring:
    """From queries and keys to weights: everything of attention that comes before the values."""

    visible: Visible
    scale: float
    softcap: float | None = None
    bias: Tensor | DistanceBias | None = None  # added to the scores; broadcasts to [B H Q K]

    def scores(self, q: Tensor, k: Tensor, rows: slice = slice(None), keys: slice = slice(None)) -> Tensor:
        """[B H rows keys]: q k^T times scale, capped, biased, hidden keys at -inf."""
        scores = self.raw(q[:, :, rows], k[:, :, keys], rows, keys)
        seen = self.visible.rows(rows, keys)
        return scores if seen is None else scores.masked_fill(~seen, -torch.inf)

    def raw(self, q: Tensor, k: Tensor, rows: slice = slice(None), keys: slice = slice(None)) -> Tensor:
        """The scores of these queries and keys before any is hidden; q and k hold `rows` and `keys` only."""
        scores = by_group(q, k.mT) * self.scale
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        bias = self.added(rows, keys)
        return scores if bias is None else scores + bias.to(scores.dtype)

    def added(self, rows: slice = slice(None), keys: slice = slice(None)) -> Tensor | None:
        """The bias of these queries and keys."""
        if self.bias is None or isinstance(self.bias, DistanceBias):
            return None if self.bias is None else self.bias.block(rows, keys)
        bias = self.bias if self.bias.shape[-1] == 1 else self.bias[..., keys]
        return bias if bias.shape[-2] == 1 else bias[..., rows, :]

    def weights(self, q: Tensor, k: Tensor, rows: slice = slice(None), keys: slice = slice(None)) -> Tensor:
        """[B H rows keys]: each row sums to 1, or to 0 if the query may see nothing. `keys` holds all it may see."""
        complete = self.visible.complete and self.bias is None
        return softmax(self.scores(q, k, rows, keys), complete=complete)


def softmax(scores: Float[Tensor, "*B Q K"], complete: bool = False) -> Float[Tensor, "*B Q K"]:
    """Softmax over the keys; the kernel sums in float32 or wider. A row of nothing but -inf gives zeros, also as
    gradients. `complete` promises that no such row exists and saves the look.
    """
    if complete:
        return scores.softmax(-1)
    blind = (scores == -torch.inf).all(-1, keepdim=True)  # [B H Q 1] rows that see nothing
    return scores.masked_fill(blind, 0.0).softmax(-1).masked_fill(blind, 0.0)


def by_group(left: Tensor, right: Tensor) -> Tensor:
    """left [B H M N] @ right [B G N P] -> [B H M P], where H / G neighbouring heads share one right matrix.

    left heads   0   1   2   3   4   5
                  \\ | /       \\ | /
    right heads     0           1
    """
    batch, heads, rows, inner = left.shape
    groups = right.shape[1]
    if groups == heads:
        return left @ right
    stacked = left.reshape(batch, groups, rows * (heads // groups), inner)  # [B G H/G*M N]
    return (stacked @ right).view(batch, heads, rows, right.shape[-1])


def attend(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, dropout: float = 0.0, tap: Tap = SILENT) -> Tensor:
    """weights @ v, [B H Q E], without checks. Here the way is chosen.

    In the open if somebody will change scores or weights; row by row where the fused kernel has no form for it (a soft
    cap, a mask too large to write down) or is the slower one; else fused, which never writes the weights down.
    """
    tap.product(q, k, v, scoring)
    if tap.opens():
        out = _open(q, k, v, scoring, dropout, tap)
    elif scoring.softcap is not None or _too_large(scoring) or _fused_is_slower(q, k):
        out = _blocks(q, k, v, scoring, dropout)
    else:
        out = _fused(q, k, v, scoring, dropout)
    return tap("heads", out)


def _open(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, dropout: float, tap: Tap) -> Tensor:
    """The lesson's lines."""
    scores = tap("scores", scoring.scores(q, k))
    weights = tap("weights", softmax(scores))
    return by_group(F.dropout(weights, dropout), v)


def _blocks(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, dropout: float) -> Tensor:
    """The same lines on some query rows at a time, and the keys they can reach. Memory is O(n): where the scores would
    take too much of it, training recomputes each block's weights.
    """
    batch, heads, queries, _ = q.shape

    def block(rows: slice) -> Tensor:
        keys = slice(*scoring.visible.reach(rows)[:2])
        weights = scoring.weights(q, k, rows, keys)
        return by_group(F.dropout(weights, dropout), v[:, :, keys])

    room = max(1, BLOCK // max(1, batch * heads * k.shape[2]))
    step = min(room, TRIANGLE if scoring.visible.triangle else queries)
    if step >= queries:
        return block(slice(0, queries))
    rows = [slice(start, start + step) for start in range(0, queries, step)]
    if room < queries and torch.is_grad_enabled():
        return torch.cat([checkpoint(block, r, use_reentrant=False) for r in rows], dim=2)
    return torch.cat([block(r) for r in rows], dim=2)


def _fused(q: Tensor, k: Tensor, v: Tensor, scoring: Scoring, dropout: float) -> Tensor:
    """PyTorch's kernel, with the cheapest form of the mask: none, a causal flag, or a tensor."""
    triangle = scoring.visible.triangle and scoring.bias is None
    mask = None if triangle else scoring.visible.rows()
    if (bias := scoring.added()) is not None:
        bias = bias.to(q.dtype)
        mask = bias if mask is None else bias.masked_fill(~mask, -torch.inf)
    grouped = k.shape[1] != q.shape[1]
    return F.scaled_dot_product_attention(q, k, v, mask, dropout, triangle, scale=scoring.scale, enable_gqa=grouped)


def _too_large(scoring: Scoring) -> bool:
    """Whether the kernel would need a mask, or a bias, of more than BLOCK entries."""
    visible, bias = scoring.visible, scoring.bias
    if isinstance(bias, DistanceBias) and bias.entries > BLOCK:
        return True
    return not visible.triangle and visible.entries > BLOCK


def _fused_is_slower(q: Tensor, k: Tensor) -> bool:
    """Whether to write the weights down to save time: training in bf16 on a CPU, at short lengths.

    Measured, time of the fused kernel / of the open lines, forward and backward: 6 at 32 keys, 3 to 4 at 128, 1.7 to
    2.2 at 256, 1.0 (causal) to 2.3 at 512 (docs/numbers/attention.md). Without gradients the two are nearly as fast,
    and the fused kernel rounds less.
    """
    short = k.shape[2] <= 384 and q.shape[0] * q.shape[1] * q.shape[2] * k.shape[2] <= BLOCK
    return short and q.requires_grad and q.dtype is torch.bfloat16 and q.device.type == "cpu"


def attention(
    q: Float[Tensor, "B H Q E"],
    k: Float[Tensor, "B G K E"],
    v: Float[Tensor, "B G K Ev"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
    dropout: float = 0.0,
    q_positions: Int[Tensor, "..."] | None = None,
    k_positions: Int[Tensor, "..."] | None = None,
    tap: Tap = SILENT,
) -> Float[Tensor, "B H Q Ev"]:
    """softmax(q k^T * scale) v.

    q [B, H, Q, E]; k, v [B, G, K, E], where G divides H (grouped heads). mask: boolean, True = may attend, broadcasts
    to [B, H, Q, K]. causal: a query sees keys at positions up to its own. window: and less than this many positions
    away. scale: 1/sqrt(E) by default. softcap: scores become cap * tanh(scores / cap). bias: added to the scores.
    Positions, [Q] or [B, Q] and [K] or [B, K], drive causal and window; by default the queries are the last Q of the K
    positions. dropout: on the weights. A query that may see nothing gives zeros and zero gradients.

    Raises ValueError naming the argument, the numbers and the fix.
    """
    scoring = _scoring(q, k, mask, causal, window, scale, softcap, bias, q_positions, k_positions)
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v is {list(v.shape)}, but k is {list(k.shape)}; all but the last size must be equal")
    if not 0.0 <= dropout < 1.0:
        raise ValueError(f"dropout is {dropout}; it must be in [0, 1)")
    return attend(q, k, v, scoring, dropout, tap)


def attention_weights(
    q: Float[Tensor, "B H Q E"],
    k: Float[Tensor, "B G K E"],
    mask: Bool[Tensor, "..."] | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    bias: Float[Tensor, "..."] | None = None,
    q_positions: Int[Tensor, "..."] | None = None,
    k_positions: Int[Tensor, "..."] | None = None,
) -> Float[Tensor, "B H Q K"]:
    """The weights [B, H, Q, K] of `attention`, same arguments: each row sums to 1, or to 0 if it sees nothing."""
    return _scoring(q, k, mask, causal, window, scale, softcap, bias, q_positions, k_positions).weights(q, k)


def _scoring(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    causal: bool,
    window: int | None,
    scale: float | None,
    softcap: float | None,
    bias: Tensor | None,
    q_positions: Tensor | None,
    k_positions: Tensor | None,
) -> Scoring:
    """The arguments of `attention`, checked."""
    if q.dim() != 4 or k.dim() != 4:
        raise ValueError(
            f"q is {list(q.shape)} and k is {list(k.shape)}; expected [batch, heads, tokens, width]; "
            "for a single matrix add two sizes: q[None, None]"
        )
    if q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise ValueError(f"q is {list(q.shape)} and k is {list(k.shape)}; batch and width (first, last) must be equal")
    if k.shape[1] < 1 or q.shape[1] % k.shape[1]:
        raise ValueError(f"q has {q.shape[1]} heads and k has {k.shape[1]}; the first must be a multiple of the second")
    if window is not None and window < 1:
        raise ValueError(f"window is {window}; a query sees at least itself, so use 1 or more")
    if softcap is not None and softcap <= 0:
        raise ValueError(f"softcap is {softcap}; it must be positive, or None for no cap")
    if bias is not None and not bias.is_floating_point():
        raise ValueError(f"bias is {bias.dtype}; it is added to the scores: who may attend goes to `mask=`")
    whole = (q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    mask = None if mask is None else _fitting("mask", check_mask(mask), whole)
    bias = None if bias is None else _fitting("bias", bias, whole)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    queries, keys = q.shape[2], k.shape[2]
    if q_positions is None and k_positions is None:
        visible = Visible.last(queries, keys, causal=causal, window=window, mask=mask, device=q.device)
    else:
        own = torch.arange(keys, device=q.device) if k_positions is None else k_positions
        theirs = own[..., keys - queries :] if q_positions is None else q_positions
        for name, given, count in (("k_positions", own, keys), ("q_positions", theirs, queries)):
            if given.shape not in ((count,), (q.shape[0], count)):
                raise ValueError(
                    f"{name} is {list(given.shape)}; expected one for each token, [{count}] or [{q.shape[0]}, {count}]"
                )
        visible = Visible(theirs, own, causal, window, mask)
    return Scoring(visible, scale, softcap, bias)


def _fitting(name: str, given: Tensor, whole: tuple[int, ...]) -> Tensor:
    """`given` if it is 2-D or 4-D and broadcasts to [B H Q K]."""
    if given.dim() == 3:
        raise ValueError(
            f"{name} is {list(given.shape)}; with 3 sizes the first could mean batch or heads: "
            f"write {name}[:, None] for one per sample, {name}[None] for one per head"
        )
    sizes = whole[-given.dim() :]
    if given.dim() not in (2, 4) or any(a not in (1, b) for a, b in zip(given.shape, sizes, strict=True)):
        raise ValueError(
            f"{name} is {list(given.shape)}; it must broadcast to [batch, heads, queries, keys] {list(whole)}"
        )
    return given
