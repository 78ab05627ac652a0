"""Keys and values of the tokens already seen. Passed in and handed back, never an attribute of the model."""

import torch
from torch import Tensor


class Store:
    """Keys and values of one attention, [B, G, tokens, E] each, in buffers that double when they are full."""

    def __init__(self) -> None:
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Append; all keys and all values."""
        end = self.length + k.shape[2]
        self._keys = _written(self._keys, k, self.length)
        self._values = _written(self._values, v, self.length)
        self.length = end
        return self.all()

    def all(self) -> tuple[Tensor, Tensor]:
        """Everything stored so far."""
        if self._keys is None or self._values is None:
            raise ValueError("the cache is empty; run the model on the first tokens with it")
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may be kept several times."""
        if self._keys is not None and self._values is not None:
            self._keys, self._values = self._keys[rows], self._values[rows]


def _written(buffer: Tensor | None, new: Tensor, start: int) -> Tensor:
    """The buffer with `new` at `start`, grown if needed. With gradients a fresh tensor: no write in place."""
    end = start + new.shape[2]
    if buffer is None:
        return new
    if torch.is_grad_enabled():
        return torch.cat([buffer[:, :, :start], new], dim=2)
    if buffer.shape[2] < end:
        room = new.new_empty(*new.shape[:2], max(2 * start, end), new.shape[3])
        room[:, :, :start] = buffer[:, :, :start]
        buffer = room
    buffer[:, :, start:end] = new
    return buffer


class LayerCache:
    """What one layer keeps: its own tokens, and (in a decoder beside an encoder) the encoder's."""

    def __init__(self) -> None:
        self.own = Store()
        self.cross = Store()


class Cache:
    """Start with `Cache()`, pass it with each call: `model(new_ids, cache=cache)` sees all tokens given so far.

    Cached and uncached results are equal (to 1e-10 in float64), token by token or in chunks. Where longer texts turn
    by other angles (config.LongRope), the call that makes a text so long reads all of it again, and its result is that
    of an uncached call on all tokens so far; what earlier calls gave were the results of the shorter text.
    """

    def __init__(self) -> None:
        self.length = 0  # tokens seen
        self.ids: Tensor | None = None  # [B, length]
        self.positions: Tensor | None = None  # [B, length] once they are not just 0, 1, 2, ...
        self.keep: Tensor | None = None  # [B, length] boolean, False = padding; likewise
        self._layers: list[LayerCache] = []

    def layer(self, index: int) -> LayerCache:
        """The part that belongs to layer `index`, without what a call that raised may have begun to store."""
        while len(self._layers) <= index:
            self._layers.append(LayerCache())
        layer = self._layers[index]
        layer.own.length = self.length
        layer.cross.length = layer.cross.length if self.length else 0
        return layer

    def advance(self, ids: Tensor, positions: Tensor | None, keep: Tensor | None) -> None:
        """Count these ids [B, T] as seen; called once their keys and values are stored."""
        self.ids = ids if self.ids is None else torch.cat([self.ids, ids], dim=1)
        self.positions, self.keep = positions, keep
        self.length += ids.shape[1]

    def become(self, other: "Cache") -> None:
        """Hold what the other holds."""
        vars(self).update(vars(other))

    def select(self, rows: Tensor) -> None:
        """Keep these rows of the batch, in this order; a row may be kept several times."""
        for layer in self._layers:
            layer.cross.select(rows)
        self.reorder(rows)

    def reorder(self, rows: Tensor) -> None:
        """The same for rows that take each other's place among those that read the same source, whose keys stay."""
        for layer in self._layers:
            layer.own.select(rows)
        for name in ("ids", "positions", "keep"):
            value = getattr(self, name)
            setattr(self, name, None if value is None else value[rows])
