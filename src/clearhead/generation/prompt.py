"""What generation starts from: texts with their padding known, the encoder's states, and every check before compute."""

from typing import NamedTuple

import torch
from torch import Tensor

from clearhead.config import Head
from clearhead.generation.options import Options
from clearhead.generation.stop import Specials
from clearhead.model.inputs import Sound, Text, check, check_sound, check_use
from clearhead.model.stack import Stack
from clearhead.model.transformer import Transformer


class Prompt(NamedTuple):
    """The decoder's texts so far, and what it sees of an encoder."""

    ids: Tensor  # [B T] int64
    keep: Tensor | None = None  # [B T] boolean, False = padding
    encoded: Tensor | None = None  # [B K D]
    source_keep: Tensor | None = None  # [B K] boolean


def prepare(
    model: Transformer, input_ids: Tensor | None, attention_mask: Tensor | None, options: Options, special: Specials
) -> Prompt:
    """Raises ValueError for a model that cannot write, and for texts that do not fit it; then runs the encoder."""
    decoder = model.decoder
    if decoder is None:
        raise ValueError(
            "this model is an encoder only: each of its positions sees the whole text, so none can predict the next "
            "token; generate with a decoder, or fill masked tokens with model(input_ids).logits"
        )
    if not isinstance(model.config.head, Head):
        raise ValueError(
            f"config.head is {type(model.config.head).__name__.removesuffix('Type')}, so the model gives no logits to "
            "choose tokens by; give it a Head"
        )
    given = {"input_ids": input_ids, "attention_mask": attention_mask, "input_features": options.input_features}
    check_use(model.config, given)
    if model.encoder is None:
        if options.decoder_input_ids is not None:
            raise ValueError("decoder_input_ids is for a decoder beside an encoder; pass the prompt as input_ids")
        prompt = Prompt(*_own_text(decoder, input_ids, attention_mask, special))
        _check_room(decoder, prompt, options)
        return prompt
    if model.encoder.form.audio is not None:
        check_sound(sound := Sound(options.input_features), model.encoder.form)
        prompt = Prompt(_written(decoder, sound.name, sound.frames, options, special))
        _check_room(decoder, prompt, options)
        return prompt._replace(encoded=model.encode(input_features=sound.frames))
    source, keep = _source(model.encoder, input_ids, attention_mask, special)
    prompt = Prompt(_written(decoder, "input_ids", source, options, special), None, None, keep)
    _check_room(decoder, prompt, options)
    return prompt._replace(encoded=model.encode(source, keep))


def _own_text(stack: Stack, ids: Tensor | None, mask: Tensor | None, special: Specials) -> tuple[Tensor, Tensor | None]:
    """The prompt of a decoder alone. Where there is none, for the batch or in one row of it, bos stands in."""
    if ids is None or (ids.dim() == 2 and len(ids) and not ids.shape[1]):
        rows, device = 1 if ids is None else len(ids), stack.table.device
        return torch.full((rows, 1), _bos(special), device=device), None
    check(Text("input_ids", ids, mask), stack.form)
    ids, keep = ids.long(), _keep(ids, mask, special)
    if keep is None or bool(keep.any(1).all()):
        return ids, keep
    last = torch.arange(ids.shape[1], device=ids.device) == ids.shape[1] - 1
    begun = ~keep.any(1, keepdim=True) & last
    return ids.masked_fill(begun, _bos(special)), keep | begun


def _bos(special: Specials) -> int:
    if special.bos is None:
        raise ValueError("input_ids holds an empty prompt, and there is no config.bos to start from; give one token")
    return special.bos


def _source(stack: Stack, ids: Tensor | None, mask: Tensor | None, special: Specials) -> tuple[Tensor, Tensor | None]:
    """The text that the encoder reads."""
    check(Text("input_ids", ids, mask), stack.form)
    assert ids is not None, "check has looked"
    keep = _keep(ids, mask, special)
    if keep is not None and not bool(keep.any(1).all()):
        row = int((~keep.any(1)).nonzero()[0])
        raise ValueError(f"row {row} of input_ids is all padding; a source needs at least one token, such as its eos")
    return ids, keep


def _written(stack: Stack, name: str, source: Tensor, options: Options, special: Specials) -> Tensor:
    """What a decoder beside an encoder has written: the start token, and whatever the caller wants to stand behind it.

    As in Hugging Face, `decoder_input_ids` of which no row begins with the start token get it in front.
    """
    given, start = options.decoder_input_ids, special.start
    if given is not None:
        check(Text("decoder_input_ids", given), stack.form)
        if len(given) != len(source):
            raise ValueError(f"decoder_input_ids has {len(given)} rows, but {name} has {len(source)}; give one each")
        if start is None or bool((given[:, 0] == start).any()):
            return given.long()
    if start is None:
        raise ValueError("decoder_start_token_id, config.start and config.bos are all None; set one to start from")
    first = torch.full((len(source), 1), start, device=source.device)
    return first if given is None else torch.cat([first, given], dim=1)


def _keep(ids: Tensor, mask: Tensor | None, special: Specials) -> Tensor | None:
    """[B, T] boolean, False = padding; None if nothing is. Without a mask it is inferred where pad means only padding.

    Where pad is an eos or bos too, such tokens at the ends of a row may be either: ValueError. (One row alone may begin
    with one of them: that is a bos.)
    """
    if mask is not None:
        return None if bool((mask != 0).all()) else mask != 0
    doubtful = {*special.eos, special.bos}
    pad = special.pad if special.pad is not None else next(iter(special.eos), None)
    if pad is None or not bool((ids == pad).any()):
        return None
    if pad not in doubtful:
        return ids != pad
    seen = ids if len(ids) > 1 else ids[:, 1:]
    if bool((seen[:, :1] == pad).any() | (seen[:, -1:] == pad).any()):
        raise ValueError(
            f"attention_mask is missing, and input_ids begins or ends with {pad}, which is padding and bos or eos; "
            "pass the attention_mask that the tokenizer gave (1 = a token, 0 = padding)"
        )
    return None


def _check_room(stack: Stack, prompt: Prompt, options: Options) -> None:
    if options.forced_bos_token_id is not None and prompt.ids.shape[1] > 1:
        raise ValueError(
            f"forced_bos_token_id is {options.forced_bos_token_id}, but {prompt.ids.shape[1]} tokens stand already; it "
            "comes right after a start token: leave it out, or put it among them"
        )
    limit = None if stack.positions is None else stack.positions.form.count
    longest = prompt.ids.shape[1] if prompt.keep is None else int(prompt.keep.sum(1).max())
    if limit is not None and longest + options.max_new_tokens > limit:
        raise ValueError(
            f"the prompt has {longest} tokens and max_new_tokens is {options.max_new_tokens}, together "
            f"{longest + options.max_new_tokens}, but the position table has {limit} rows; lower max_new_tokens or "
            "shorten the prompt"
        )
