"""The special tokens of a run, and when a text is over."""

from typing import NamedTuple

import torch
from torch import Tensor

from clearhead.generation.options import Options
from clearhead.model.transformer import Transformer


class Stop(NamedTuple):
    """A text ends with its first eos, but not before `least` new tokens, and at the latest with `most` of them."""

    eos: tuple[int, ...]
    pad: int  # what follows in a text that has ended
    least: int
    most: int
    banned: tuple[int, ...] = ()  # never written
    late: tuple[int, ...] = ()  # never written first
    forced: int | None = None  # the first, whatever the model says

    def forbidden(self, written: int) -> list[int]:
        """The tokens that may not come next when `written` new ones stand."""
        first = written == (0 if self.forced is None else 1)
        return [*self.banned, *(self.late if first else ()), *(self.eos if written < self.least else ())]

    def ended(self, tokens: Tensor) -> Tensor:
        """Boolean, of the same shape: which of these tokens end a text."""
        return torch.isin(tokens, torch.tensor(self.eos, dtype=tokens.dtype, device=tokens.device))

    def lengths(self, new: Tensor) -> Tensor:
        """[R]: how many of the new tokens [R, T] belong to each text, its eos included."""
        ends = self.ended(new).int()
        return torch.where(ends.any(1), ends.argmax(1) + 1, new.shape[1])


class Specials(NamedTuple):
    """Special token ids, from the options, else from the config, else from the tokenizer."""

    eos: tuple[int, ...]
    pad: int | None  # what may stand for padding in a prompt
    bos: int | None
    start: int | None  # first token of a decoder beside an encoder
    own_pad: int | None  # the model's, whatever the options say

    def stop(self, options: Options) -> Stop:
        """Where these texts end. The model's padding is never written: it is no token of a text, unless it is an eos.

        A text that has ended is filled up with pad, or else with the first eos.
        """
        pad = next(i for i in (self.pad, *self.eos, 0) if i is not None)
        own = () if self.own_pad is None or self.own_pad in self.eos else (self.own_pad,)
        return Stop(
            self.eos,
            pad,
            options.min_new_tokens,
            options.max_new_tokens,
            (*own, *options.suppress_tokens),
            tuple(options.begin_suppress_tokens),
            options.forced_bos_token_id,
        )


def specials(model: Transformer, options: Options) -> Specials:
    """Raises ValueError for an id beyond the vocabulary that the model writes in."""
    config, tokenizer = model.config, model.tokenizer
    named = (None, None, None) if tokenizer is None else (tokenizer.eos, tokenizer.pad, tokenizer.bos)
    if options.eos_token_id is None:  # a text ends where either of them says so
        eos = [*config.eos_ids, *(i for i in named[:1] if i is not None and i not in config.eos_ids)]
    else:
        eos = [options.eos_token_id] if isinstance(options.eos_token_id, int) else options.eos_token_id
    own_pad = _first(config.pad, named[1])
    bos = _first(config.bos, named[2])
    start = _first(options.decoder_start_token_id, config.start, bos)
    found = Specials(tuple(eos), _first(options.pad_token_id, own_pad), bos, start, own_pad)
    given = [("eos_token_id", i) for i in found.eos]
    given += [("pad_token_id", found.pad), ("bos", bos), ("decoder_start_token_id", start)]
    given += [("forced_bos_token_id", options.forced_bos_token_id)]
    given += [(name, i) for name in ("suppress_tokens", "begin_suppress_tokens") for i in getattr(options, name)]
    vocab = model.last.form.vocab
    for name, i in given:
        if i is not None and not 0 <= i < vocab:
            raise ValueError(f"{name} is {i}, but the vocabulary has {vocab} tokens (0 to {vocab - 1})")
    return found


def _first(*ids: int | None) -> int | None:
    return next((i for i in ids if i is not None), None)
