"""What positions do to a stack: rows that are added, biases by distance, angles of rotation."""

import torch
from torch import Tensor, nn

from clearhead import config
from clearhead.formulas.position import (
    banded_rates,
    linear_rates,
    relative_buckets,
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
    """One number per bucket of distance and head, [B or 1, H, Q, K]; one table for the whole stack."""

    def __init__(self, form: config.RelativeBias, heads: int):
        super().__init__()
        self.form = form
        self.table = Table(form.buckets, heads)

    def forward(self, places: Places) -> Tensor:
        form = self.form
        buckets = relative_buckets(places.q, places.k, form.buckets, form.max_distance, form.bidirectional)
        bias = self.table(buckets).movedim(-1, -3)  # [Q K H] -> [H Q K]
        return bias if bias.dim() == 4 else bias.unsqueeze(0)


def angles(form: config.Rotary, width: int, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Cosine and sine [..., T, R] by which the pairs of a head turn at these positions."""
    rates = rotary_rates(int(width * form.fraction), form.theta, positions.device)
    factor = 1.0
    match form.scaling:
        case config.Linear(factor=by):
            rates = linear_rates(rates, by)
        case config.Bands() as s:
            rates = banded_rates(rates, s.factor, s.low, s.high, s.length)
        case config.Yarn() as s:
            rates = yarn_rates(rates, form.theta, s.factor, s.length, s.fast, s.slow, s.truncate)
            factor = yarn_factor(s.factor) if s.attention_factor is None else s.attention_factor
        case None:
            pass
    angle = positions.unsqueeze(-1).float() * rates
    return angle.cos() * factor, angle.sin() * factor
