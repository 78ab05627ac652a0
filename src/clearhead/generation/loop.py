"""Greedy choice and sampling: one token per text and step."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from clearhead.generation.choose import adjust, pick
from clearhead.generation.options import Options
from clearhead.generation.prompt import Prompt, prepare
from clearhead.generation.stop import Stop, specials
from clearhead.model.cache import Cache
from clearhead.model.transformer import Output, Transformer


class Progress:
    """A model on its way through R texts: `logits()` says what may come next, `append` goes on by one token each."""

    def __init__(self, model: Transformer, prompt: Prompt, use_cache: bool = True):
        self.model = model
        self.ids, self.keep, self.encoded, self.source_keep = prompt
        self.cache = Cache() if use_cache else None
        self._logits: Tensor | None = None

    def logits(self) -> Tensor:
        """[R, V], in at least float32. The model reads only what it has not read yet."""
        if self._logits is None:
            new = self.ids[:, 0 if self.cache is None else self.cache.length :]
            if self.encoded is None:
                out: Output = self.model(new, self.keep, cache=self.cache)
            else:
                source = {"attention_mask": self.source_keep, "encoder_hidden": self.encoded}
                out = self.model(decoder_input_ids=new, cache=self.cache, **source)
            assert out.logits is not None, "prepare has looked"
            logits = out.logits[torch.arange(len(new), device=new.device), self._last(new.shape[1])]
            self._logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return self._logits

    def append(self, tokens: Tensor) -> None:
        """One more token [R] for each text."""
        self.ids = torch.cat([self.ids, tokens[:, None]], dim=1)
        if self.keep is not None:
            self.keep = torch.cat([self.keep, self.keep.new_ones(len(tokens), 1)], dim=1)
        self._logits = None

    def select(self, rows: Tensor) -> None:
        """Go on with these texts, in this order; a text may be kept several times."""
        self._keep(rows, "ids", "keep", "encoded", "source_keep", "_logits")
        if self.cache is not None:
            self.cache.select(rows)

    def reorder(self, rows: Tensor) -> None:
        """The same for texts that take each other's place among those of one prompt: its source stays where it is."""
        self._keep(rows, "ids", "keep", "_logits")
        if self.cache is not None:
            self.cache.reorder(rows)

    def repeat(self, times: int) -> None:
        """Read the prompts once, then go on with so many copies of each."""
        self.logits()
        if times > 1:
            self.select(torch.arange(len(self.ids), device=self.ids.device).repeat_interleave(times))

    def _keep(self, rows: Tensor, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            setattr(self, name, None if value is None else value[rows])

    def _last(self, new: int) -> Tensor | int:
        """Where, among the newest columns, each text's last token stands: padding may follow a prompt."""
        if self.keep is None:
            return -1
        return new - 1 - self.keep[:, -new:].flip(1).int().argmax(1)


@torch.no_grad()
def begin(
    model: Transformer, input_ids: Tensor | None, attention_mask: Tensor | None, options: Options
) -> tuple[Progress, Stop]:
    """All checks, and the encoder's run."""
    special = specials(model, options)
    prompt = prepare(model, input_ids, attention_mask, options, special)
    return Progress(model, prompt, options.use_cache), special.stop(options)


@torch.no_grad()
def steps(progress: Progress, stop: Stop, options: Options) -> Iterator[Tensor]:
    """Each step's new tokens [R], pad for a text that has ended, until all have."""
    progress.repeat(options.num_return_sequences)
    going = torch.ones(len(progress.ids), dtype=torch.bool, device=progress.ids.device)
    for written in range(stop.most):
        logits = adjust(progress.logits(), options, progress.ids, progress.keep, stop, written)
        tokens = torch.where(going, pick(logits, options), stop.pad)
        progress.append(tokens)
        going = going & ~stop.ended(tokens)
        yield tokens
        if not bool(going.any()):
            return


def stream(
    model: Transformer, input_ids: Tensor | None = None, attention_mask: Tensor | None = None, **options: Any
) -> Iterator[Tensor]:
    """The new ids step by step, [B] each: what `generate` would return, while it is being written.

    Options as in `generate`, without beams. Raises ValueError, at once, as `generate` does.
    """
    chosen = Options(**options)
    if chosen.num_beams > 1:
        raise ValueError(f"num_beams is {chosen.num_beams}, but beam search knows its text only at the end; use 1")
    return steps(*begin(model, input_ids, attention_mask, chosen), chosen)
