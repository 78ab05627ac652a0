"""New tokenizers: bytes, characters, words, given pieces, or byte-level pieces (BPE, unigram).

Ids start with the special tokens: "<pad>" 0, "<s>" (bos) 1 and "</s>" (eos) 2 always exist, so that any two of these
tokenizers agree on them; "<unk>" and "<mask>" follow where asked for. `bos=True` puts "<s>" in front of every text and
`eos=True` puts "</s>" behind it. `unk=True` maps what is unknown to "<unk>"; without it, that is an error.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

import tokenizers
from tokenizers import Regex, decoders, models, pre_tokenizers, processors, trainers

from clearhead.text.tokenizer import Tokenizer, byte_characters


def bytes_tokenizer(*, bos: bool = False, eos: bool = False, mask: bool = False) -> Tokenizer:
    """The 256 bytes of UTF-8, in order: any text comes back, but for special tokens written out in it."""
    names = _names(mask=mask)
    byte_of = byte_characters()
    inner = tokenizers.Tokenizer(models.BPE(_vocabulary(names, sorted(byte_of, key=byte_of.__getitem__)), []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return _finish(inner, names, bos, eos)


def char_tokenizer(
    texts: Iterable[str], *, bos: bool = False, eos: bool = False, unk: bool = False, mask: bool = False
) -> Tokenizer:
    """Every character (code point) of the texts, sorted. Raises ValueError for texts without a character."""
    names = _names(unk, mask)
    characters = sorted({character for text in texts for character in text})
    inner = tokenizers.Tokenizer(_whole_pieces(names, characters))
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    inner.decoder = decoders.Fuse()
    return _finish(inner, names, bos, eos)


def word_tokenizer(
    texts: Iterable[str],
    separator: str = r"\s+",
    *,
    bos: bool = False,
    eos: bool = False,
    unk: bool = False,
    mask: bool = False,
) -> Tokenizer:
    """Every word of the texts, sorted; words are what stands between matches of `separator`, a regular expression.

    Decoding joins the words by single blanks. Raises ValueError for texts without a word.
    """
    names = _names(unk, mask)
    split = pre_tokenizers.Split(Regex(separator), "removed")
    words = sorted({word for line in _lines(texts) for word, _ in split.pre_tokenize_str(line)})
    inner = tokenizers.Tokenizer(_whole_pieces(names, words))
    inner.pre_tokenizer = split  # no decoder: the library joins by blanks
    return _finish(inner, names, bos, eos)


def piece_tokenizer(
    pieces: Sequence[str], *, bos: bool = False, eos: bool = False, unk: bool = False, mask: bool = False
) -> Tokenizer:
    """The given pieces, matched from left to right, the longest that fits; decoding joins them as they are.

    The pieces spell the text to the letter, so one that follows a blank holds it. Raises ValueError for no pieces, or
    for an empty one.
    """
    if not pieces or "" in pieces:
        raise ValueError("pieces must hold at least one piece, and no empty one")
    names = _names(unk, mask)
    inner = tokenizers.Tokenizer(_whole_pieces(names, pieces))
    longest_first = sorted(pieces, key=len, reverse=True)
    inner.pre_tokenizer = pre_tokenizers.Split(Regex("|".join(map(re.escape, longest_first))), "isolated")
    inner.decoder = decoders.Fuse()
    return _finish(inner, names, bos, eos)


def bpe_tokenizer(
    texts: Iterable[str], vocab_size: int, *, bos: bool = False, eos: bool = False, mask: bool = False
) -> Tokenizer:
    """Byte-level byte-pair encoding learned from the texts (Sennrich et al. 2016; Radford et al. 2019, GPT-2).

    It knows every byte, so nothing is unknown. The vocabulary is smaller than `vocab_size` where the texts hold no
    more pairs to merge. Raises ValueError for a size below the bytes and special tokens, and for empty texts.
    """
    names = _names(mask=mask)
    inner = _learned(models.BPE(), trainers.BpeTrainer, _lines(texts), vocab_size, names)
    return _finish(inner, names, bos, eos)


def unigram_tokenizer(
    texts: Iterable[str], vocab_size: int, *, bos: bool = False, eos: bool = False, mask: bool = False
) -> Tokenizer:
    """Byte-level pieces, of which each text gets the likeliest sequence (unigram language model, Kudo 2018).

    It knows every byte, so nothing is unknown. Ids follow the pieces' order. The library draws new hash seeds in each
    process, so the probabilities of a second call may differ in the third digit. Raises ValueError as `bpe_tokenizer`
    does.
    """
    names = _names(mask=mask)
    inner = _learned(models.Unigram(), trainers.UnigramTrainer, _lines(texts), vocab_size, names)
    # short numbers come back from the file as they were
    pieces = [(piece, round(score, 4)) for piece, score in json.loads(inner.to_str())["model"]["vocab"]]
    inner.model = models.Unigram([*pieces[: len(names)], *sorted(pieces[len(names) :])])
    return _finish(inner, names, bos, eos)


def _learned(
    model: models.Model, trainer: Any, lines: list[str], vocab_size: int, names: dict[str, str]
) -> tokenizers.Tokenizer:
    """A byte-level model of the library, learned from the lines."""
    if not any(lines):
        raise ValueError("texts holds no character: there is nothing to learn from")
    least = 256 + len(names)
    if vocab_size < least:
        raise ValueError(f"vocab_size={vocab_size} is below {least}: 256 bytes and {len(names)} special tokens")
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    asked = {"vocab_size": vocab_size, "special_tokens": list(names.values()), "show_progress": False}
    inner.train_from_iterator(lines, trainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **asked))
    return inner


def _lines(texts: Iterable[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _names(unk: bool = False, mask: bool = False) -> dict[str, str]:
    names = {"pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    return names | ({"unk": "<unk>"} if unk else {}) | ({"mask": "<mask>"} if mask else {})


def _vocabulary(names: dict[str, str], units: Sequence[str]) -> dict[str, int]:
    if not units:
        raise ValueError("texts holds no character or word: there is nothing to learn from")
    return {token: i for i, token in enumerate(dict.fromkeys([*names.values(), *units]))}


def _whole_pieces(names: dict[str, str], units: Sequence[str]) -> models.WordLevel:
    return models.WordLevel(_vocabulary(names, units), unk_token="<unk>")  # used only if the vocabulary holds it


def _finish(inner: tokenizers.Tokenizer, names: dict[str, str], bos: bool, eos: bool) -> Tokenizer:
    """Name the special tokens, and let the library (and so the file) add bos and eos."""
    inner.add_special_tokens(list(names.values()))
    template = [names["bos"]] * bos + ["$A"] + [names["eos"]] * eos
    known = [(names[kind], inner.token_to_id(names[kind])) for kind in ("bos", "eos")]
    inner.post_processor = processors.TemplateProcessing(single=" ".join(template), special_tokens=known)
    return Tokenizer(inner, names)
