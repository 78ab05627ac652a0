"""Tokens in the form of text: a blank in front is a real blank, the bytes of half a character read ⟨F0 9F⟩."""

from __future__ import annotations

import re

import tokenizers
from tokenizers import decoders
from torch import Tensor

from clearhead.model.transformer import Transformer
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer, byte_characters

BLANK = "\u2581"  # what stands for a blank in the vocabularies of SentencePiece
BYTE = re.compile(r"<0x([0-9A-F]{2})>")  # and for a byte that is no token of its own


def spelled(model: Transformer, ids: Tensor, stack: str) -> list[str]:
    """One string for each of the ids [T] that a stack reads; without a tokenizer its number."""
    one = _tokenizer(model, stack)
    return [str(i) for i in ids.tolist()] if one is None else _spelled(one, ids.tolist())


def running(model: Transformer, ids: Tensor, stack: str) -> list[str]:
    """The same as they follow each other in a text: with the blanks that whole words and WordPiece leave out."""
    tokens, one = spelled(model, ids, stack), _tokenizer(model, stack)
    if one is None or not isinstance(one.inner, tokenizers.Tokenizer):
        return tokens
    decoder, added = one.inner.decoder, one.inner.get_added_tokens_decoder()
    if not isinstance(decoder, decoders.WordPiece | None):
        return tokens

    def after(token: str) -> str:  # without a decoder the library joins by blanks
        return f" {token}" if decoder is None else decoder.decode(["a", token])[1:]

    return [after(t) if n and i not in added else t for n, (t, i) in enumerate(zip(tokens, ids.tolist(), strict=True))]


def _tokenizer(model: Transformer, stack: str) -> Tokenizer | None:
    both = model.tokenizer
    return (both.target if stack == "decoder" else both.source) if isinstance(both, Pair) else both


def _spelled(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    inner, added, byte_of = tokenizer.inner, frozenset[int](), dict[str, int]()
    if isinstance(inner, tokenizers.Tokenizer):
        added = frozenset(inner.get_added_tokens_decoder())
        byte_of = byte_characters() if isinstance(inner.decoder, decoders.ByteLevel) else {}
    blanks = not byte_of and BLANK not in inner.decode([i for i in ids if i not in added])

    def text(i: int) -> str:
        token = inner.id_to_token(i)
        if token is None:
            return f"<{i}>"
        if i in added:
            return token
        if byte_of:
            return _bytes(bytes(byte_of[character] for character in token))
        if whole := BYTE.fullmatch(token):
            return _bytes(bytes.fromhex(whole[1]))
        return token.replace(BLANK, " ") if blanks else token

    return [text(i) for i in ids]


def _bytes(given: bytes) -> str:
    """UTF-8, with every run of bytes that are no whole character in hexadecimal."""
    text = given.decode("utf-8", errors="surrogateescape")  # which gives such a byte 80 to FF as U+DC80 to U+DCFF
    return re.sub("[\udc80-\udcff]+", lambda run: f"⟨{run[0].encode(errors='surrogateescape').hex(' ').upper()}⟩", text)
