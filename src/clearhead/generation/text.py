"""Text in, text out: `translate` and `complete`, at once or while it is being written."""

from collections.abc import Iterable, Iterator
from typing import Any, overload

from torch import Tensor

from clearhead.generation.generate import Generation, generate
from clearhead.generation.loop import stream
from clearhead.model.transformer import Transformer
from clearhead.text.batch import pad
from clearhead.text.language import languages
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer

ROOM = 256  # tokens; a constant, so that a text's translation does not depend on its neighbours
BROKEN = "\ufffd"  # what the bytes of half a character decode to


@overload
def translate(model: Transformer, text: str, **options: Any) -> str: ...
@overload
def translate(model: Transformer, text: list[str], **options: Any) -> list[str]: ...
def translate(model: Transformer, text: str | list[str], **options: Any) -> str | list[str]:
    """What an encoder-decoder makes of a text (a string) or of several (a list of strings, in one batch).

    Options as in `generate`, but max_new_tokens is 256, or what the position table has room for. Where the tokenizer
    puts a language beside every text (mBART, M2M100, NLLB), `src_lang` and `tgt_lang` choose it by its code, such as
    "de_DE", "de" or "deu_Latn"; by default they are those that the tokenizer's folder names. Raises ValueError for a
    model without encoder, decoder or tokenizer, for a language that is not known, and as `generate` does.
    """
    texts = [text] if isinstance(text, str) else text
    rows = _written(model, _translating(model, texts, options))
    found = [_tokenizer(model).decode(row) for row in rows]
    return found[0] if isinstance(text, str) else found


@overload
def complete(model: Transformer, text: str, **options: Any) -> str: ...
@overload
def complete(model: Transformer, text: list[str], **options: Any) -> list[str]: ...
def complete(model: Transformer, text: str | list[str], **options: Any) -> str | list[str]:
    """A text (a string) or several (a list of strings) and how a decoder-only model goes on.

    Options as in `generate`. Raises ValueError for another kind of model or one without a tokenizer, and as `generate`
    does.
    """
    texts = [text] if isinstance(text, str) else text
    given = _completing(model, texts, options)
    gaps = (given["attention_mask"] == 0).sum(1).tolist()
    found = [_tokenizer(model).decode(row[gap:]) for row, gap in zip(_written(model, given), gaps, strict=True)]
    return found[0] if isinstance(text, str) else found


def stream_text(model: Transformer, text: str, **options: Any) -> Iterator[str]:
    """The new part of `translate` or `complete`, whichever fits the model, in pieces, never with half a character."""
    tokenizer = _tokenizer(model)
    if model.encoder is not None:
        given = _translating(model, [text], options)
        return pieces(tokenizer, [], (int(step[0]) for step in stream(model, **given)))
    given = _completing(model, [text], options)
    prompt = given["input_ids"][0].tolist()
    return pieces(tokenizer, prompt, (int(step[0]) for step in stream(model, **given)))


def pieces(tokenizer: Tokenizer | Pair, prompt: list[int], ids: Iterable[int]) -> Iterator[str]:
    """Decode ids as they come: each piece is what the text after the prompt has grown by.

    A piece waits while it ends within a character. What is left of one at the very end comes as a single U+FFFD.
    """
    known, waiting = prompt, []  # decoded together: some decoders treat the beginning of a text otherwise
    for i in ids:
        waiting.append(i)
        piece = _growth(tokenizer, known, waiting)
        if piece and not piece.endswith(BROKEN):
            yield piece
            known, waiting = waiting, []
    rest = _growth(tokenizer, known, waiting)
    if rest:
        yield rest.rstrip(BROKEN) + BROKEN * rest.endswith(BROKEN)


def _growth(tokenizer: Tokenizer | Pair, known: list[int], new: list[int]) -> str:
    return tokenizer.decode(known + new)[len(tokenizer.decode(known)) :]


def _tokenizer(model: Transformer) -> Tokenizer | Pair:
    if model.tokenizer is None:
        raise ValueError("model.tokenizer is None; set it, or tokenize yourself and call generate")
    return model.tokenizer


def _translating(model: Transformer, texts: list[str], options: dict[str, Any]) -> dict[str, Any]:
    """What to generate with."""
    tokenizer = _tokenizer(model)
    if model.encoder is None or model.decoder is None:
        raise ValueError("translate needs an encoder and a decoder, but this model has only one of them; try complete")
    table = model.decoder.positions
    limit = None if table is None else table.form.count
    room = ROOM if limit is None else min(ROOM, limit - 1)  # the start token takes one row
    given, begun = _in_languages(tokenizer, texts, options.pop("src_lang", None), options.pop("tgt_lang", None))
    return {**_moved(model, given), **begun, "max_new_tokens": room, **options}


def _in_languages(
    tokenizer: Tokenizer | Pair, texts: list[str], src_lang: str | None, tgt_lang: str | None
) -> tuple[dict[str, Tensor], dict[str, int]]:
    """What the encoder reads, and the option that lets the text which is written begin with its language.

    Where the language stands behind a text, it is what the decoder starts from: the text before would end with it.
    """
    source, target = (tokenizer.source, tokenizer.target) if isinstance(tokenizer, Pair) else (tokenizer, None)
    known = languages(source)
    if known is None:
        for name, code in (("src_lang", src_lang), ("tgt_lang", tgt_lang)):
            if code is not None:
                raise ValueError(f"{name} is {code!r}, but this tokenizer puts no language beside a text; leave it out")
        return tokenizer(texts), {}
    rows = source.encode_batch(texts)
    if src_lang is not None:
        language = known.chosen("src_lang", src_lang)
        rows = [known.placed(row, language) for row in rows]
    ids, mask = pad(rows, source.pad or 0, "right")
    theirs = languages(target) if target is not None else None
    tgt_lang = theirs.own if tgt_lang is None and theirs is not None else tgt_lang
    place = "decoder_start_token_id" if known.last else "forced_bos_token_id"
    begun = {} if tgt_lang is None else {place: known.chosen("tgt_lang", tgt_lang)}
    return {"input_ids": ids, "attention_mask": mask}, begun


def _completing(model: Transformer, texts: list[str], options: dict[str, Any]) -> dict[str, Any]:
    """What to generate with. A text that goes on does not end in eos, even if the tokenizer writes one."""
    tokenizer = _tokenizer(model)
    if model.encoder is not None:
        raise ValueError("complete needs a decoder only, but this model has an encoder; try translate")
    rows = [tokenizer.encode(text, target=True) if text else [] for text in texts]
    rows = [row[:-1] if row[-1:] == [tokenizer.eos] else row for row in rows]
    ids, mask = pad(rows, tokenizer.pad or 0, "left")
    return {**_moved(model, {"input_ids": ids, "attention_mask": mask}), **options}


def _moved(model: Transformer, given: dict[str, Tensor]) -> dict[str, Tensor]:
    device = model.last.table.device
    return {name: tensor.to(device) for name, tensor in given.items()}


def _written(model: Transformer, given: dict[str, Any]) -> list[list[int]]:
    """The ids of each row, prompt included, without what fills it up after its end."""
    for name, default in (("num_return_sequences", 1), ("return_dict_in_generate", False)):
        if given.get(name, default) != default:
            raise ValueError(f"{name} is {given[name]}, but here each text gives one text; call generate")
    given["return_dict_in_generate"] = True
    found = generate(model, **given)
    assert isinstance(found, Generation)
    prompt = found.sequences.shape[1] - int(found.lengths.max())
    lengths = found.lengths.tolist()
    return [row[: prompt + length] for row, length in zip(found.sequences.tolist(), lengths, strict=True)]
