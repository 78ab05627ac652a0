"""Tokenizers from the files of every class: the home library's ids and text, for hundreds of texts each."""

import json
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings

from clearhead.families.tokenizers import load_tokenizer
from clearhead.text.pair import Pair
from families.kinds import ANY_TEXT, KINDS, TEXTS, both, same


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_text_are_the_home_librarys(kind: str) -> None:
    theirs, ours = both(kind)
    for text in TEXTS:
        same(theirs, ours, text)

    @settings(max_examples=300)
    @given(ANY_TEXT)
    def check(text: str) -> None:
        same(theirs, ours, text)

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_special_ids_are_the_home_librarys(kind: str) -> None:
    theirs, ours = both(kind)
    one = ours.source if isinstance(ours, Pair) else ours
    for name in ("pad", "bos", "eos", "unk", "mask", "cls", "sep"):
        assert getattr(one, name) == getattr(theirs, f"{name}_token_id"), name


@pytest.mark.parametrize("kind", ["m2m100", "marian", "marian apart", "mbart50"])
def test_the_target_side_is_the_home_librarys(kind: str) -> None:
    theirs, ours = both(kind)
    assert isinstance(ours, Pair)
    for text in TEXTS:
        same(theirs, ours, text, target=True)
    assert ours.encode("Brot 123", target=True) != ours.encode("Brot 123")


@pytest.mark.parametrize("kind", KINDS)
def test_trn_13_what_we_save_the_home_library_reads(kind: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    _, ours = both(kind)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": KINDS[kind][1]}))
    ours.save(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        theirs = AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        same(theirs, ours, text)
    again = load_tokenizer(tmp_path)
    assert type(again) is type(ours)
    assert [again.encode(text) for text in TEXTS if text.strip()] == [
        ours.encode(text) for text in TEXTS if text.strip()
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_vis_10_offsets_point_at_the_characters(kind: str) -> None:
    """What an id decodes to, cut out of the text: the same letters, but for blanks, case and normal forms."""
    _, ours = both(kind)
    for text in ("Hello world 🙂 the cat", "the 人工 cat  x", "  größte Straße"):
        spans, ids = ours.offsets(text), ours.encode(text)
        assert len(spans) == len(ids)
        covered = set[int]()
        for span, i in zip(spans, ids, strict=True):
            if span is None:
                continue
            covered |= set(range(*span))
            piece, cut = ours.decode([i], target=False).strip(), text[slice(*span)].strip()
            if piece.isascii() and piece.isalpha() and cut.isascii():
                assert piece.lower() == cut.lower()
        assert {at for at, character in enumerate(text) if not character.isspace()} <= covered


@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma"])
def test_vis_10_ids_that_share_a_character_share_its_span(kind: str) -> None:
    _, ours = both(kind)
    spans = ours.offsets("x🚀y")  # an emoji that was never seen
    assert [*dict.fromkeys(spans)] == [None] * ("gemma" in kind) + [(0, 1), (1, 2), (2, 3)]
    assert spans.count((1, 2)) > 2


def test_added_tokens_stand_for_no_character() -> None:
    _, ours = both("bert")
    assert ours.offsets("the cat") == [None, (0, 3), (4, 7), None]
    assert ours.offsets("the [MASK]") == [None, (0, 3), (4, 10), None]
    _, ours = both("m2m100")
    assert ours.offsets("the</s>cat")[:3] == [None, (0, 3), (3, 7)]
    assert ours.offsets("the", target=True)[0] is None


@pytest.mark.parametrize("kind", ["gpt2", "qwen2", "whisper", "bert", "bert cased", "t5", "albert", "pegasus", "llama"])
def test_vis_10_offsets_are_the_home_librarys(kind: str) -> None:
    """Where it has any: SentencePiece's own are not known to it. (RoBERTa's leave out the blank before a word.)"""
    theirs, ours = both(kind)
    for text in TEXTS:
        if theirs(text)["input_ids"]:
            spans = [
                span if span[1] > span[0] else None
                for span in theirs(text, return_offsets_mapping=True)["offset_mapping"]
            ]
            assert ours.offsets(text) == spans
