"""Text to ids and back: one typed handle around the `tokenizers` library, for models of every kind."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import tokenizers
import torch
from tokenizers import decoders, models

from clearhead.text.batch import Side, pad
from clearhead.text.sentence_pieces import CLEAN, SentencePieces
from clearhead.text.settings import SPECIALS, Settings, read_settings

Ids = Sequence[int] | torch.Tensor


def byte_characters() -> dict[str, int]:
    """The printable character that stands for each byte in a byte-level vocabulary (Radford et al. 2019, GPT-2).

    Printable Latin-1 characters stand for themselves, the other bytes for the characters from U+0100 on, in order.
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


class Tokenizer:
    """A `tokenizers.Tokenizer` (`.inner`) and the ids of its special tokens, each or None.

    These are `pad`, `bos`, `eos`, `unk`, `mask`, `cls` and `sep`. `inner` is the `sentencepiece` library instead where
    a checkpoint comes in files that the other cannot express.

    A special token that is written out in a text ("<mask>", "</s>") becomes that token, as in Hugging Face.
    `target` is accepted wherever a Pair has a use for it, and changes nothing here.
    """

    def __init__(
        self,
        inner: tokenizers.Tokenizer | SentencePieces,
        specials: Mapping[str, str],
        templates: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """`specials` maps kinds ("pad", "bos" ...) to the tokens' texts, where there are any.

        `templates` are those for `chat`, by name. `files` are what `save` writes where `inner` has no file of its own.
        Raises ValueError for another kind, or for a token that the vocabulary does not hold.
        """
        for kind, token in specials.items():
            if kind not in SPECIALS:
                raise ValueError(f"specials[{kind!r}]: the kinds are {', '.join(SPECIALS)}")
            if inner.token_to_id(token) is None:
                raise ValueError(f"specials[{kind!r}]={token!r} is not in the vocabulary of {inner.get_vocab_size()}")
        self.inner = inner
        self._specials, self._templates, self._files = dict(specials), dict(templates or {}), dict(files or {})
        ids = {kind: inner.token_to_id(token) for kind, token in specials.items()}
        self.pad, self.bos, self.eos, self.unk, self.mask, self.cls, self.sep = (ids.get(kind) for kind in SPECIALS)

    def __len__(self) -> int:
        return self.inner.get_vocab_size()

    @property
    def vocab_size(self) -> int:
        """V, special tokens included."""
        return len(self)

    def __call__(
        self,
        texts: str | Sequence[str],
        target: bool = False,
        padding_side: Side = "right",
        add_special_tokens: bool = True,
    ) -> dict[str, torch.Tensor]:
        """B texts (one if a plain string) to `input_ids` and `attention_mask` (1 = keep), both int64 [B, T].

        A tokenizer without a pad token (GPT-2) fills with eos or 0: the mask hides the filling, so any id will do.
        Raises ValueError as `encode` does.
        """
        rows = self._rows([texts] if isinstance(texts, str) else list(texts), add_special_tokens)
        filling = next(i for i in (self.pad, self.eos, 0) if i is not None)
        ids, mask = pad(rows, filling, padding_side)
        return {"input_ids": ids, "attention_mask": mask}

    def encode(self, text: str, target: bool = False, add_special_tokens: bool = True) -> list[int]:
        """The ids of one text, with the special tokens that this tokenizer was built to add.

        The text of a `chat` holds them already: give it with `add_special_tokens=False`.
        Raises ValueError for a character or word that is unknown to a tokenizer without unk, and for a text of which
        no token is left.
        """
        return self._rows([text], add_special_tokens)[0]

    def encode_batch(
        self, texts: Sequence[str], target: bool = False, add_special_tokens: bool = True
    ) -> list[list[int]]:
        """The ids of each text, as `encode` gives them; the library uses all processors. Raises as `encode` does."""
        return self._rows(list(texts), add_special_tokens)

    def offsets(self, text: str, target: bool = False) -> list[tuple[int, int] | None]:
        """For each id of `encode(text)` the characters it comes from, `text[start:end]`.

        None where no character stands behind an id: a special token that was added, a blank put in front. Ids that
        share a character, as the bytes of an emoji do, each have its whole span. Raises ValueError as `encode` does.
        """
        self._rows([text])
        return [(start, end) if end > start else None for start, end in self.inner.encode(text).offsets]

    def chat(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool = False, **variables: Any) -> str:
        """A conversation as the text that the model was trained on, by the template that the tokenizer came with.

        messages: of "role" and "content" each. `add_generation_prompt` ends with the beginning of an answer. Further
        variables (tools=..., or what the template asks for) are plain data. As Hugging Face's `apply_chat_template`.
        Raises ValueError without a template, for no messages, and where the template refuses or fails.
        """
        from clearhead.text.chat import render  # Jinja takes 40 ms to import, which most models never need

        name = "tool_use" if variables.get("tools") is not None and "tool_use" in self._templates else "default"
        if name not in self._templates:
            raise ValueError(
                "this tokenizer has no chat template (chat_template.jinja, or chat_template in tokenizer_config.json); "
                "write the text yourself and give it to encode"
            )
        tokens = {f"{kind}_token": token for kind, token in self._specials.items()}
        known = {"tools": None, "documents": None, **tokens, "add_generation_prompt": add_generation_prompt}
        return render(self._templates[name], messages, {**known, **variables})

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
        inner, whole, byte_of = self.inner, frozenset[int](), dict[str, int]()
        if isinstance(inner, tokenizers.Tokenizer) and isinstance(inner.decoder, decoders.ByteLevel):
            whole, byte_of = frozenset(inner.get_added_tokens_decoder()), byte_characters()

        def piece(i: int) -> str:
            token = inner.id_to_token(i)
            if token is None:
                return f"<{i}>"
            if i in whole or not byte_of:
                return token
            return bytes(byte_of[character] for character in token).decode("utf-8", errors="backslashreplace")

        return [piece(i) for i in one_row(ids)]

    def save(self, folder: str | Path, name: str = "tokenizer") -> None:
        """Write `tokenizer.json` (the library's format) and `tokenizer_config.json` (Hugging Face's names).

        Transformers reads both. Where `inner` is `sentencepiece`, the files that it came in are written as they were.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(self.inner, SentencePieces):
            for file, content in self._files.items():
                (folder / file).write_bytes(content)
            return
        self.inner.save(str(folder / f"{name}.json"))
        # without the class, transformers takes the one of the model's family, which may split the text otherwise
        config: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast"}
        config |= {f"{kind}_token": self._specials[kind] for kind in SPECIALS if kind in self._specials}
        if self._templates:
            named = [{"name": name, "template": text} for name, text in self._templates.items()]
            config["chat_template"] = self._templates["default"] if [*self._templates] == ["default"] else named
        (folder / f"{name}_config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: str | Path, name: str = "tokenizer") -> "Tokenizer":
        """Read what `save` or Hugging Face wrote. Padding and cutting that the file asks for are switched off.

        A special token that the folder names, but that the vocabulary lacks, is added to it, as in Hugging Face.
        Raises FileNotFoundError without the file, ValueError for one that the library cannot read.
        """
        file = Path(folder) / f"{name}.json"
        text = file.read_bytes()
        try:
            inner = tokenizers.Tokenizer.from_buffer(text)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"{file} is not a tokenizer of the tokenizers library: {error}") from error
        inner.no_padding()
        inner.no_truncation()
        settings = read_settings(file.parent, name)
        specials = {kind: token for kind, token in settings.specials.items() if token}
        inner.add_special_tokens([t for t in specials.values() if inner.token_to_id(t.content) is None])
        clean_decoder(inner, settings)
        return cls(inner, {kind: token.content for kind, token in specials.items()}, settings.templates)

    def _rows(self, texts: list[str], add_special_tokens: bool = True) -> list[list[int]]:
        try:
            found = self.inner.encode_batch_fast(texts, add_special_tokens=add_special_tokens)
        except Exception as error:  # the library does not say which piece it missed
            inner = self.inner
            if isinstance(inner, SentencePieces):
                raise
            unknown = next((piece for text in texts for piece in _unknown(inner, text)), None)
            if unknown is None:
                raise
            known = shorten(" ".join(map(repr, sorted(inner.get_vocab()))), 400)
            raise ValueError(
                f"text: {unknown!r} is unknown, and this tokenizer has no unk token; its {len(self)} tokens: {known}. "
                "Build it with unk=True, or from texts that hold everything"
            ) from error
        rows = [encoding.ids for encoding in found]
        for text, row in zip(texts, rows, strict=True):
            if not row:
                raise ValueError(f"text={text!r} gives no token: a tokenizer without bos and eos needs some text")
        return rows


def _unknown(inner: tokenizers.Tokenizer, text: str) -> list[str]:
    """The pieces of a text that the vocabulary lacks. Special tokens are cut out first, as the library does."""
    specials = (re.escape(token.content) for token in inner.get_added_tokens_decoder().values())
    normal, split = inner.normalizer, inner.pre_tokenizer
    pieces: list[str] = []
    for part in re.split("|".join(specials) or "(?!)", text):
        part = normal.normalize_str(part) if normal else part
        pieces += [piece for piece, _ in split.pre_tokenize_str(part)] if split else [part]
    return [piece for piece in pieces if piece and inner.token_to_id(piece) is None]


def clean_decoder(inner: tokenizers.Tokenizer, settings: Settings) -> None:
    """Let the decoder take blanks in front of punctuation away, where the folder asks for it.

    Hugging Face does not do so for byte pairs, whose blanks are part of the text.
    """
    asked = settings.flag("clean_up_tokenization_spaces") and not isinstance(inner.model, models.BPE)
    if asked and inner.decoder is not None:
        close = [decoders.Replace(*pair) for pair in CLEAN]
        inner.decoder = decoders.Sequence([inner.decoder, decoders.Fuse(), *close])


def one_row(ids: Ids) -> list[int]:
    """A list or 1-D tensor of ids as a list. Raises ValueError for more dimensions and for a negative id."""
    row = torch.as_tensor(ids)
    if row.ndim != 1:
        raise ValueError(f"ids is {list(row.shape)}, not one row: use decode_batch, or take the rows one by one")
    if (row < 0).any():
        raise ValueError(f"ids holds {int(row.min())}, which is no token: leave ignored labels out")
    return row.tolist()
