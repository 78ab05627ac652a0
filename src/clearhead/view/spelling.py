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
    if model.tokenizer is None:
        return [str(i) for i in ids.tolist()]
    both = model.tokenizer
    one = (both.target if stack == "decoder" else both.source) if isinstance(both, Pair) else both
    return _spelled(one, ids.tolist())


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
