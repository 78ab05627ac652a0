"""Attention with its four projections: queries from x, keys and values from y."""

import math
from typing import NamedTuple

from torch import Tensor, nn

from clearhead import config
from clearhead.formulas.attention import Scoring, attend
from clearhead.formulas.mask import Visible
from clearhead.formulas.position import DistanceBias, rotate
from clearhead.model.cache import Store
from clearhead.model.norm import Norm
from clearhead.tap import SILENT, Tap


class Where(NamedTuple):
    """Everything about positions that one attention needs; worked out once per stack and shared by its layers."""

    visible: Visible
    angles: tuple[Tensor, Tensor] | None = None  # cosine and sine of the new tokens, [T R] or [B T R]
    bias: Tensor | DistanceBias | None = None  # [B H Q K] or what broadcasts to it


class Attention(nn.Module):
    """x [B, Q, D], y [B, K, D] -> [B, Q, D]. Self-attention is y = x."""

    def __init__(self, form: config.Attention, dim: int, norm: config.Norm, dropout: float):
        super().__init__()
        width = form.width(dim)
        self.form, self.width, self.dropout = form, width, dropout
        self.q = nn.Linear(dim, form.heads * width, bias="q" in form.bias)
        self.k = nn.Linear(dim, form.groups * width, bias="k" in form.bias)
        self.v = nn.Linear(dim, form.groups * width, bias="v" in form.bias)
        self.o = nn.Linear(form.heads * width, dim, bias="o" in form.bias)
        sizes = (form.heads * width, form.groups * width) if form.qk_norm == "width" else (width, width)
        self.q_norm, self.k_norm = (Norm(norm, size) if form.qk_norm else None for size in sizes)
        self.scale = 1 / math.sqrt(width) if form.scale is None else form.scale

    def forward(self, x: Tensor, y: Tensor | None, where: Where, store: Store | None, tap: Tap = SILENT) -> Tensor:
        """`store` holds earlier keys and values; y = None: it holds all of them."""
        q = tap("q", self._turned(self._normed(self.q(x), self.q_norm), where))
        if y is not None:
            k = tap("k", self._turned(self._normed(self.k(y), self.k_norm), where))
            v = tap("v", self._split(self.v(y)))
            k, v = (k, v) if store is None else store.extend(k, v)
        else:
            assert store is not None, "without y the keys must be stored"
            k, v = store.all()
        scoring = Scoring(where.visible, self.scale, self.form.softcap, where.bias)
        heads = attend(q, k, v, scoring, self.dropout if self.training else 0.0, tap)  # [B H Q E]
        return self.o(heads.transpose(1, 2).flatten(2))

    def _split(self, projected: Tensor) -> Tensor:
        """[B T H*E] -> [B H T E]."""
        return projected.unflatten(-1, (-1, self.width)).transpose(1, 2)

    def _normed(self, projected: Tensor, norm: Norm | None) -> Tensor:
        """Split into heads, with the norm before (over all heads together) or after (over each)."""
        if norm is None:
            return self._split(projected)
        return self._split(norm(projected)) if self.form.qk_norm == "width" else norm(self._split(projected))

    def _turned(self, heads: Tensor, where: Where) -> Tensor:
        if where.angles is None or self.form.rotary is None:
            return heads
        return rotate(heads, *where.angles, self.form.rotary.layout)
