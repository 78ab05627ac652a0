"""Tokenizers of many languages: the source and the target are chosen at run time, as in the home library."""

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

import clearhead
import families.vocabularies as make
from clearhead.families.languages import M2M100
from clearhead.families.tokenizers import load_tokenizer
from clearhead.generation.text import stream_text
from clearhead.text.build import word_tokenizer
from clearhead.text.language import languages
from clearhead.text.pair import Pair
from clearhead.text.tokenizer import Tokenizer
from families.kinds import HOME, both

NLLB = ["ace_Arab", "deu_Latn", "eng_Latn", "fra_Latn"]
LISTED = {"additional_special_tokens": [f"__{code}__" for code in M2M100]}
# The files, model_type, settings, and three codes: that of the folder, of a text, of what is written.
KINDS: dict[str, tuple[dict[str, Any], str, dict[str, Any], tuple[str, str, str]]] = {
    "mbart": (
        {"sentencepiece.bpe.model": make.unigram()},
        "mbart",
        {"tokenizer_class": "MBartTokenizer"},
        ("en_XX", "ro_RO", "de_DE"),
    ),
    "mbart50": (
        {"sentencepiece.bpe.model": make.unigram()},
        "mbart",
        {"tokenizer_class": "MBart50Tokenizer", "src_lang": "fr_XX", "tgt_lang": "ar_AR"},
        ("fr_XX", "sl_SI", "de_DE"),
    ),
    "m2m100": (
        make.many_languages(),
        "m2m_100",
        {"tokenizer_class": "M2M100Tokenizer", "src_lang": "fr", "tgt_lang": "de", **LISTED},
        ("fr", "ast", "zu"),
    ),
    "nllb": (
        {"sentencepiece.bpe.model": make.byte_fallback()},
        "m2m_100",
        {"tokenizer_class": "NllbTokenizer", "additional_special_tokens": NLLB},
        ("eng_Latn", "deu_Latn", "ace_Arab"),
    ),
}


@cache
def folder(kind: str) -> Path:
    files, model_type, config, _ = KINDS[kind]
    return make.write(Path(HOME.name) / f"languages-{kind}", files, model_type, **config)


@cache
def saved(kind: str) -> Path:
    """As most of these checkpoints come: with a tokenizer.json, which has one language built in."""
    home(kind).save_pretrained(place := Path(HOME.name) / f"languages-{kind}-saved")
    return place


def home(kind: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return hf.AutoTokenizer.from_pretrained(folder(kind))


def source(found: Tokenizer | Pair | None) -> Tokenizer:
    assert found is not None
    return found.source if isinstance(found, Pair) else found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [folder, saved], ids=["files", "saved"])
def test_ids_are_the_home_librarys_in_any_language(kind: str, place: Any) -> None:
    own, text_code, _ = KINDS[kind][3]
    theirs, ours = home(kind), source(load_tokenizer(place(kind)))
    known = languages(ours)
    assert known is not None
    assert known.own == own
    if place is folder and kind == "nllb":  # counts the mask first, see test_tokenizer_folders
        theirs = hf.AutoTokenizer.from_pretrained(saved(kind))
    for code in (own, text_code):
        theirs.src_lang = code
        token = f"__{code}__" if kind == "m2m100" else code
        shift = known.ids[code] - theirs.convert_tokens_to_ids(token)
        assert shift == 0 or (kind, place) == ("nllb", folder)
        for text in ("Hello world", "the  cat sat", "x"):
            ids = known.placed(ours.encode(text), known.chosen("src_lang", code))
            wanted = theirs(text)["input_ids"]
            wanted[0] += shift
            assert ids == wanted


@pytest.mark.parametrize("kind", ["gpt2", "bert", "t5", "llama", "xlm-roberta", "marian", "whisper"])
def test_others_put_no_language_beside_a_text(kind: str) -> None:
    _, ours = both(kind)
    assert languages(source(ours)) is None


def translator(kind: str, place: Path) -> Any:
    """A tiny model for the tokenizer in a folder; its folder's config says M2M100 or mBART."""
    size = len(source(load_tokenizer(place))) + 3
    torch.manual_seed(1)
    stacks = {f"{side}_{key}": n for side in ("encoder", "decoder") for key, n in
              {"layers": 1, "attention_heads": 2, "ffn_dim": 16}.items()}  # fmt: skip
    ids = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2, "decoder_start_token_id": 2}
    ids["forced_eos_token_id"] = None
    name = "MBart" if kind.startswith("mbart") else "M2M100"
    config = getattr(hf, f"{name}Config")(vocab_size=size, d_model=16, init_std=0.5, **stacks, **ids)
    model = getattr(hf, f"{name}ForConditionalGeneration")(config).eval()
    model.save_pretrained(place)
    return model


@pytest.mark.parametrize("kind", ["mbart", "mbart50", "m2m100"])
def test_a_translation_from_and_into_any_language(kind: str, tmp_path: Path) -> None:
    files, model_type, config, (own, text_code, written) = KINDS[kind]
    place = make.write(tmp_path / "m", files, model_type, **config)
    theirs, tokenizer = translator(kind, place), home(kind)
    ours, text = clearhead.load(place), "the cat sat on the mat"
    token = {code: f"__{code}__" if kind == "m2m100" else code for code in (own, text_code, written, "de", "ar_AR")}
    asked = "decoder_start_token_id" if kind == "mbart" else "forced_bos_token_id"
    default = {"mbart50": "ar_AR", "m2m100": "de"}.get(kind)  # what the folder says
    for chosen, read, write in (
        ({"src_lang": text_code, "tgt_lang": written}, text_code, written),
        ({"tgt_lang": written}, own, written),
        ({}, own, default),
    ):
        tokenizer.src_lang = read
        begun = {} if write is None else {asked: tokenizer.convert_tokens_to_ids(token[write])}
        found = theirs.generate(
            **tokenizer(text, return_tensors="pt"), **begun, max_new_tokens=9, num_beams=1, suppress_tokens=[1]
        )
        expected = tokenizer.decode(found[0], skip_special_tokens=True)
        assert clearhead.translate(ours, text, max_new_tokens=9, **chosen) == expected
        assert "".join(stream_text(ours, text, max_new_tokens=9, **chosen)).strip() == expected.strip()
    options: Any = {"src_lang": text_code, "tgt_lang": written, "max_new_tokens": 9}
    batch = clearhead.translate(ours, [text, "x"], **options)
    assert batch == [clearhead.translate(ours, one, **options) for one in (text, "x")]


def test_languages_that_are_not_known(tmp_path: Path) -> None:
    files, model_type, config, _ = KINDS["m2m100"]
    place = make.write(tmp_path / "m", files, model_type, **config)
    translator("m2m100", place)
    model = clearhead.load(place)
    with pytest.raises(ValueError, match=r"src_lang is 'de_DE'; did you mean 'de'\? known are af, am, ar, .*, zu$"):
        clearhead.translate(model, "x", src_lang="de_DE")
    with pytest.raises(ValueError, match=r"tgt_lang is 'German'; known are af, am, "):
        clearhead.translate(model, "x", tgt_lang="German")
    model.tokenizer = word_tokenizer("a b", eos=True)
    with pytest.raises(ValueError, match=r"tgt_lang is 'de', but this tokenizer puts no language beside a text"):
        clearhead.translate(model, "a", tgt_lang="de")
