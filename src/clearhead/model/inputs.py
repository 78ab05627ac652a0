"""What a stack reads, and whether it can: every check that comes before compute."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from clearhead import config
from clearhead.formulas.mask import padding_mask
from clearhead.model.cache import Cache


class Text(NamedTuple):
    """A batch of token ids with what belongs to them."""

    name: str  # the argument that the ids came in, for messages
    given: Tensor | None  # [B T] int64
    mask: Tensor | None = None  # [B T], or with a cache [B, all tokens]: 1 = a token, 0 = padding
    positions: Tensor | None = None  # [B T] or [T], instead of those that follow from the mask
    types: Tensor | None = None  # [B T] token types (segments)

    @property
    def ids(self) -> Tensor:
        """The ids, once `check` has passed."""
        assert self.given is not None
        return self.given


class Sound(NamedTuple):
    """A batch of sounds, all of one length; what is short is filled up with silence."""

    given: Tensor | None  # [B bins frames], such as log-mel spectrograms

    name = "input_features"

    @property
    def frames(self) -> Tensor:
        """The numbers, once `check_sound` has passed."""
        assert self.given is not None
        return self.given

    @property
    def length(self) -> int:
        """Positions: one for two frames."""
        return (self.frames.shape[2] + 1) // 2


def check(text: Text, stack: config.Stack, cache: Cache | None = None) -> None:
    """ValueError, naming the argument, the numbers and the fix, if the text does not fit the stack.

    Values (not shapes) are looked at only outside a compiler: a look would break its graph.
    """
    name, past = text.name, 0 if cache is None else cache.length
    if text.given is None:
        raise ValueError(f"{name} is missing; this model reads it")
    ids = text.ids
    if ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"{name} is {ids.dtype} {list(ids.shape)}; expected int64 [batch, tokens]; one text: ids[None]"
        )
    batch, new = ids.shape
    if batch == 0 or new == 0:
        raise ValueError(f"{name} is {list(ids.shape)}: there are no tokens; give at least one, for instance bos")
    for what, given in (("attention_mask", text.mask), ("positions", text.positions), ("token_type_ids", text.types)):
        if given is not None and given.shape != ids.shape and given.shape != (new,):
            if what == "attention_mask" and given.shape == (batch, past + new):
                continue
            raise ValueError(f"{what} is {list(given.shape)}, but {name} is {list(ids.shape)}; give one for each token")
    if cache is not None and cache.ids is not None and len(cache.ids) != batch:
        raise ValueError(f"{name} has {batch} rows, but the cache holds {len(cache.ids)}; see Cache.select")
    if text.types is not None and not stack.token_types:
        raise ValueError("token_type_ids are given, but the stack has token_types 0; leave them out")
    check_ids(name, ids, stack.vocab)
    if torch.compiler.is_compiling():
        return
    if text.types is not None:
        check_ids("token_type_ids", text.types, stack.token_types)
    if text.positions is not None:
        _check_positions(text.positions, text.mask, cache)
    if text.mask is not None:
        padding_mask(text.mask)
    _check_length(text, stack, cache)
    if cache is not None and cache.ids is not None and text.positions is None:
        _check_new(name, ids, cache.ids)


def check_ids(name: str, ids: Tensor, count: int, hint: str = "was the text made by another tokenizer?") -> None:
    """ValueError unless 0 <= ids < count. Under a compiler nothing is looked at."""
    if torch.compiler.is_compiling():
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= count:
        raise ValueError(f"{name} holds {low if low < 0 else high}, but there are {count} (0 to {count - 1}); {hint}")


def check_sound(sound: Sound, stack: config.Stack) -> None:
    """ValueError, naming the numbers and the fix, if the sound does not fit the stack."""
    given, bins = sound.given, 0 if stack.audio is None else stack.audio.bins
    if given is None:
        raise ValueError("input_features is missing; this model hears it")
    if given.dim() != 3 or not given.is_floating_point():
        raise ValueError(
            f"input_features is {given.dtype} {list(given.shape)}; expected numbers [batch, {bins}, frames]; "
            "one sound: features[None]"
        )
    if not given.numel():
        raise ValueError(f"input_features is {list(given.shape)}: there is no sound; give at least one frame")
    if given.shape[1] != bins:
        hint = "transpose it" if given.shape[2] == bins else f"make features with {bins} bins"
        raise ValueError(f"input_features has {given.shape[1]} bins, but encoder.audio.bins is {bins}; {hint}")
    limit = None if stack.positions is None else stack.positions.count
    if limit is not None and sound.length > limit:
        raise ValueError(
            f"input_features has {given.shape[2]} frames, two for each position, but the position table has {limit} "
            "rows; cut the sound"
        )


def check_use(model: config.TransformerConfig, given: Mapping[str, object]) -> None:
    """ValueError for an argument that a model of this kind would not look at; `given`: all arguments by name."""
    both = len(model.stacks) == 2
    idle: dict[str, str] = {}
    if not both:
        names = ("decoder_input_ids", "decoder_attention_mask", "encoder_hidden")
        idle |= dict.fromkeys(names, "this model has one stack only")
    if model.decoder is None:
        idle["cache"] = "config.decoder is None"
    if model.head is None or isinstance(model.head, config.TextEmbedding):
        idle["labels"] = f"config.head is {'None' if model.head is None else 'a TextEmbedding'}"
    if isinstance(model.head, config.TextClassifier | config.TextEmbedding):
        idle["cache"] = f"config.head is a {type(model.head).__name__}, which looks at a whole text at once"
    if model.reads_twice:
        names = ("decoder_input_ids", "decoder_attention_mask", "encoder_hidden", "cache")
        reason = f"config.head is a {type(model.head).__name__}, for which the decoder reads input_ids again"
        idle |= dict.fromkeys(names, reason)
    if model.encoder is None or model.encoder.audio is None:
        idle["input_features"] = "this model reads text, input_ids"
    else:
        names = ("input_ids", "token_type_ids", *(() if both else ("positions",)))
        idle |= dict.fromkeys(names, "this model hears sound, input_features")
        if given.get("encoder_hidden") is None:
            idle["attention_mask"] = "sound has no padding: silence is heard"
    for name, reason in idle.items():
        if given.get(name) is not None:
            raise ValueError(f"{name} is given, but {reason}, so nothing would read it; leave it out")


def check_memory(encoded: Tensor, mask: Tensor | None, dim: int) -> None:
    """ValueError unless given states [B K D] of an encoder fit the model and the mask."""
    if encoded.dim() != 3 or encoded.shape[-1] != dim:
        raise ValueError(f"encoder_hidden is {list(encoded.shape)}; expected [batch, tokens, {dim}]")
    if mask is None:
        return
    if mask.shape != encoded.shape[:2]:
        raise ValueError(
            f"attention_mask is {list(mask.shape)}, but encoder_hidden is {list(encoded.shape)}; "
            "with an encoder it masks the source: give one for each of its tokens"
        )
    padding_mask(mask)


def again(text: Text, start: int | None) -> Text:
    """The text as a decoder reads it: each token one place later, first `start`, or the last token where that is None;
    padding stays where it is.
    """
    kept = torch.ones_like(text.ids, dtype=torch.bool) if text.mask is None else text.mask != 0
    places = torch.arange(kept.shape[1], device=kept.device).expand_as(kept).masked_fill(~kept, -1)
    before = torch.nn.functional.pad(places.cummax(1).values[:, :-1], (1, 0), value=-1)  # the last token before each
    first = text.ids.gather(1, places.amax(1, keepdim=True).clamp(min=0)) if start is None else start
    ids = torch.where(before < 0, first, text.ids.gather(1, before.clamp(min=0)))
    return Text("input_ids", ids, text.mask, text.positions)


def check_pairs(name: str, source: int, target: Text) -> None:
    """ValueError unless the argument `name` has as many rows as the target."""
    if source != len(target.ids):
        raise ValueError(f"{target.name} has {len(target.ids)} rows, but {name} has {source}; they go in pairs")


def _check_positions(positions: Tensor, mask: Tensor | None, cache: Cache | None) -> None:
    if int(positions.min()) < 0:
        raise ValueError(f"positions holds {int(positions.min())}; the first position is 0")
    if cache is not None and mask is None and bool((positions.diff(dim=-1) <= 0).any()):
        raise ValueError(
            "positions start again within a row, which means packed documents, but a cache holds one text per row; "
            "run them without a cache"
        )


def _check_length(text: Text, stack: config.Stack, cache: Cache | None) -> None:
    limit = None if stack.positions is None else stack.positions.count
    if limit is None:
        return
    if text.positions is not None:
        needed = int(text.positions.max()) + 1
    else:
        new = torch.ones_like(text.ids) if text.mask is None else text.mask[:, -text.ids.shape[1] :] != 0
        past = 0 if cache is None else cache.length
        first = past if cache is None or cache.positions is None else cache.positions.amax(dim=1) + 1
        needed = int((first + new.sum(dim=1)).max())
    if needed > limit:
        raise ValueError(f"the text has {needed} tokens, but the position table has {limit} rows; shorten the text")


def _check_new(name: str, ids: Tensor, cached: Tensor) -> None:
    past = cached.shape[1]
    if ids.shape[1] > past > 1 and torch.equal(ids[:, :past], cached):
        raise ValueError(
            f"{name} begins with the {past} tokens that the cache already holds; pass only the new ones, "
            "or `positions` if you mean to repeat them"
        )
