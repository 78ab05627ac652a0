"""One layer: two or three branches, each added to the residual."""

from collections.abc import Callable

from torch import Tensor, nn

from clearhead import config
from clearhead.model.attention import Attention, Where
from clearhead.model.cache import LayerCache
from clearhead.model.feed_forward import FeedForward
from clearhead.model.norm import Norm
from clearhead.tap import SILENT, Tap


class Residual(nn.Module):
    """x + f(x), with the norm where the layer wants it.

    pre: x + f(norm(x))    post: norm(x + f(x))    output: x + norm(f(x))    sandwich: x + norm(f(norm(x)))
    """

    def __init__(self, place: str, norm: Callable[[], Norm], dropout: float):
        super().__init__()
        self.before = norm() if place in ("pre", "sandwich") else nn.Identity()
        self.after = norm() if place in ("output", "sandwich") else nn.Identity()
        self.total = norm() if place == "post" else nn.Identity()
        self.dropout = nn.Dropout(dropout)

    def update(self, x: Tensor, f: Callable[[Tensor], Tensor], tap: Tap) -> Tensor:
        """What the branch adds to x."""
        return tap("out", self.dropout(self.after(f(self.before(x)))))

    def forward(self, x: Tensor, f: Callable[[Tensor], Tensor], tap: Tap) -> Tensor:
        return self.total(x + self.update(x, f, tap))


class Layer(nn.Module):
    """x [B, T, D] -> [B, T, D]."""

    def __init__(self, form: config.Layer, model: config.TransformerConfig):
        super().__init__()
        self.form = form
        dim, norm, drop = model.dim, model.norm, model.dropout

        def residual(place: str = form.norm_place) -> Residual:
            return Residual(place, lambda: Norm(norm, dim), drop)

        self.self_attention = Attention(form.self_attention, dim, norm, drop)
        self.self_residual = residual("none" if form.bare else form.norm_place)
        if form.cross_attention is not None:
            self.cross_attention = Attention(form.cross_attention, dim, norm, drop)
            self.cross_residual = residual()
        self.feed_forward = FeedForward(form.feed_forward, dim)
        self.feed_forward_residual = residual()

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None,
        own: Where,
        other: Where | None,
        cache: LayerCache | None = None,
        tap: Tap = SILENT,
    ) -> Tensor:
        """memory [B, K, D]: the encoder's states for cross-attention (None once they are cached)."""
        here, there, forward = tap.at("self"), tap.at("cross"), tap.at("feed_forward")

        def look_around(h: Tensor) -> Tensor:
            return self.self_attention(h, h, own, None if cache is None else cache.own, here)

        def look_across(h: Tensor) -> Tensor:
            return self.cross_attention(h, memory, other, None if cache is None else cache.cross, there)

        def think(h: Tensor) -> Tensor:
            return self.feed_forward(h, forward)

        if self.form.parallel:
            updates = [self.self_residual.update(x, look_around, here)]
            if other is not None:
                updates.append(self.cross_residual.update(x, look_across, there))
            updates.append(self.feed_forward_residual.update(x, think, forward))
            return tap("residual", x + sum(updates))
        x = self.self_residual(x, look_around, here)
        if other is not None:
            x = self.cross_residual(x, look_across, there)
        x = self.feed_forward_residual(tap("middle", x), think, forward)
        return tap("residual", x)
