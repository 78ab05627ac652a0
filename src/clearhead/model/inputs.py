"""What a stack reads, and whether it can: every check that comes before compute."""

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


def check_ids(name: str, ids: Tensor, count: int) -> None:
    """ValueError unless 0 <= ids < count. Under a compiler nothing is looked at."""
    if torch.compiler.is_compiling():
        return
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= count:
        raise ValueError(
            f"{name} holds {low if low < 0 else high}, but there are {count} (0 to {count - 1}); "
            "was the text made by another tokenizer?"
        )


def check_use(
    model: config.TransformerConfig, target: Text, encoded: Tensor | None, cache: Cache | None, labels: Tensor | None
) -> None:
    """ValueError for an argument that a model of this kind would not look at."""
    one_stack = "this model has one stack only"
    both = len(model.stacks) == 2
    uses: list[tuple[str, object, bool, str]] = [
        ("decoder_input_ids", target.given, both, one_stack),
        ("decoder_attention_mask", target.mask, both, one_stack),
        ("encoder_hidden", encoded, both, one_stack),
        ("cache", cache, model.decoder is not None, "config.decoder is None"),
        ("labels", labels, model.head is not None, "config.head is None"),
    ]
    for name, value, useful, reason in uses:
        if value is not None and not useful:
            raise ValueError(f"{name} is given, but {reason}, so nothing would read it; leave it out")


def check_labels(labels: Tensor, ids: Tensor, vocab: int) -> None:
    """ValueError unless there is one label for each id: a token of the vocabulary, or -100."""
    if labels.shape != ids.shape:
        raise ValueError(f"labels is {list(labels.shape)}, but the ids are {list(ids.shape)}; give one for each token")
    check_ids("labels", labels.masked_fill(labels == -100, 0), vocab)


def check_memory(encoded: Tensor | None, source: Text, target: Text, dim: int) -> None:
    """ValueError unless source and target have as many rows, and given states [B K D] fit the model and the mask."""
    if encoded is not None:
        if encoded.dim() != 3 or encoded.shape[-1] != dim:
            raise ValueError(f"encoder_hidden is {list(encoded.shape)}; expected [batch, tokens, {dim}]")
        if source.mask is not None and source.mask.shape != encoded.shape[:2]:
            raise ValueError(
                f"attention_mask is {list(source.mask.shape)}, but encoder_hidden is {list(encoded.shape)}; "
                "with an encoder it masks the source: give one for each of its tokens"
            )
        if source.mask is not None:
            padding_mask(source.mask)
    rows = len(source.ids) if encoded is None else len(encoded)
    if rows != len(target.ids):
        name = source.name if encoded is None else "encoder_hidden"
        raise ValueError(f"{target.name} has {len(target.ids)} rows, but {name} has {rows}; they go in pairs")


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
