"""What a question is asked about: texts, ids or arguments on the way in, readable names on the way out."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from clearhead import config as forms
from clearhead.lens.listen import bare
from clearhead.model.transformer import Transformer
from clearhead.text.batch import pad
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer

Words = str | Sequence[str] | Tensor
Inputs = Words | tuple[Words, Words] | Mapping[str, Any]


def arguments(model: Transformer, inputs: Inputs) -> dict[str, Any]:
    """The arguments of a forward pass, on the model's device.

    inputs: a text or a list of texts, for which the model needs its tokenizer; ids [T] or [B, T]; features of a sound
    [bins, frames] or [B, bins, frames]; for an encoder beside a decoder a pair (source, target), of which the decoder
    reads the target shifted, so that its position t predicts target token t (a source alone: the decoder reads its
    first token only); or a dict of the arguments themselves. Raises ValueError for what the model cannot read.
    """
    if isinstance(inputs, Mapping):
        given = dict(inputs)
        if given.get("cache") is not None:
            raise ValueError("inputs holds a cache, which goes on with every run; give the whole text instead")
    elif writes_beside(model):
        source, target = inputs if isinstance(inputs, tuple) else (inputs, None)
        given = {**_read(model, source, target=False), **_fed(model, target)}
    elif isinstance(inputs, tuple):
        raise ValueError("inputs is a pair (source, target), but this model reads one text; give a list for a batch")
    else:
        given = _read(model, inputs, target=model.encoder is None)
    device = next(model.parameters()).device
    return {name: value.to(device) if isinstance(value, Tensor) else value for name, value in given.items()}


def single(model: Transformer, inputs: Inputs) -> dict[str, Any]:
    """`arguments` of one sample. Raises ValueError for more."""
    given = arguments(model, inputs)
    for name, value in given.items():
        if isinstance(value, Tensor) and value.dim() > 1 and len(value) != 1:
            raise ValueError(f"{name} is {list(value.shape)}: ask about one sample at a time, such as {name}[:1]")
    return given


def token_id(model: Transformer, token: int | str, stack: str) -> int:
    """The id of a token that a stack reads or writes. Raises ValueError for a text that is no single token."""
    form = model.config.stacks[stack]
    if isinstance(token, str):
        ids = tokenizer_of(model).encode(token, target=stack == "decoder", add_special_tokens=False)
        if len(ids) != 1:
            pieces = names(model, torch.tensor(ids), stack)
            raise ValueError(f"token={token!r} is {len(ids)} tokens, {pieces}; give one of them, or an id")
        token = ids[0]
    if not 0 <= token < form.vocab:
        raise ValueError(f"token={token}, but {stack}.vocab is {form.vocab} (0 to {form.vocab - 1})")
    return token


def names(model: Transformer, ids: Tensor, stack: str) -> list[str]:
    """A readable name for each of the ids [T]: its piece, or without a tokenizer its number."""
    if model.tokenizer is None:
        return [str(i) for i in ids.tolist()]
    return model.tokenizer.pieces(ids.cpu(), target=stack == "decoder")


def places(model: Transformer, ids: Tensor | None, stack: str, count: int) -> list[str]:
    """Names of what a stack reads, ids [1, T]; None: numbers of the `count` places of a sound, or of given states."""
    return [str(i) for i in range(count)] if ids is None else names(model, ids[0], stack)


def place(model: Transformer, given: Mapping[str, Any], position: int, count: int) -> int:
    """A position of what the last stack reads, counted from the start. ValueError if no token stands there."""
    if not -count <= position < count:
        raise ValueError(f"position={position}, but there are {count} tokens, {-count} to {count - 1}")
    mask: Tensor | None = given.get("decoder_attention_mask" if writes_beside(model) else "attention_mask")
    if mask is not None and not mask[0, position]:
        raise ValueError(f"position={position} is padding; the tokens stand at {mask[0].nonzero()[:, 0].tolist()}")
    return position % count


def tokenizer_of(model: Transformer) -> Tokenizer | Pair:
    """Raises ValueError if there is none."""
    if model.tokenizer is None:
        raise ValueError("model.tokenizer is None; set it, or give ids instead of text")
    return model.tokenizer


@contextmanager
def at_rest(model: torch.nn.Module) -> Generator[Transformer]:
    """Within the block the model does not drop out and nothing is kept for gradients."""
    inner = bare(model)
    modes = [(module, module.training) for module in inner.modules()]
    try:
        inner.eval()
        with torch.no_grad():
            yield inner
    finally:
        for module, training in modes:
            module.training = training


def writes_beside(model: Transformer) -> bool:
    """Whether a decoder beside an encoder is given a text of its own."""
    return len(model.config.stacks) == 2 and isinstance(model.config.head, forms.Head | None)


def _read(model: Transformer, words: Words, target: bool) -> dict[str, Tensor]:
    """What the first stack reads. A text that goes on does not end in eos, even if the tokenizer writes one."""
    if isinstance(words, Tensor):
        name = "input_features" if words.is_floating_point() else "input_ids"
        one = words.dim() == (2 if words.is_floating_point() else 1)
        return {name: words[None] if one else words}
    texts = [words] if isinstance(words, str) else list(words)
    if not target or not isinstance(model.config.head, forms.Head | None):
        return tokenizer_of(model)(texts)
    rows = [tokenizer_of(model).encode(text, target=True) for text in texts]
    rows = [row[:-1] if row[-1] in model.config.eos_ids and len(row) > 1 else row for row in rows]
    ids, mask = pad(rows, tokenizer_of(model).pad or 0)
    return {"input_ids": ids, "attention_mask": mask}


def _fed(model: Transformer, target: Words | None) -> dict[str, Tensor]:
    """What a decoder beside an encoder reads: its first token, then the target without its last."""
    first = model.config.first
    if first is None:
        raise ValueError("config.start and config.bos are None; give decoder_input_ids, in a dict of arguments")
    if target is None:
        return {"decoder_input_ids": torch.tensor([[first]])}
    ids = wanted(model, target)
    fed = {"decoder_input_ids": torch.cat([torch.full_like(ids[:, :1], first), ids[:, :-1]], dim=1)}
    if model.config.pad is not None and bool((ids == model.config.pad).any()):
        fed["decoder_attention_mask"] = (ids != model.config.pad).long()  # where there is something to write
    return fed


def wanted(model: Transformer, target: Words) -> Tensor:
    """The ids [B, T] of a target as the decoder is to write them: without the token that it is fed first."""
    if isinstance(target, Tensor):
        ids = target if target.dim() > 1 else target[None]
    else:
        ids = tokenizer_of(model)([target] if isinstance(target, str) else list(target), target=True)["input_ids"]
    begun = model.config.first is not None and ids.shape[1] > 1 and bool((ids[:, 0] == model.config.first).all())
    return ids[:, 1:] if begun else ids
