"""Text to ids and back: one typed handle around the `tokenizers` library, for models of every kind."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import tokenizers
import torch
from tokenizers import decoders

from clearhead.text.batch import Side, pad

Ids = Sequence[int] | torch.Tensor
SPECIALS = ("pad", "bos", "eos", "unk", "mask")


def byte_characters() -> dict[str, int]:
    """The printable character that stands for each byte in a byte-level vocabulary (Radford et al. 2019, GPT-2).

    Printable Latin-1 characters stand for themselves, the other bytes for the characters from U+0100 on, in order.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


class Tokenizer:
    """A `tokenizers.Tokenizer` (`.inner`) and the ids of its special tokens: pad, bos, eos, unk, mask, each or None.

    A special token that is written out in a text ("<mask>", "</s>") becomes that token, as in Hugging Face.
    `target` is accepted wherever a Pair has a use for it, and changes nothing here.
    """

    def __init__(self, inner: tokenizers.Tokenizer, specials: Mapping[str, str]) -> None:
        """`specials` maps "pad", "bos", "eos", "unk", "mask" to the tokens' texts, where there are any.

        Raises ValueError for another kind, or for a token that the vocabulary does not hold.
        """
        for kind, token in specials.items():
            if kind not in SPECIALS:
                raise ValueError(f"specials[{kind!r}]: the kinds are {', '.join(SPECIALS)}")
            if inner.token_to_id(token) is None:
                raise ValueError(f"specials[{kind!r}]={token!r} is not in the vocabulary of {inner.get_vocab_size()}")
        self.inner = inner
        ids = {kind: inner.token_to_id(token) for kind, token in specials.items()}
        self.pad, self.bos, self.eos, self.unk, self.mask = (ids.get(kind) for kind in SPECIALS)

    def __len__(self) -> int:
        return self.inner.get_vocab_size()

    @property
    def vocab_size(self) -> int:
        """V, special tokens included."""
        return len(self)

    def __call__(
        self, texts: str | Sequence[str], target: bool = False, padding_side: Side = "right"
    ) -> dict[str, torch.Tensor]:
        """B texts (one if a plain string) to `input_ids` and `attention_mask` (1 = keep), both int64 [B, T].

        A tokenizer without a pad token (GPT-2) fills with eos or 0: the mask hides the filling, so any id will do.
        Raises ValueError as `encode` does.
        """
        rows = self._rows([texts] if isinstance(texts, str) else list(texts))
        filling = next(i for i in (self.pad, self.eos, 0) if i is not None)
        ids, mask = pad(rows, filling, padding_side)
        return {"input_ids": ids, "attention_mask": mask}

    def encode(self, text: str, target: bool = False) -> list[int]:
        """The ids of one text, with the special tokens that this tokenizer was built to add.

        Raises ValueError for a character or word that is unknown to a tokenizer without unk, and for a text of which
        no token is left.
        """
        return self._rows([text])[0]

    def decode(self, ids: Ids, skip_special_tokens: bool = True, target: bool = False) -> str:
        """The text of one row of ids. Ids beyond the vocabulary, which a padded output matrix can give, are left out.

        Raises ValueError for more than one row (see `decode_batch`) and for a negative id.
        """
        return self.inner.decode(one_row(ids), skip_special_tokens=skip_special_tokens)

    def decode_batch(
        self, rows: Sequence[Ids] | torch.Tensor, skip_special_tokens: bool = True, target: bool = False
    ) -> list[str]:
        """The text of each of B rows, as `decode` gives it. A tensor is [B, T]."""
        return [self.decode(row, skip_special_tokens) for row in rows]

    def pieces(self, ids: Ids, target: bool = False) -> list[str]:
        """One readable string per id, special tokens included.

        Where a byte-level vocabulary splits a character, the bytes show in hexadecimal; an id beyond the vocabulary
        shows as its number, "<70>". Raises ValueError as `decode` does.
        """
        added = self.inner.get_added_tokens_decoder()
        byte_of = byte_characters() if isinstance(self.inner.decoder, decoders.ByteLevel) else {}

        def piece(i: int) -> str:
            token = self.inner.id_to_token(i)
            if token is None:
                return f"<{i}>"
            if i in added or not byte_of:
                return token
            return bytes(byte_of[character] for character in token).decode("utf-8", errors="backslashreplace")

        return [piece(i) for i in one_row(ids)]

    def save(self, folder: str | Path, name: str = "tokenizer") -> None:
        """Write `tokenizer.json` (the library's format) and `tokenizer_config.json` (Hugging Face's names)."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self.inner.save(str(folder / f"{name}.json"))
        ids = {kind: getattr(self, kind) for kind in SPECIALS}
        # without the class, transformers takes the one of the model's family, which may split the text otherwise
        config = {"tokenizer_class": "PreTrainedTokenizerFast"}
        config |= {f"{kind}_token": self.inner.id_to_token(i) for kind, i in ids.items() if i is not None}
        (folder / f"{name}_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, name: str = "tokenizer") -> "Tokenizer":
        """Read what `save` or Hugging Face wrote. Padding and cutting that the file asks for are switched off.

        Raises FileNotFoundError without the file, ValueError for one that the library cannot read.
        """
        file = Path(folder) / f"{name}.json"
        text = file.read_text(encoding="utf-8")
        try:
            inner = tokenizers.Tokenizer.from_str(text)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file} is not a tokenizer of the tokenizers library: {error}") from error
        inner.no_padding()
        inner.no_truncation()
        config = {**_json(file.parent / "special_tokens_map.json"), **_json(file.parent / f"{name}_config.json")}
        tokens = {kind: config.get(f"{kind}_token") for kind in SPECIALS}
        return cls(inner, {kind: _content(token) for kind, token in tokens.items() if token})

    def _rows(self, texts: list[str]) -> list[list[int]]:
        try:
            rows = [encoding.ids for encoding in self.inner.encode_batch_fast(texts)]
        except Exception as error:  # the library does not say which piece it missed
            unknown = next((piece for text in texts for piece in self._unknown(text)), None)
            if unknown is None:
                raise
            known = shorten(" ".join(map(repr, sorted(self.inner.get_vocab()))), 400)
            raise ValueError(
                f"text: {unknown!r} is unknown, and this tokenizer has no unk token; its {len(self)} tokens: {known}. "
                "Build it with unk=True, or from texts that hold everything"
            ) from error
        for text, row in zip(texts, rows, strict=True):
            if not row:
                raise ValueError(f"text={text!r} gives no token: a tokenizer without bos and eos needs some text")
        return rows

    def _unknown(self, text: str) -> list[str]:
        """The pieces of a text that the vocabulary lacks. Special tokens are cut out first, as the library does."""
        specials = (re.escape(token.content) for token in self.inner.get_added_tokens_decoder().values())
        normal, split = self.inner.normalizer, self.inner.pre_tokenizer
        pieces: list[str] = []
        for part in re.split("|".join(specials) or "(?!)", text):
            part = normal.normalize_str(part) if normal else part
            pieces += [piece for piece, _ in split.pre_tokenize_str(part)] if split else [part]
        return [piece for piece in pieces if piece and self.inner.token_to_id(piece) is None]


def one_row(ids: Ids) -> list[int]:
    """A list or 1-D tensor of ids as a list. Raises ValueError for more dimensions and for a negative id."""
    row = torch.as_tensor(ids)
    if row.ndim != 1:
        raise ValueError(f"ids is {list(row.shape)}, not one row: use decode_batch, or take the rows one by one")
    if (row < 0).any():
        raise ValueError(f"ids holds {int(row.min())}, which is no token: leave ignored labels out")
    return row.tolist()


def _json(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _content(token: Any) -> str:
    return token if isinstance(token, str) else token["content"]  # Hugging Face writes either
