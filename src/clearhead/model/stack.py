"""A stack: embedding, layers, norms. An encoder, a decoder, or a decoder that looks across at an encoder."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from clearhead import config
from clearhead.model.attention import Where
from clearhead.model.audio import Convolutions
from clearhead.model.cache import Cache
from clearhead.model.inputs import Sound, Text
from clearhead.model.layer import Layer
from clearhead.model.norm import Norm
from clearhead.model.places import Places, places
from clearhead.model.position import PositionTable, RelativeBias, angles, outgrown
from clearhead.model.table import Table
from clearhead.tap import SILENT, Tap


class Memory(NamedTuple):
    """What a decoder sees of its encoder."""

    hidden: Tensor  # [B K D]
    keep: Tensor | None  # [B K] boolean, False = padding


class Stack(nn.Module):
    """ids [B, T], or frames of sound, -> hidden states [B, T, D]."""

    def __init__(self, form: config.Stack, model: config.TransformerConfig):
        super().__init__()
        self.form, self.dim = form, model.dim
        width = form.embedding_dim or model.dim
        self.embedding = Table(form.vocab, width) if form.audio is None else Convolutions(form.audio, width)
        self.positions = None if form.positions is None else PositionTable(form.positions, width)
        self.token_types = Table(form.token_types, width) if form.token_types else None
        self.norm_in = Norm(model.norm, width) if form.norm_in else nn.Identity()
        self.widen = nn.Linear(width, model.dim) if form.embedding_dim else nn.Identity()
        self.dropout = nn.Dropout(model.dropout)
        self.order = tuple(range(len(form.layers))) if form.shared is None else form.shared
        self.layers = nn.ModuleList(Layer(form.layers[self.order.index(i)], model) for i in sorted({*self.order}))
        self.norm_out = Norm(model.norm, model.dim) if form.norm_out else nn.Identity()
        heads = form.layers[0].self_attention.heads
        self.relative_bias = None if form.relative_bias is None else RelativeBias(form.relative_bias, heads)

    @property
    def table(self) -> Tensor:
        """One row for each token of the vocabulary, [V, D]. A stack that hears has none."""
        assert isinstance(self.embedding, Table)
        return self.embedding.weight

    def forward(
        self, given: Text | Sound, memory: Memory | None = None, cache: Cache | None = None, tap: Tap = SILENT
    ) -> Tensor:
        """With a cache, a text goes on where the cache ends, and is counted as seen afterwards."""
        here = places(given, cache)
        if cache is not None and isinstance(given, Text) and outgrown(self.form, here):
            return self._anew(given, here, memory, cache, tap)
        x = tap("embed", self.embed(given, here))
        across = None if memory is None else Where(here.across(memory.keep, memory.hidden.shape[1]))
        unseen = None if memory is None or (cache is not None and cache.length) else memory.hidden
        where = self._where(here)
        for i, weights in enumerate(self.order):
            kept = None if cache is None else cache.layer(i)
            x = self.layers[weights](x, unseen, where[i], across, kept, tap.at(str(i)))
        if cache is not None:
            assert isinstance(given, Text), "sound is not heard piece by piece"
            cache.advance(given.ids, None if here.aligned else here.k, here.keep)
        return tap("final", self.norm_out(x))

    def _anew(self, text: Text, here: Places, memory: Memory | None, cache: Cache, tap: Tap) -> Tensor:
        """The states of the new tokens, where what is cached is of no use any more: all tokens are read again."""
        assert cache.ids is not None, "there are cached tokens"
        ids, positions = torch.cat([cache.ids, text.ids], dim=1), None if here.aligned else here.k
        fresh = Cache()
        hidden = self(
            text._replace(given=ids, mask=here.keep, positions=positions), memory, fresh, tap.text("decoder", ids, None)
        )
        cache.become(fresh)
        return hidden[:, -text.ids.shape[1] :]

    def embed(self, given: Text | Sound, here: Places) -> Tensor:
        """What enters layer 0: embedding (scaled), positions, token types, norm, the model's width. [B, T, D]."""
        x = self.embedding(given.ids if isinstance(given, Text) else given.frames)
        if self.form.embedding_scale != 1.0:
            # In the weights' own type: a bf16 checkpoint was trained with the rounded factor.
            x = x * torch.tensor(self.form.embedding_scale, dtype=x.dtype, device=x.device)
        if self.positions is not None:
            x = x + self.positions(here.q, x.dtype)
        if self.token_types is not None:
            assert isinstance(given, Text), "the config has looked"
            x = x + self.token_types(torch.zeros_like(given.ids) if given.types is None else given.types)
        return self.widen(self.dropout(self.norm_in(x)))

    def _where(self, here: Places) -> list[Where]:
        """For each layer; layers of the same form share one."""
        bias = None if self.relative_bias is None else self.relative_bias(here)
        shared: dict[config.Attention, Where] = {}
        for form in (layer.self_attention for layer in self.form.layers):
            if form not in shared:
                turns = None if form.rotary is None else angles(form.rotary, form.width(self.dim), here)
                shared[form] = Where(here.visible(form.causal, form.window), turns, bias)
        return [shared[layer.self_attention] for layer in self.form.layers]
