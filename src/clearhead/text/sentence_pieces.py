"""The `sentencepiece` library with ids of its own, for the two-file vocabularies that `tokenizers` cannot express."""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, cast

from clearhead.text.piece_model import fields

CLEAN = tuple(  # what `clean_up_tokenization_spaces` of a tokenizer_config.json asks of decoded text, in this order
    (" " + mark, mark.rstrip()) for mark in (".", "?", "!", ",", "' ", "n't", "'m", "'s", "'ve", "'re")
)


class Encoded(NamedTuple):
    """One text's ids, and the span of characters in the text that each comes from."""

    ids: list[int]
    offsets: list[tuple[int, int]]


class SentencePieces:
    """Splits a text into pieces and looks their ids up; takes the place of a `tokenizers.Tokenizer`.

    The pieces' own ids in the model's file are not used. Special tokens that are written out in a text become
    themselves; so does what `lead` (a regular expression) matches at the front of a stretch.
    """

    def __init__(
        self,
        model: bytes,
        vocab: Mapping[str, int],
        unk: str,
        specials: Sequence[str],
        before: Sequence[str] = (),
        after: Sequence[str] = (),
        lead: str = "(?!)",
        gap: str = "",
        clean: bool = False,
    ) -> None:
        """`before` and `after` are added to every text; `gap` follows a special token in decoded text.

        `clean` takes blanks in front of punctuation out of decoded text.

        Raises ValueError for a model that the library cannot read, and for a token that the vocabulary lacks.
        """
        from sentencepiece import SentencePieceProcessor

        for token in (unk, *specials, *before, *after):
            if token not in vocab:
                raise ValueError(f"the token {token!r} is not in the vocabulary of {len(vocab)}")
        self._model = SentencePieceProcessor()
        try:
            self._model.LoadFromSerializedProto(model)
        except RuntimeError as error:
            raise ValueError(f"the sentencepiece library cannot read the model: {error}") from error
        self._vocab, self._unk, self._lead, self._gap = dict(vocab), vocab[unk], re.compile(lead, re.DOTALL), gap
        self._token = {i: token for token, i in vocab.items()}
        self.specials = frozenset(specials)
        longest_first = sorted(self.specials, key=len, reverse=True)
        self._clean = CLEAN if clean else ()
        self._split = re.compile(f"({'|'.join(map(re.escape, longest_first)) or '(?!)'})")
        self._before, self._after = ([vocab[token] for token in tokens] for tokens in (before, after))

    def encode(self, text: str, add_special_tokens: bool = True) -> Encoded:
        """Ids and offsets; the tokens that are added to every text have the empty span (0, 0)."""
        found = Encoded([], [])
        at = 0
        for part in self._split.split(text):
            if part in self.specials:
                found.ids.append(self._vocab[part])
                found.offsets.append((at, at + len(part)))
            elif part:
                self._stretch(part, at, found)
            at += len(part)
        if not add_special_tokens:
            return found
        before, after = self._before, self._after
        return Encoded([*before, *found.ids, *after], [*[(0, 0)] * len(before), *found.offsets, *[(0, 0)] * len(after)])

    def encode_batch_fast(self, texts: Sequence[str], add_special_tokens: bool = True) -> list[Encoded]:
        return [self.encode(text, add_special_tokens) for text in texts]

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        text, run = "", list[str]()
        for i in ids:
            token = self._token.get(i)
            if token is None or (skip_special_tokens and token in self.specials):
                continue
            if token in self.specials:
                text += self._joined(run) + token + self._gap
                run = []
            else:
                run.append(token)
        text = (text + self._joined(run)).strip()
        for apart, close in self._clean:
            text = text.replace(apart, close)
        return text

    def token_to_id(self, token: str) -> int | None:
        return self._vocab.get(token)

    def id_to_token(self, i: int) -> str | None:
        return self._token.get(i)

    def get_vocab_size(self) -> int:
        return len(self._vocab)

    def _joined(self, pieces: list[str]) -> str:
        """The library leaves the blanks of pieces that this model has not, as the other language's, for us to put."""
        return cast(str, self._model.decode(pieces)).replace("▁", " ") if pieces else ""

    def _stretch(self, text: str, at: int, found: Encoded) -> None:
        """Append the pieces of a text without special tokens that begins at `at`."""
        if lead := self._lead.match(text):
            found.ids.append(self._vocab.get(lead[0], self._unk))
            found.offsets.append((at, at + lead.end()))
            at, text = at + lead.end(), text[lead.end() :]
        ends = list(accumulate(len(character.encode()) for character in text))
        for number, message in fields(cast(bytes, self._model.encode(text, out_type="serialized_proto"))):
            if number != 2:
                continue
            piece = dict(fields(cast(bytes, message)))
            found.ids.append(self._vocab.get(cast(bytes, piece[1]).decode(), self._unk))
            start, end = (bisect_right(ends, cast(int, piece.get(key, 0))) for key in (4, 5))  # from bytes
            found.offsets.append((at + start, at + end))
