"""Answers as text that stands in a page: deflated, then written in letters that neither HTML nor JSON changes.

Thirteen bits stand in two of the 91 letters that ASCII prints besides `"`, `&`, `<` and the backslash: 16 letters hold
13 bytes, where those of base64 hold 12. Of a picture either the codes are written or, if that is shorter, how far they
are from the mean of the two above them (modulo 256; the first two rows as they are): where queries agree, that is
little. The page undoes both (static/embedded.js).
"""

from __future__ import annotations

import zlib

import numpy as np

from clearhead.view.heads import Answer

LETTERS = np.array([code for code in range(32, 127) if chr(code) not in '"&<\\'], np.uint8)
BITS = 13  # 2 to the power of 13 is 8,192; pairs of letters, 91 * 91 = 8,281


def written(answer: Answer) -> str:
    """The shortest text that holds an answer."""
    forms = [answer, _from_above(answer)] if "row_step" in answer.head else [answer]
    return letters(min(map(_deflated, forms), key=len))


def letters(data: bytes) -> str:
    """Bytes as text; n bytes take ceil(16 n / 13) letters.

    The last pair is filled up with ones. Where only its first letter is needed, the page takes the second for 0; of 13
    bits the first 6 are then still right, because the others, all ones, stand for more than a letter can (127, 90).
    """
    bits = np.unpackbits(np.frombuffer(data, np.uint8))
    bits = np.pad(bits, (0, -len(bits) % BITS), constant_values=1).reshape(-1, BITS)
    numbers = bits @ (1 << np.arange(BITS)[::-1])
    pairs = LETTERS[np.stack(np.divmod(numbers, len(LETTERS)), axis=1)]
    return pairs.tobytes()[: -(-16 * len(data) // BITS)].decode()


def _deflated(answer: Answer) -> bytes:
    """What deflate makes of an answer: of codes hardly anything repeats, which Z_FILTERED expects."""
    press = zlib.compressobj(wbits=-15, strategy=zlib.Z_FILTERED)
    return press.compress(answer.packed()) + press.flush()


def _from_above(picture: Answer) -> Answer:
    codes = np.frombuffer(picture.data, np.uint8).reshape(picture.head["rows"], picture.head["columns"])
    apart = codes.copy()
    apart[2:] -= ((codes[1:-1].astype(np.uint16) + codes[:-2]) // 2).astype(np.uint8)
    return Answer({**picture.head, "from_above": True}, apart.tobytes())
