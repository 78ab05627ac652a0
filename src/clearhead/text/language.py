"""Tokenizers of many languages: the token beside every text that says which it is, and how to choose another."""

import difflib
import re
from collections.abc import Mapping
from typing import NamedTuple

import tokenizers

from clearhead.text.tokenizer import Tokenizer

CODE = re.compile(r"(_{0,2})([a-z]{2,3}(?:_[A-Z][A-Za-z]{1,3})?)\1")  # "de_DE", "deu_Latn", "__de__"


class Languages(NamedTuple):
    """The languages of a tokenizer, and where their tokens stand."""

    ids: Mapping[str, int]  # of the token, by code: "en_XX", "eng_Latn", "en"
    own: str  # the one that the tokenizer puts beside a text by itself
    last: bool  # behind a text; else before it

    def chosen(self, name: str, code: str) -> int:
        """The token of a language. Raises ValueError, under the argument's name, with the nearest code and all."""
        if code in self.ids:
            return self.ids[code]
        begun = [known for known in self.ids if known.lower().startswith(code.lower()[:2])]
        near = difflib.get_close_matches(code, begun, n=1, cutoff=0.0) or difflib.get_close_matches(code, self.ids, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"{name} is {code!r}; {hint}known are {', '.join(self.ids)}")

    def placed(self, ids: list[int], language: int) -> list[int]:
        """The ids of one text, its special tokens included, with another language beside it."""
        return [*ids[:-1], language] if self.last else [language, *ids[1:]]


def languages(tokenizer: Tokenizer) -> Languages | None:
    """None where a text gets no language, or does not begin or end with it.

    The languages are the special tokens that look like codes and have no other use.
    """
    inner = tokenizer.inner
    frame = inner.encode("").ids
    if not frame:
        return None
    if isinstance(inner, tokenizers.Tokenizer):
        added = {t.content: i for i, t in inner.get_added_tokens_decoder().items() if t.special}
    else:
        added = {token: i for token in inner.specials if (i := inner.token_to_id(token)) is not None}
    found = {match[2]: i for token, i in sorted(added.items()) if (match := CODE.fullmatch(token)) is not None}
    beside = [(code, at) for at in (0, -1) for code, i in found.items() if i == frame[at]]
    if len(beside) != 1 or len(found) < 2:
        return None
    (own, at) = beside[0]
    return Languages(found, own, at == -1)
