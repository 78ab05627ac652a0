"""What positions do to a stack: rows that are added, biases by distance, angles of rotation."""

import torch
from torch import Tensor, nn

from clearhead import config
from clearhead.formulas.attention import BLOCK
from clearhead.formulas.position import (
    DistanceBias,
    banded_rates,
    linear_rates,
    longrope_rates,
    rotary_rates,
    sinusoidal_positions,
    yarn_factor,
    yarn_rates,
)
from clearhead.model.places import Places
from clearhead.model.table import Table


class PositionTable(nn.Module):
    """positions [..., T] -> [..., T, D]: rows of a learned table, or sinusoids."""

    def __init__(self, form: config.Positions, dim: int):
        super().__init__()
        self.form, self.dim = form, dim
        rows = (form.count or 0) + form.offset
        self.table = Table(rows, dim) if form.kind == "learned" else None

    def forward(self, positions: Tensor, dtype: torch.dtype) -> Tensor:
        if self.table is not None:
            return self.table(positions + self.form.offset).to(dtype)
        assert self.form.kind != "learned"
        return sinusoidal_positions(positions + self.form.offset, self.dim, self.form.kind, dtype)


class RelativeBias(nn.Module):
    """One number per bucket of distance and head, [B or 1, H, Q, K]; one table for the whole stack.

    Written down once for all layers, or handed on as a rule where that would take too much memory.
    """

    def __init__(self, form: config.RelativeBias, heads: int):
        super().__init__()
        self.form = form
        self.table = Table(form.buckets, heads)

    def forward(self, places: Places) -> Tensor | DistanceBias:
        form = self.form
        bias = DistanceBias(self.table.weight, places.q, places.k, form.max_distance, form.bidirectional)
        return bias if bias.entries > BLOCK and not torch.compiler.is_compiling() else bias.block()


def angles(form: config.Rotary, width: int, places: Places) -> tuple[Tensor, Tensor]:
    """Cosine and sine [..., T, R] by which the pairs of a head turn at the new tokens' positions."""
    turned = int(width * form.fraction)
    rates = rotary_rates(turned, form.theta, places.q.device)
    factor = 1.0
    match form.scaling:
        case config.Linear(factor=by):
            rates = linear_rates(rates, by)
        case config.Bands() as s:
            rates = banded_rates(rates, s.factor, s.low, s.high, s.length)
        case config.Yarn() as s:
            rates = yarn_rates(rates, form.theta, s.factor, s.length, s.fast, s.slow, s.truncate)
            factor = yarn_factor(s.factor) if s.attention_factor is None else s.attention_factor
        case config.LongRope() as s:
            rates = longrope_rates(turned, form.theta, s.short, s.long, s.length, places.lengths())
            factor = s.attention_factor
        case None:
            pass
    angle = places.q.unsqueeze(-1).float() * rates
    return angle.cos() * factor, angle.sin() * factor


def outgrown(form: config.Stack, places: Places) -> bool:
    """Whether the new tokens make a text so long that its cached tokens turn by other angles from now on (LongRope).

    Then the cached keys and values, and all that follows from them, are those of another text.
    """
    turns = {layer.self_attention.rotary for layer in form.layers} - {None}
    limits = {turn.scaling.length for turn in turns if turn and isinstance(turn.scaling, config.LongRope)}
    whole = places.k.shape[-1]
    past = whole - places.q.shape[-1]
    if not limits or not past:
        return False
    if places.aligned:
        return any(past <= limit < whole for limit in limits)
    before, now = places.k[..., :past].amax(-1) + 1, places.k.amax(-1) + 1
    return any(bool(((before <= limit) & (now > limit)).any()) for limit in limits)
