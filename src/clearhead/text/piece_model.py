"""SentencePiece's model files (Kudo and Richardson 2018) as plain data: pieces, scores, and the map of characters."""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

import numpy as np

NORMAL, UNKNOWN, CONTROL, USER = 1, 2, 3, 4  # the kinds of piece; 5 is unused, 6 a byte
METHODS: dict[int, Literal["unigram", "bpe"]] = {1: "unigram", 2: "bpe"}


@dataclass(frozen=True)
class PieceModel:
    """V pieces with their scores and kinds, in the order of their ids."""

    pieces: tuple[tuple[str, float], ...]
    kinds: tuple[int, ...]
    method: Literal["unigram", "bpe"]
    charsmap: bytes  # what characters are replaced by before anything else: a trie and its texts; may be empty

    @property
    def unk(self) -> int:
        """The id of the unknown piece."""
        return self.kinds.index(UNKNOWN)

    @property
    def vocab(self) -> dict[str, int]:
        """The id of each piece."""
        return {piece: i for i, (piece, _) in enumerate(self.pieces)}


def read_piece_model(path: Path) -> PieceModel:
    """The model in a file. Raises ValueError, naming the file, for one that is damaged or of another kind."""
    try:
        return _model(path.read_bytes())
    except (ValueError, IndexError, struct.error) as error:  # UnicodeDecodeError is a ValueError
        raise ValueError(
            f"{path} is not a SentencePiece model, or is damaged: {error}; copy the folder again"
        ) from error


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a protocol buffer: number, and an int, or bytes for text, nested messages and floats.

    Raises ValueError or IndexError for bytes that are none.
    """
    at, end = 0, len(message)
    while at < end:
        key, at = _varint(message, at) if message[at] > 127 else (message[at], at + 1)
        wire = key & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if wire not in (1, 2, 5):
            raise ValueError(f"wire type {wire} at byte {at}")
        if wire == 2:
            size, at = _varint(message, at) if message[at] > 127 else (message[at], at + 1)
        else:
            size = 8 if wire == 1 else 4
        if at + size > end:
            raise ValueError(f"field {key >> 3} has {size} bytes, but {end - at} are left")
        yield key >> 3, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise ValueError(f"a number of more than 64 bits before byte {at}")


def _model(message: bytes) -> PieceModel:
    pieces: list[tuple[str, float]] = []
    kinds: list[int] = []
    method, charsmap = 1, b""
    for number, value in fields(message):
        if number == 1:
            piece, score, kind = _piece(_nested(value))
            pieces.append((piece, score))
            kinds.append(kind)
        elif number == 2:
            method = int(cast(int, dict(fields(_nested(value))).get(3, 1)))
        elif number == 3:
            charsmap = _nested(dict(fields(_nested(value))).get(2, b""))
    if UNKNOWN not in kinds:
        raise ValueError(f"none of its {len(pieces)} pieces is the unknown one")
    if method not in METHODS:
        raise ValueError(f"it was trained by method {method}; known are 1 (unigram) and 2 (BPE)")
    if charsmap:
        _check(charsmap)
    return PieceModel(tuple(pieces), tuple(kinds), METHODS[method], charsmap)


def _piece(message: bytes) -> tuple[str, float, int]:
    found = dict(fields(message))
    score: float = struct.unpack("<f", _nested(found[2]))[0] if 2 in found else 0.0
    if not math.isfinite(score):
        raise ValueError(f"the score {score} of a piece")
    return _nested(found.get(1, b"")).decode(), score, int(cast(int, found.get(3, NORMAL)))


def _nested(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where text or a message belongs")
    return value


def _check(charsmap: bytes) -> None:
    """ValueError unless every step through the trie, and every text that it leads to, lies inside.

    The library looks nowhere, and would panic in the middle of some text. The format is that of darts-clone: units of
    32 bits, of which the sign marks a value; else bits 10 up, shifted by 8 where bit 9 is set, lead to 256 others.
    """
    size = int.from_bytes(charsmap[:4], "little")
    texts = np.frombuffer(charsmap[4 + size :], np.uint8)
    if size == 0 or size % 4 or len(texts) == 0:
        raise ValueError(f"the map of characters has a trie of {size} bytes and {len(texts)} bytes of texts")
    charsmap[4 + size :].decode()
    units = np.frombuffer(charsmap, "<u4", size // 4, 4)
    step = (units >> 10) << ((units & 512) >> 6)
    reach = (np.arange(len(units), dtype=np.uint32) ^ step) | 255
    value = units & 0x7FFFFFFF
    ends = (units >> 31) == 1
    if (reach[~ends] >= len(units)).any() or (value[ends] >= len(texts)).any():
        raise ValueError("the map of characters leads out of itself")
    if (texts[value[ends]] & 0xC0 == 0x80).any() or texts[-1] != 0:
        raise ValueError("the map of characters leads into the middle of a character")
