"""Vocabulary files: what is read, and what is refused in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken

from clearhead.text.settings import Settings
from clearhead.text.vocabulary import (
    byte_fallback_pairs,
    byte_pairs,
    finish,
    merges_of,
    read_merges,
    read_vocabulary,
    read_word_pieces,
    word_pieces,
)

WORDS = {"[UNK]": 0, "the": 1, "cat": 2, "##s": 3, "[CLS]": 4}


def file(folder: Path, content: Any, name: str = "vocab.json") -> Path:
    whole = content if isinstance(content, str) else json.dumps(content)
    (folder / name).write_bytes(whole.encode() if isinstance(whole, str) else whole)
    return folder / name


@pytest.mark.parametrize(
    "content", [{}, {"a": "b"}, {"a": -1}, {"a": 1.5}, {"a": True}, {"a": 0, "b": 0}, {"a": 1 << 40}]
)
def test_ids_are_numbers_each_once(content: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"vocab\.json does not give each of its \d tokens an id of its own"):
        read_vocabulary(file(tmp_path, content))


def test_a_missing_or_broken_vocabulary_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"vocab\.json is not JSON"):
        read_vocabulary(file(tmp_path, '{"a": 0'))
    with pytest.raises(ValueError, match=r"vocab\.txt is empty"):
        read_word_pieces(file(tmp_path, "", "vocab.txt"))
    (tmp_path / "vocab.txt").write_bytes(b"a\n\xff\n")
    with pytest.raises(ValueError, match=r"vocab\.txt is not UTF-8"):
        read_word_pieces(tmp_path / "vocab.txt")
    with pytest.raises(ValueError, match=r"merges\.txt is not UTF-8"):
        read_merges((tmp_path / "vocab.txt").rename(tmp_path / "merges.txt"), {})


def test_merges_are_pairs_of_the_vocabulary(tmp_path: Path) -> None:
    vocab = {"a": 0, "b": 1, "ab": 2}
    assert read_merges(file(tmp_path, "#version: 0.2\r\na b\r\n\r\n", "merges.txt"), vocab) == [("a", "b")]
    for line in ("a c", "ab", "a", "b a", "a  b"):
        with pytest.raises(ValueError, match=r"merges\.txt, line 2: .* is no pair of tokens in the vocabulary of 3"):
            read_merges(file(tmp_path, f"a b\n{line}\n", "merges.txt"), vocab)


def test_lines_of_a_vocabulary_are_split_at_newlines_only(tmp_path: Path) -> None:
    found = read_word_pieces(file(tmp_path, "a\r\nb\u2028c\n\x85\n", "vocab.txt"))
    assert found == {"a": 0, "b\u2028c": 1, "\x85": 2}


def test_merges_that_no_file_lists_come_in_the_order_of_the_pieces() -> None:
    assert merges_of({"abc": 5, "a": 0, "b": 1, "c": 2, "ab": 3, "bc": 4}) == [
        *[("a", "b"), ("b", "c")],
        *[("a", "bc"), ("ab", "c")],
    ]


def test_what_neither_pieces_nor_bytes_spell_is_one_unknown_token() -> None:
    inner = byte_fallback_pairs({"a": 0, "<unk>": 1, "<0x62>": 2}, "<unk>", None)
    assert inner.encode("acda").ids == [0, 1, 0]
    assert inner.encode("aba").ids == [0, 2, 0]


def test_a_word_piece_vocabulary_must_have_its_unknown_token() -> None:
    with pytest.raises(ValueError, match="5 word pieces lacks the unknown token '<unk>'"):
        word_pieces(WORDS, "<unk>")


def test_special_tokens_that_the_folder_names_are_added_and_usual_ones_only_used_if_there() -> None:
    settings = Settings(specials={"pad": AddedToken("[PAD]", normalized=False), "sep": None})
    made = finish(
        word_pieces(dict(WORDS), "[UNK]"), settings, {"cls": "[CLS]", "sep": "the", "mask": "[MASK]"}, ["cls"]
    )
    assert (made.pad, made.cls, made.sep, made.mask, made.unk) == (5, 4, None, None, None)
    assert made.pieces(made.encode("cats [PAD]")) == ["[CLS]", "cat", "##s", "[PAD]"]


def test_a_tokenizer_may_have_no_special_token_at_all() -> None:
    made = finish(byte_pairs({"a": 0, "b": 1, "ab": 2}, [("a", "b")]), Settings(), {"eos": "<|end|>"})
    assert made.encode("aba") == [2, 0]
    assert [made.pad, made.bos, made.eos, made.unk, made.mask, made.cls, made.sep] == [None] * 7
    assert made(["ab", "aba"])["input_ids"].tolist() == [[2, 0], [2, 0]]
    assert made(["ab", "aba"])["attention_mask"].tolist() == [[1, 0], [1, 1]]
    with pytest.raises(ValueError, match="gives no token"):
        made.encode("")


def test_trn_13_an_added_token_keeps_its_id_or_is_refused() -> None:
    right = Settings(added=((5, AddedToken("<x>", special=True)), (6, AddedToken("y z"))))
    made = finish(word_pieces(dict(WORDS), "[UNK]"), right, {})
    assert made.encode("the <x>y z") == [1, 5, 6]
    assert made.decode([1, 5, 6]) == "the y z"
    for i, token in ((7, "<x>"), (2, "the")):
        wrong = Settings(added=((i, AddedToken(token, special=True)),))
        with pytest.raises(
            ValueError, match=f"the added token '{token}' the id {i}, but in its vocabulary it comes to"
        ):
            finish(word_pieces(dict(WORDS), "[UNK]"), wrong, {})


def test_what_every_text_should_get_must_exist() -> None:
    with pytest.raises(ValueError, match="every text should get the token 'sep', but the vocabulary of 5 lacks it"):
        finish(word_pieces(dict(WORDS), "[UNK]"), Settings(), {}, after=["sep"])
