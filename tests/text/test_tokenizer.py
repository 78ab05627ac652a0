"""The handle around a tokenizer, and the builders: ids, special tokens, unknown text, files."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.build import bpe_tokenizer, bytes_tokenizer, char_tokenizer, piece_tokenizer, word_tokenizer
from clearhead.text.pair import load_tokenizer
from clearhead.text.tokenizer import Tokenizer, byte_characters

CORPUS = ["the cat sat on the mat", "a cat, a hat:\n the Seán 🙂 地"]
BUILDERS: dict[str, Callable[..., Tokenizer]] = {
    "bytes": lambda **kw: bytes_tokenizer(**kw),
    "char": lambda **kw: char_tokenizer(CORPUS, **kw),
    "word": lambda **kw: word_tokenizer(CORPUS, **kw),
    "pieces": lambda **kw: piece_tokenizer(["the", " cat", " sat", " on", " the", " mat"], **kw),
    "bpe": lambda **kw: bpe_tokenizer(CORPUS, 280, **kw),
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
    again = load_tokenizer(tmp_path / "new" / "folder")
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


def test_trn_08_an_unknown_character_is_named() -> None:
    tok = char_tokenizer(["abc"], bos=True)
    with pytest.raises(ValueError, match=r"text: '\?' is unknown.* no unk token.*'a' 'b' 'c'.*unk=True"):
        tok.encode("ab?</s>!")
    with pytest.raises(ValueError, match="'!' is unknown"):
        tok(["ab", "</s>c!"])
    assert char_tokenizer(["abc"], unk=True).pieces(char_tokenizer(["abc"], unk=True).encode("a?b")) == [
        "a",
        "<unk>",
        "b",
    ]


def test_trn_08_an_unknown_word_or_stretch_is_named() -> None:
    with pytest.raises(ValueError, match="'dog' is unknown"):
        word_tokenizer(CORPUS).encode("the dog sat")
    with pytest.raises(ValueError, match="'zwei' is unknown"):
        piece_tokenizer(["ein", "und"]).encode("einundzwei")


def test_trn_08_the_list_of_what_is_known_stays_short() -> None:
    with pytest.raises(ValueError, match="is unknown") as error:
        word_tokenizer([f"word{i}" for i in range(5000)]).encode("other")
    assert len(str(error.value)) < 700
    assert "5003 tokens" in str(error.value)


def test_a_failure_of_the_library_that_is_not_about_unknown_text_stays_as_it_is() -> None:
    with pytest.raises(TypeError):
        char_tokenizer(["abc"]).encode(3)  # type: ignore[arg-type]


def test_the_unknown_is_found_behind_a_normalizer_and_without_a_splitter() -> None:
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}))
    with pytest.raises(ValueError, match="'A b' is unknown"):
        Tokenizer(inner, {}).encode("A b")
    inner.normalizer = tokenizers.normalizers.Lowercase()
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    with pytest.raises(ValueError, match="'c' is unknown"):
        Tokenizer(inner, {}).encode("A b C")


def test_a_call_gives_what_a_model_takes() -> None:
    tok = char_tokenizer(["abc"], eos=True)
    batch = tok(["abc", "a"])
    assert list(batch) == ["input_ids", "attention_mask"]
    assert batch["input_ids"].tolist() == [[3, 4, 5, 2], [3, 2, 0, 0]]
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 1], [1, 1, 0, 0]]
    assert batch["input_ids"].dtype == batch["attention_mask"].dtype == torch.int64
    assert tok("ab")["input_ids"].tolist() == [[3, 4, 2]]
    assert tok(["abc", "a"], padding_side="left")["input_ids"].tolist() == [[3, 4, 5, 2], [0, 0, 3, 2]]
    assert torch.equal(tok("ab", target=True)["input_ids"], tok("ab")["input_ids"])
    assert tok.encode("ab", target=True) == tok.encode("ab")


def test_without_a_pad_token_the_mask_hides_eos_or_zero() -> None:
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "<end>": 2}))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    batch = Tokenizer(inner, {"eos": "<end>"})(["a b", "b"])
    assert batch["input_ids"].tolist() == [[0, 1], [1, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1], [1, 0]]
    assert Tokenizer(inner, {})(["a b", "b"])["input_ids"].tolist() == [[0, 1], [1, 0]]


def test_decode_takes_one_row_and_decode_batch_many() -> None:
    tok = char_tokenizer(["abc"], bos=True, eos=True)
    ids = tok(["abc", "b"])["input_ids"]
    assert tok.decode(ids[0]) == tok.decode(ids[0].tolist()) == "abc"
    assert tok.decode_batch(ids) == tok.decode_batch(ids.tolist()) == ["abc", "b"]
    assert tok.decode_batch(ids, skip_special_tokens=False) == ["<s>abc</s>", "<s>b</s><pad><pad>"]
    assert tok.decode([]) == ""
    for rows in (ids, ids.tolist(), ids[:, :1]):
        with pytest.raises(ValueError, match=r"ids is \[2, \d\], not one row: use decode_batch"):
            tok.decode(rows)
    for read in (tok.decode, tok.pieces):
        with pytest.raises(ValueError, match="-100, which is no token"):
            read([3, -100])


def test_ckp_08_ids_beyond_the_vocabulary_are_shown_by_number_and_not_decoded() -> None:
    tok = char_tokenizer(["abc"])
    assert tok.pieces([3, 70]) == ["a", "<70>"]
    assert tok.decode([3, 70, 4]) == "ab"


def test_vis_10_pieces_are_readable_one_per_id() -> None:
    tok = bytes_tokenizer(bos=True)
    assert tok.pieces(tok.encode("á 🙂")) == ["<s>", r"\xc3", r"\xa1", " ", r"\xf0", r"\x9f", r"\x99", r"\x82"]
    bpe = bpe_tokenizer(["the cat the cat 🙂🙂🙂🙂"], 270)
    assert bpe.pieces(torch.tensor(bpe.encode("the cat 🙂 x"))) == ["the", " cat", " ", "🙂", " ", "x"]
    bpe.inner.add_tokens(["｜x｜"])  # added tokens are plain text, not byte-level
    assert bpe.pieces(bpe.encode("｜x｜")) == ["｜x｜"]


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
    for build in (char_tokenizer, word_tokenizer, lambda texts: bpe_tokenizer(texts, 300)):
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


def test_load_switches_off_padding_and_cutting(tmp_path: Path) -> None:
    tok = char_tokenizer(["abc"], eos=True)
    tok.inner.enable_padding(length=9)
    tok.inner.enable_truncation(2)
    tok.save(tmp_path)
    assert Tokenizer.load(tmp_path).encode("abc") == [3, 4, 5, 2]


def test_load_reads_the_special_tokens_of_others(tmp_path: Path) -> None:
    tok = char_tokenizer(["abc"], mask=True)
    tok.save(tmp_path)
    config = {"pad_token": {"content": "<pad>", "__type": "AddedToken"}, "unk_token": None, "mask_token": "<mask>"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"eos_token": "</s>"}))
    again = Tokenizer.load(tmp_path)
    assert (again.pad, again.bos, again.eos, again.unk, again.mask) == (0, None, 2, None, 3)


def test_load_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a tokenizer of the tokenizers library"):
        Tokenizer.load(tmp_path)
    with pytest.raises(ValueError, match="specials\\['eos'\\]='<end>' is not in the vocabulary of 6"):
        Tokenizer(char_tokenizer("abc").inner, {"eos": "<end>"})
    with pytest.raises(ValueError, match="specials\\['cls'\\]: the kinds are pad, bos, eos, unk, mask"):
        Tokenizer(char_tokenizer("abc").inner, {"cls": "<s>"})
