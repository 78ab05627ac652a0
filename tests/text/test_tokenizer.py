"""The handle around a tokenizer: batches, decoding, pieces, unknown text, files of others."""

import json
from pathlib import Path

import pytest
import tokenizers
import torch

from clearhead.text.build import bpe_tokenizer, bytes_tokenizer, char_tokenizer, piece_tokenizer, word_tokenizer
from clearhead.text.tokenizer import Tokenizer


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
        word_tokenizer(["the cat sat"]).encode("the dog sat")
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


@pytest.mark.parametrize("family", ["bert", "gpt2", "marian"])
def test_transformers_reads_it_beside_a_model_of_any_family(family: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    tok, text = char_tokenizer("abs ,.'", bos=True, eos=True), "a , b 's ."
    tok.save(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
    theirs = AutoTokenizer.from_pretrained(tmp_path)
    assert theirs(text)["input_ids"] == tok.encode(text)
    assert theirs.decode(tok.encode(text), skip_special_tokens=True) == tok.decode(tok.encode(text)) == text


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


def test_a_special_token_that_the_vocabulary_lacks_is_added_as_the_home_library_does(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    char_tokenizer(["abc"]).save(tmp_path)
    config = {"pad_token": "[PAD]", "cls_token": "<s>", "tokenizer_class": "PreTrainedTokenizerFast"}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    again, theirs = Tokenizer.load(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert (
        (again.pad, again.cls, again.vocab_size) == (theirs.pad_token_id, theirs.cls_token_id, len(theirs)) == (6, 1, 7)
    )
    assert again.encode("a[PAD]b") == theirs("a[PAD]b")["input_ids"] == [3, 6, 4]


def test_blanks_are_cleaned_up_where_the_folder_asks_for_it(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    text = "do n't , he 's it ' s . ok ?"
    made = char_tokenizer([text])
    made.save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "clean_up_tokenization_spaces": True}))
    again, ids = Tokenizer.load(tmp_path), made.encode(text)
    assert again.decode(ids) == AutoTokenizer.from_pretrained(tmp_path).decode(ids) == "don't, he's it's. ok?"
    assert made.decode(ids) == text
    again.save(tmp_path / "twice")
    assert Tokenizer.load(tmp_path / "twice").decode(ids) == "don't, he's it's. ok?"


def test_vis_10_offsets_are_characters_of_the_text() -> None:
    text = "Seán 🙂 地"
    spans = bytes_tokenizer(bos=True, eos=True).offsets(text)
    assert spans[0] is spans[-1] is None
    assert spans[1:-1] == [(at, at + 1) for at, letter in enumerate(text) for _ in letter.encode()]
    words = word_tokenizer(["the cat"], eos=True)
    assert words.offsets("  cat the") == [(2, 5), (6, 9), None]
    assert words.offsets("the</s>", target=True) == [(0, 3), (3, 7), None]
    with pytest.raises(ValueError, match="'dog' is unknown"):
        words.offsets("the dog")


def test_load_names_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="is not a tokenizer of the tokenizers library"):
        Tokenizer.load(tmp_path)
    with pytest.raises(ValueError, match="specials\\['eos'\\]='<end>' is not in the vocabulary of 6"):
        Tokenizer(char_tokenizer("abc").inner, {"eos": "<end>"})
    with pytest.raises(ValueError, match="specials\\['end'\\]: the kinds are pad, bos, eos, unk, mask, cls, sep"):
        Tokenizer(char_tokenizer("abc").inner, {"end": "<s>"})
