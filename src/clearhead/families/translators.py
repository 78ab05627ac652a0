"""Tokenizers of translation checkpoints: a language code beside every text, or a model for each language.

Where the folder names two languages, the two sides are a `Pair`; else all text is in the source's.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken

from clearhead.families.languages import M2M100, MBART, MBART50, WMT21
from clearhead.families.layouts import ALL, BPE, FAIRSEQ, SMALL, fairseq, one_blank, stated
from clearhead.text.pair import Pair
from clearhead.text.piece_model import read_piece_model
from clearhead.text.sentence_pieces import SentencePieces
from clearhead.text.settings import Settings
from clearhead.text.tokenizer import Tokenizer
from clearhead.text.vocabulary import blank_pairs, charsmap, finish, own_tokens, read_vocabulary, unigrams

CLEAN_UP = "clean_up_tokenization_spaces"
MASK = AddedToken("<mask>", lstrip=True, normalized=True)
TARGET_VOCAB = "target_vocab.json"


def mbart(folder: Path, settings: Settings) -> Tokenizer | Pair:
    """The language stands behind a text. Transformers 5 leaves the model's own normaliser out here; we do not."""
    model = read_piece_model(folder / BPE)

    def side(language: str) -> Tokenizer:
        inner = unigrams(fairseq(model, settings, [*MBART, "<mask>"]), 3, charsmap(model))
        inner.add_special_tokens([*MBART, MASK])
        return finish(inner, settings, ALL, after=["eos", language], extra=own_tokens(model))

    return _sides(settings, "en_XX", side)


def mbart50(folder: Path, settings: Settings) -> Tokenizer | Pair:
    """The language stands before a text."""
    model = read_piece_model(folder / BPE)
    defaults = {kind: token for kind, token in ALL.items() if kind != "bos"}

    def side(language: str) -> Tokenizer:
        pieces = fairseq(model, settings, [*MBART50, "<mask>"])
        inner = unigrams(pieces, 3, [*charsmap(model), one_blank()], words=False)
        inner.add_special_tokens([*MBART50, MASK])
        return finish(inner, settings, defaults, [language], ["eos"], own_tokens(model))

    return _sides(settings, "en_XX", side)


def nllb(folder: Path, settings: Settings) -> Tokenizer | Pair:
    """The language stands before a text; the folder lists the codes, which come behind the model's pieces."""
    model = read_piece_model(folder / BPE)
    first = [stated(settings, kind, token) for kind, token in FAIRSEQ.items()]
    codes = [token.content for token in settings.extra]
    vocab = {token: i for i, token in enumerate(dict.fromkeys([*first, *model.vocab, *codes]))}
    normal = [*charsmap(model), one_blank()] if model.charsmap else []

    def side(language: str) -> Tokenizer:
        inner = blank_pairs(vocab, first[3], normal)
        inner.add_special_tokens([*codes, MASK])
        return finish(inner, settings, ALL, [language], ["eos"], own_tokens(model))

    return _sides(settings, "eng_Latn", side)


def m2m100(folder: Path, settings: Settings) -> Tokenizer | Pair:
    """The language, as "__en__", stands before a text; the codes come behind the vocabulary."""
    vocab, model = read_vocabulary(folder / "vocab.json"), (folder / BPE).read_bytes()
    languages = WMT21 if settings.config.get("language_codes") == "wmt21" else M2M100
    codes = [f"__{language}__" for language in languages]
    vocab |= {code: len(vocab) + i for i, code in enumerate(codes)}
    files = _files(folder, settings, "M2M100Tokenizer", ("vocab.json", BPE))
    clean = settings.flag(CLEAN_UP)

    def side(language: str) -> Tokenizer:
        names = _names(settings, FAIRSEQ | {"sep": "</s>"}, vocab)
        inner = SentencePieces(
            model, vocab, names["unk"], [*names.values(), *codes], [f"__{language}__"], [names["eos"]], clean=clean
        )
        return Tokenizer(inner, names, settings.templates, files)

    return _sides(settings, "en", side)


def marian(folder: Path, settings: Settings) -> Pair:
    """A model for each language, and one vocabulary or two. A text may begin with the language to write, ">>deu<<"."""
    source = read_vocabulary(folder / "vocab.json")
    apart = settings.flag("separate_vocabs")
    target = read_vocabulary(folder / TARGET_VOCAB) if apart else source
    names = ("vocab.json", "source.spm", "target.spm", *((TARGET_VOCAB,) if apart else ()))
    files = _files(folder, settings, "MarianTokenizer", names)
    clean = settings.flag(CLEAN_UP)

    def side(file: str, vocab: dict[str, int]) -> Tokenizer:
        names = _names(settings, SMALL, vocab)
        model = (folder / file).read_bytes()
        inner = SentencePieces(model, vocab, names["unk"], [*names.values()], [], [names["eos"]], ">>.*?<<", " ", clean)
        return Tokenizer(inner, names, settings.templates, files)

    return Pair(side("source.spm", source), side("target.spm", target))


def _sides(settings: Settings, usual: str, side: Callable[[str], Tokenizer]) -> Tokenizer | Pair:
    source, target = settings.config.get("src_lang") or usual, settings.config.get("tgt_lang")
    return Pair(side(source), side(target)) if target and target != source else side(source)


def _names(settings: Settings, defaults: dict[str, str], vocab: dict[str, int]) -> dict[str, str]:
    names = {kind: token.content for kind, token in settings.specials.items() if token}
    return {**{kind: token for kind, token in defaults.items() if token in vocab}, **names}


def _files(folder: Path, settings: Settings, name: str, files: tuple[str, ...]) -> dict[str, bytes]:
    """What the folder holds, for `save`; the class is named, so that the files are read alone as they are here."""
    config: dict[str, Any] = {**settings.config, "tokenizer_class": name}
    further = [file for file in ("special_tokens_map.json", "added_tokens.json") if (folder / file).is_file()]
    content = {file: (folder / file).read_bytes() for file in (*files, *further)}
    return {**content, "tokenizer_config.json": (json.dumps(config, indent=2) + "\n").encode()}
