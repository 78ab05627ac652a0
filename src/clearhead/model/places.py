"""Where the tokens of a call stand: one place from which masks, rotations, biases and table rows all follow."""

from typing import NamedTuple

import torch
from torch import Tensor

from clearhead.formulas.attention import BLOCK
from clearhead.formulas.mask import Visible
from clearhead.model.cache import Cache
from clearhead.model.inputs import Sound, Text


class Places(NamedTuple):
    """Positions of the new tokens and of all tokens they may look at."""

    q: Tensor  # [T] or [B T]
    k: Tensor  # [K] or [B K]; K counts the cached tokens too
    keep: Tensor | None  # [B K] boolean, False = padding; None: no padding
    documents: Tensor | None  # [B T] in packed rows, which document a token belongs to
    aligned: bool  # positions are just 0, 1, 2, ...

    def visible(self, causal: bool, window: int | None) -> Visible:
        """Which of all tokens each new token may see."""
        mask = None if self.keep is None else self.keep[:, None, None, :]
        rule = Visible(self.q, self.k, causal, window, mask, self.documents, self.documents, self.aligned)
        return rule.settled(BLOCK)

    def lengths(self) -> Tensor:
        """How long, by its last position, the text is that each new token belongs to: [1], [B 1] or, packed, [B T]."""
        if self.documents is None:
            return self.q.amax(-1, keepdim=True) + 1
        last = torch.zeros_like(self.q).scatter_reduce(1, self.documents, self.q, "amax")
        return last.gather(1, self.documents) + 1

    def across(self, keep: Tensor | None, keys: int) -> Visible:
        """Cross-attention: every new token sees every token of the other text that is not padding."""
        k = torch.arange(keys, device=self.q.device)
        return Visible(self.q, k, mask=None if keep is None else keep[:, None, None, :]).settled(BLOCK)


def places(text: Text | Sound, cache: Cache | None) -> Places:
    """Positions from the padding mask, the cache and, if given, the text's own `positions` [B, T].

    Positions go on where those of the cache end. With padding they count the tokens that are there, so that a sample
    gets the same positions wherever its padding stands. Given positions that start again within a row mark
    packed documents, which do not see each other. Sound has no padding: silence is heard.
    """
    if isinstance(text, Sound):
        k = torch.arange(text.length, device=text.frames.device)
        return Places(k, k, None, None, True)
    ids, positions = text.ids, text.positions
    batch, new = ids.shape
    past = 0 if cache is None else cache.length
    keep = _keep(text, past, cache)
    stored = None if cache is None else cache.positions
    if keep is None and positions is None and stored is None:
        k = torch.arange(past + new, device=ids.device)
        return Places(k[past:], k, None, None, True)
    documents = None
    if stored is None:
        stored = torch.arange(past, device=ids.device).expand(batch, past)
    if positions is None:
        counted = torch.ones(batch, past + new, dtype=torch.bool, device=ids.device) if keep is None else keep
        before = torch.nn.functional.pad(stored.masked_fill(~counted[:, :past], -1), (1, 0), value=-1)
        q = (before.amax(1, keepdim=True) + counted[:, past:].long().cumsum(1)).clamp(min=0)
    else:
        q = positions.expand(batch, new)
        if cache is None:
            restarts = torch.nn.functional.pad(q.diff(dim=1) <= 0, (1, 0))
            documents = restarts.long().cumsum(1)
    return Places(q, torch.cat([stored, q], dim=1), keep, documents, False)


def _keep(text: Text, past: int, cache: Cache | None) -> Tensor | None:
    """[B, past + T] boolean from a mask of the new tokens or of all; None if nothing is padding."""
    earlier = None if cache is None else cache.keep
    if text.mask is None and earlier is None:
        return None
    new = torch.ones_like(text.ids, dtype=torch.bool) if text.mask is None else text.mask != 0
    if past and new.shape[1] == text.ids.shape[1]:
        before = new.new_ones(len(new), past) if earlier is None else earlier
        new = torch.cat([before, new], dim=1)
    # An attention mask of ones is no mask, and no mask is the fastest path. The look costs next to nothing on a CPU.
    if not torch.compiler.is_compiling() and bool(new.all()):
        return None
    return new
