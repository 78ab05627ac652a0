"""Tokenizers from other vocabulary files than tokenizer.json, as pipelines of the `tokenizers` library.

Byte-level pairs (vocab.json and merges.txt; Radford et al. 2019), word pieces (vocab.txt; Wu et al. 2016), and
SentencePiece's unigrams and pairs (Kudo 2018). What a checkpoint adds to each, its own class decides.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from clearhead.text.batch import read_lines
from clearhead.text.piece_model import CONTROL, USER, PieceModel
from clearhead.text.settings import Settings, json_object
from clearhead.text.tokenizer import Tokenizer, clean_decoder

BLANK = "▁"  # U+2581, SentencePiece's blank


def read_vocabulary(file: Path) -> dict[str, int]:
    """Tokens and their ids. Raises ValueError, naming the file, unless it maps tokens to ids, none of them twice."""
    found = json_object(file)
    ids = set(found.values()) if all(type(i) is int and 0 <= i < 1 << 31 for i in found.values()) else set[int]()
    if not found or len(ids) < len(found):
        raise ValueError(
            f"{file} does not give each of its {len(found)} tokens an id of its own; copy the folder again"
        )
    return found


def read_word_pieces(file: Path) -> dict[str, int]:
    """The pieces of vocab.txt, one a line. Raises ValueError, naming the file, for one that is empty or not UTF-8."""
    try:
        found = {line: i for i, line in enumerate(read_lines(file))}
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error}; copy the folder again") from error
    if not found:
        raise ValueError(f"{file} is empty; copy the folder again")
    return found


def read_merges(file: Path, vocab: Mapping[str, int]) -> list[tuple[str, str]]:
    """The pairs of merges.txt, in order. Raises ValueError, naming file and line, for no pair of the vocabulary."""
    try:
        lines = read_lines(file)
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8: {error}; copy the folder again") from error
    pairs: list[tuple[str, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line or line.startswith("#version"):
            continue
        left, _, right = line.partition(" ")
        if any(token not in vocab for token in (left, right, left + right)):
            raise ValueError(f"{file}, line {number}: {line!r} is no pair of tokens in the vocabulary of {len(vocab)}")
        pairs.append((left, right))
    return pairs


def byte_pairs(
    vocab: dict[str, int], merges: list[tuple[str, str]], prefix_space: bool = False, split: str | None = None
) -> tokenizers.Tokenizer:
    """Byte-level pairs; `split` is the regular expression of the stretches that no merge crosses (None: GPT-2's)."""
    inner = tokenizers.Tokenizer(models.BPE(vocab, merges))
    level = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space, use_regex=split is None)
    first = [] if split is None else [pre_tokenizers.Split(Regex(split), "isolated")]
    inner.pre_tokenizer = pre_tokenizers.Sequence([*first, level])
    inner.decoder = decoders.ByteLevel()
    return inner


def word_pieces(
    vocab: dict[str, int], unk: str, lower: bool = True, strip_accents: bool = True, chinese: bool = True
) -> tokenizers.Tokenizer:
    """Words and the pieces ("##ing") that continue them. `chinese` makes each of its characters a word.

    Raises ValueError if the vocabulary lacks `unk`.
    """
    if unk not in vocab:
        raise ValueError(f"the vocabulary of {len(vocab)} word pieces lacks the unknown token {unk!r}")
    inner = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=unk))
    inner.normalizer = normalizers.BertNormalizer(True, chinese, strip_accents, lower)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    return inner


def unigrams(
    pieces: Sequence[tuple[str, float]], unk: int, normal: Sequence[Any], words: bool = True
) -> tokenizers.Tokenizer:
    """The most probable pieces (Kudo 2018). `words` splits at any white space, else blanks alone are looked at."""
    inner = tokenizers.Tokenizer(models.Unigram(list(pieces), unk, False))
    _sentence(inner, normal, words)
    return inner


def blank_pairs(vocab: dict[str, int], unk: str, normal: Sequence[Any]) -> tokenizers.Tokenizer:
    """SentencePiece's pairs, within words."""
    inner = tokenizers.Tokenizer(models.BPE(vocab, merges_of(vocab), unk_token=unk, fuse_unk=True))
    _sentence(inner, normal, words=False)
    return inner


def byte_fallback_pairs(vocab: dict[str, int], unk: str | None, prepend: str | None) -> tokenizers.Tokenizer:
    """SentencePiece's pairs over a whole text, with the bytes ("<0x0A>") of what is unknown.

    `prepend` puts a blank in front of the "first" or of "always" every stretch between special tokens, or None.
    """
    pairs = models.BPE(vocab, merges_of(vocab), unk_token=unk, fuse_unk=True, byte_fallback=True)
    inner = tokenizers.Tokenizer(pairs)
    back: list[Any] = [decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prepend is None:
        inner.normalizer = normalizers.Replace(" ", BLANK)
    else:
        inner.pre_tokenizer = pre_tokenizers.Metaspace(BLANK, prepend, split=False)
        back.append(decoders.Strip(" ", 1, 0))
    inner.decoder = decoders.Sequence(back)
    return inner


def charsmap(model: PieceModel) -> list[normalizers.Normalizer]:
    """The model's own replacement of characters (mostly NFKC), where it has one."""
    return [normalizers.Precompiled(model.charsmap)] if model.charsmap else []


def merges_of(vocab: Mapping[str, int]) -> list[tuple[str, str]]:
    """All pairs that make up a piece, in the order of the pieces: SentencePiece's file lists no merges.

    The first merge learned has the lowest id.
    """
    return [
        (left, right)
        for piece in sorted(vocab, key=vocab.__getitem__)
        for cut in range(1, len(piece))
        if (left := piece[:cut]) in vocab and (right := piece[cut:]) in vocab
    ]


def own_tokens(model: PieceModel) -> list[AddedToken]:
    """The pieces that SentencePiece's trainer was told: control symbols, which are special, and whole ones."""
    told = [
        (piece, kind) for (piece, _), kind in zip(model.pieces, model.kinds, strict=True) if kind in (CONTROL, USER)
    ]
    return [AddedToken(piece, normalized=False, special=kind == CONTROL) for piece, kind in told]


def finish(
    inner: tokenizers.Tokenizer,
    settings: Settings,
    defaults: Mapping[str, str],
    before: Sequence[str] = (),
    after: Sequence[str] = (),
    extra: Sequence[AddedToken] = (),
) -> Tokenizer:
    """Add the special tokens, and what stands `before` and `after` every text: kinds ("bos") or tokens ("<|de|>").

    A special token that the folder names is added if the vocabulary lacks it; one of `defaults`, by kind, is used only
    if it is there, and if the folder says nothing of its kind. Raises ValueError for an added token whose id is not
    the next one, and for a token to add to every text that does not exist.
    """
    for i, token in settings.added:
        add = inner.add_special_tokens if token.special else inner.add_tokens
        add([token])
        if inner.token_to_id(token.content) != i:
            raise ValueError(
                f"the folder gives the added token {token.content!r} the id {i}, but in its vocabulary it comes to "
                f"{inner.token_to_id(token.content)}; the files do not belong together"
            )
    there = {token.content: token for token in inner.get_added_tokens_decoder().values()}
    usual = {kind: there.get(text, AddedToken(text, normalized=False)) for kind, text in defaults.items()}
    usual = {kind: token for kind, token in usual.items() if inner.token_to_id(token.content) is not None}
    specials = {kind: token for kind, token in {**usual, **settings.specials}.items() if token is not None}
    inner.add_special_tokens([*specials.values(), *settings.extra])
    inner.add_tokens(list(extra))
    names = {kind: token.content for kind, token in specials.items()}
    around = [[names.get(token, token) for token in tokens] for tokens in (before, after)]
    found = {token: inner.token_to_id(token) for tokens in around for token in tokens}
    for token, i in found.items():
        if i is None:
            raise ValueError(
                f"every text should get the token {token!r}, but the vocabulary of {len(inner.get_vocab())} lacks it"
            )
    inner.post_processor = processors.TemplateProcessing(
        single=[*around[0], "$A", *around[1]], special_tokens=list(found.items())
    )
    clean_decoder(inner, settings)
    return Tokenizer(inner, names, settings.templates)


def _sentence(inner: tokenizers.Tokenizer, normal: Sequence[Any], words: bool) -> None:
    first = [pre_tokenizers.WhitespaceSplit()] if words else []
    inner.normalizer = normalizers.Sequence(list(normal)) if normal else None
    inner.pre_tokenizer = pre_tokenizers.Sequence([*first, pre_tokenizers.Metaspace(BLANK, "always")])
    inner.decoder = decoders.Metaspace(BLANK, "always")
