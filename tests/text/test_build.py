"""The builders: ids, special tokens, round trips, files."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.build import (
    bpe_tokenizer,
    bytes_tokenizer,
    char_tokenizer,
    piece_tokenizer,
    unigram_tokenizer,
    word_tokenizer,
)
from clearhead.text.pair import Pair, saved
from clearhead.text.tokenizer import Tokenizer, byte_characters

CORPUS = ["the cat sat on the mat", "a cat, a hat:\n the Seán 🙂 地"]
BUILDERS: dict[str, Callable[..., Tokenizer]] = {
    "bytes": lambda **kw: bytes_tokenizer(**kw),
    "char": lambda **kw: char_tokenizer(CORPUS, **kw),
    "word": lambda **kw: word_tokenizer(CORPUS, **kw),
    "pieces": lambda **kw: piece_tokenizer(["the", " cat", " sat", " on", " the", " mat"], **kw),
    "bpe": lambda **kw: bpe_tokenizer(CORPUS, 280, **kw),
    "unigram": lambda **kw: unigram_tokenizer(CORPUS, 280, **kw),
}
EVERY = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
TEXT = "the cat sat on the mat"


@EVERY
def test_text_comes_back(build) -> None:
    for kw in ({}, {"bos": True}, {"eos": True}, {"bos": True, "eos": True, "mask": True}):
        tok = build(**kw)
        assert tok.decode(tok.encode(TEXT)) == TEXT


@EVERY
def test_the_first_ids_are_the_same_in_all(build) -> None:
    tok = build()
    assert (tok.pad, tok.bos, tok.eos, tok.unk, tok.mask) == (0, 1, 2, None, None)
    assert build(mask=True).mask == 3
    assert tok.pieces([0, 1, 2]) == ["<pad>", "<s>", "</s>"]
    assert sorted(tok.inner.get_vocab().values()) == list(range(len(tok))) == list(range(tok.vocab_size))


@EVERY
def test_bos_and_eos_stand_around_the_text_where_asked(build) -> None:
    plain = build().encode(TEXT)
    assert not {1, 2} & set(plain)
    assert build(bos=True).encode(TEXT) == [1, *plain]
    assert build(eos=True).encode(TEXT) == [*plain, 2]
    assert build(bos=True, eos=True).encode(TEXT) == [1, *plain, 2]


@EVERY
def test_a_written_special_token_is_that_token(build) -> None:
    tok = build(mask=True)
    ids = tok.encode("the</s> cat<mask>")
    assert ids.count(tok.eos) == 1
    assert ids[-1] == tok.mask
    assert tok.decode(ids) == "the cat"
    assert tok.decode(ids, skip_special_tokens=False).replace(" ", "") == "the</s>cat<mask>"


@EVERY
def test_nothing_to_encode(build) -> None:
    assert build(bos=True, eos=True).encode("") == [1, 2]
    assert build(eos=True)(["", "the"])["attention_mask"][0].sum() == 1
    with pytest.raises(ValueError, match="text='' gives no token"):
        build().encode("")
    with pytest.raises(ValueError, match="rows is empty"):
        build()([])


@EVERY
def test_trn_13_special_tokens_survive_the_file(build, tmp_path: Path) -> None:
    tok = build(bos=True, eos=True, mask=True)
    tok.save(tmp_path / "new" / "folder")
    again = saved(tmp_path / "new" / "folder")
    assert isinstance(again, Tokenizer)
    assert again.inner.get_vocab() == tok.inner.get_vocab()
    assert (again.pad, again.bos, again.eos, again.unk, again.mask) == (0, 1, 2, None, 3)
    assert again.encode(TEXT) == tok.encode(TEXT)
    assert again.decode(again.encode(TEXT)) == TEXT
    contents = [t["content"] for t in json.loads(again.inner.to_str())["added_tokens"]]
    assert contents == ["<pad>", "<s>", "</s>", "<mask>"]
    again.save(tmp_path / "second")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "new" / "folder" / name).read_bytes()


@EVERY
def test_transformers_reads_the_folder(build, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    tok = build(bos=True, eos=True, mask=True)
    tok.save(tmp_path)
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(TEXT)["input_ids"] == tok.encode(TEXT)
    assert theirs.decode(tok.encode(TEXT), skip_special_tokens=True) == TEXT
    ids = (theirs.pad_token_id, theirs.bos_token_id, theirs.eos_token_id, theirs.unk_token_id, theirs.mask_token_id)
    assert ids == (0, 1, 2, None, 3)
    assert len(theirs) == len(tok)
    plain = PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert plain(TEXT)["input_ids"] == tok.encode(TEXT)


@pytest.mark.parametrize("build", [BUILDERS["char"], BUILDERS["word"], BUILDERS["pieces"]])
def test_unk_survives_the_file_and_stands_for_the_unknown(build, tmp_path: Path) -> None:
    tok = build(unk=True, mask=True)
    assert (tok.unk, tok.mask) == (3, 4)
    assert tok.unk in tok.encode("the dog?")
    tok.save(tmp_path)
    assert Tokenizer.load(tmp_path).unk == 3
    assert Tokenizer.load(tmp_path).encode("the dog?") == tok.encode("the dog?")


def test_bytes_keep_their_order() -> None:
    tok = bytes_tokenizer()
    assert len(tok) == 259
    assert tok.encode("az\n") == [3 + ord("a"), 3 + ord("z"), 3 + ord("\n")]
    assert tok.encode("é") == [3 + 0xC3, 3 + 0xA9]
    assert set(byte_characters()) == set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    assert sorted(byte_characters().values()) == list(range(256))


@given(st.text(min_size=1))
def test_any_text_comes_back_from_bytes_and_bpe(text: str) -> None:
    for tok in (BYTES, BPE):
        assert tok.decode(tok.encode(text)) == text
        assert all(0 <= i < len(tok) for i in tok.encode(text))
    assert BYTES.encode(text) == [1, *(3 + byte for byte in text.encode()), 2]


BYTES, BPE = bytes_tokenizer(bos=True, eos=True), bpe_tokenizer(CORPUS, 280)


@given(st.text(min_size=1))
def test_any_text_comes_back_from_its_own_characters(text: str) -> None:
    tok = char_tokenizer([text])
    assert tok.pieces(tok.encode(text)) == list(text)
    assert tok.decode(tok.encode(text)) == text


def test_line_ends_and_joined_emoji_are_characters_each() -> None:
    text = "a\n\nb\r\n\r\n\u2028👩‍🚀e\u0301"
    tok = char_tokenizer([text])
    assert tok.pieces(tok.encode(text)) == list(text)


def test_characters_and_words_are_sorted_and_a_string_is_one_text() -> None:
    assert char_tokenizer("cab\n").pieces(range(3, 7)) == ["\n", "a", "b", "c"]
    assert word_tokenizer("see  a\tcat\na").pieces(range(3, 6)) == ["a", "cat", "see"]
    assert word_tokenizer("<s> a </s>").inner.get_vocab() == {"<pad>": 0, "<s>": 1, "</s>": 2, "a": 3}


def test_words_part_at_the_separator() -> None:
    tok = word_tokenizer(["forty-seven three"], r"[\s-]+")
    assert tok.pieces(tok.encode(" three-forty seven\n")) == ["three", "forty", "seven"]
    assert tok.decode(tok.encode("forty-seven")) == "forty seven"


def test_pieces_match_the_longest_first_and_may_hold_any_character() -> None:
    tok = piece_tokenizer(["ein", "eins", "und", " cent", "-vingt", "a|b", "(", ".*"])
    assert tok.pieces(tok.encode("einsundein cent-vingt")) == ["eins", "und", "ein", " cent", "-vingt"]
    assert tok.pieces(tok.encode("a|b(.*(")) == ["a|b", "(", ".*", "("]
    assert tok.decode(tok.encode("einsundein cent")) == "einsundein cent"
    assert tok.pieces(range(3, 6)) == ["ein", "eins", "und"]


def test_builders_refuse_empty_input() -> None:
    learned = (lambda texts: bpe_tokenizer(texts, 300), lambda texts: unigram_tokenizer(texts, 300))
    for build in (char_tokenizer, word_tokenizer, *learned):
        for texts in ([], [""], ""):
            with pytest.raises(ValueError, match="texts holds no character"):
                build(texts)
    with pytest.raises(ValueError, match="texts holds no character or word"):
        word_tokenizer([" \n"])
    for pieces in ([], ["a", ""]):
        with pytest.raises(ValueError, match="pieces must hold at least one piece"):
            piece_tokenizer(pieces)
    with pytest.raises(ValueError, match="vocab_size=258 is below 259: 256 bytes and 3 special tokens"):
        bpe_tokenizer(CORPUS, 258)


def test_bpe_is_the_same_in_every_process() -> None:
    script = (
        "from clearhead.text.build import bpe_tokenizer\n"
        "texts = [f'{a}{b} {b}{a}' for a in ('ab', 'cd', 'ef') for b in ('gh', 'ij', 'kl')]\n"
        "print(bpe_tokenizer(texts, 300).inner.to_str())\n"
    )

    def run(threads: str) -> str:
        env = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
        return subprocess.run(
            [sys.executable, "-c", script], env=env, check=True, capture_output=True, text=True
        ).stdout

    assert run("1") == run("4") != ""


def test_bpe_learns_what_the_texts_repeat() -> None:
    tok = bpe_tokenizer(["the cat, the cat, the hat"], 300, mask=True)
    assert tok.pieces(tok.encode("the cat the hat")) == ["the", " cat", " the", " hat"]
    assert 260 < len(tok) < 300, "there is nothing more to merge"
    assert len(bpe_tokenizer(CORPUS, 265)) == 265
    assert len(bpe_tokenizer(CORPUS, 259)) == 259


def test_unigram_learns_what_the_texts_repeat_and_knows_every_byte() -> None:
    tok = unigram_tokenizer([f"the cat {i} and the cats of cat {i * 7 % 31}" for i in range(200)], 320, bos=True)
    pieces = tok.pieces(tok.encode("the cat sat ω"))
    assert pieces[0] == "<s>"
    assert " cat" in pieces
    assert tok.decode(tok.encode(" ω\n\tz")) == " ω\n\tz"
    names = sorted(tok.inner.get_vocab(), key=tok.inner.token_to_id)
    assert names[3:] == sorted(names[3:])


def test_a_batch_is_its_texts_one_by_one() -> None:
    tok = bpe_tokenizer(CORPUS, 280, eos=True)
    assert tok.encode_batch(CORPUS) == [tok.encode(text) for text in CORPUS]
    plain = tok.encode_batch(CORPUS, add_special_tokens=False)
    assert plain == [tok.encode(text)[:-1] for text in CORPUS]
    pair = Pair(tok, char_tokenizer(CORPUS))
    assert pair.encode_batch(CORPUS, target=True) == [pair.encode(text, target=True) for text in CORPUS]
