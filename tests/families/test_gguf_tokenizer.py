"""Tokenizers out of GGUF files: the ids of those that they were written from."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gguf
import pytest
import sentencepiece
import tokenizers
import transformers as hf
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, pre_tokenizers

from clearhead.families.gguf_file import GgufFile
from clearhead.families.gguf_tokenizer import Later, tokenizer_of
from clearhead.text.tokenizer import Tokenizer
from families import vocabularies
from families.gguf_files import add

TEXTS = [
    "the quick brown fox jumps over the lazy dog.",
    "numbers 1 12 123 1234 12345, and 3.14",
    "I can't believe it's 2024; they'RE (really?)",
    "tabs\tand\n\nlines  and   blanks ",
    "人工知能は面白い сердце 🙂 naïve e\u0301",
    " leading",
    "",
]
ANY = st.text(alphabet="ab the\n\t 12'é🙂k", max_size=30)


def write(path: Path, **settings: Any) -> Tokenizer:
    """A file with these settings of tokenizer.ggml, and no tensors; gives its tokenizer."""
    writer = gguf.GGUFWriter(path, "llama")
    add(writer, **{f"tokenizer.ggml.{key}": value for key, value in settings.items() if key != "template"})
    if "template" in settings:
        writer.add_string("tokenizer.chat_template", settings["template"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = tokenizer_of(GgufFile(path))
    assert found is not None
    return found


END = vocabularies.END


def bytes_settings(pre: str, **more: Any) -> dict[str, Any]:
    vocab, merges = vocabularies.byte_pairs(END)
    tokens = sorted(vocab, key=vocab.__getitem__)
    given = {"model": "gpt2", "pre": pre, "tokens": tokens, "merges": merges.splitlines()[1:]}
    ids = {"bos_token_id": 0, "eos_token_id": 0, "padding_token_id": 0}
    return {**given, "token_type": [3] + [1] * (len(tokens) - 1), **ids, **more}


def reference(pre: str) -> Any:
    """The home library's class for qwen2; for the others what their tokenizer.json says."""
    vocab, merges = vocabularies.byte_pairs(END)
    pairs = [tuple(line.split(" ")) for line in merges.splitlines()[1:]]
    if pre == "qwen2":
        return hf.Qwen2Tokenizer(vocab=vocab, merges=pairs)
    made = tokenizers.Tokenizer(tokenizers.models.BPE(vocab, pairs))
    first = [pre_tokenizers.Digits(individual_digits=True)] if pre == "smollm" else []
    made.pre_tokenizer = pre_tokenizers.Sequence([*first, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    return hf.PreTrainedTokenizerFast(tokenizer_object=made)


@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "qwen2"])
def test_byte_pairs(pre: str, tmp_path: Path) -> None:
    mine, theirs = write(tmp_path / "t.gguf", **bytes_settings(pre)), reference(pre)

    @given(ANY)
    def same(text: str) -> None:
        assert mine.inner.encode(text).ids == theirs.encode(text)

    same()
    for text in TEXTS:
        assert mine.inner.encode(text).ids == theirs.encode(text)
        assert mine.decode(mine.inner.encode(text).ids) == theirs.decode(theirs.encode(text))


def test_llama_3_takes_digits_by_three_and_begins_a_text(tmp_path: Path) -> None:
    mine = write(tmp_path / "t.gguf", **bytes_settings("llama-bpe"))
    ids = mine.encode("12345 the")
    assert ids[0] == 0
    split = mine.inner.pre_tokenizer.pre_tokenize_str("a12345678 b")
    assert [piece for piece, _ in split] == ["a", "123", "456", "78", "Ġb"]
    assert mine.decode(ids) == "12345 the"


def test_a_stretch_that_is_a_token_is_taken_whole_in_llama_3(tmp_path: Path) -> None:
    """Without a merge that leads there."""
    given = bytes_settings("llama-bpe", add_bos_token=False)
    given = {**given, "tokens": [*given["tokens"], "zqz"], "token_type": [*given["token_type"], 1]}
    assert write(tmp_path / "t.gguf", **given).encode("zqz") == [len(given["tokens"]) - 1]
    assert len(write(tmp_path / "t.gguf", **{**given, "pre": "qwen2"}).encode("zqz")) == 3


def sentence_settings(model: bytes, **more: Any) -> dict[str, Any]:
    """As llama.cpp's converter writes them: kinds, scores, and user-defined pieces with blanks."""
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    ids = range(sp.get_piece_size())
    kinds = [2 if sp.is_unknown(i) else 3 if sp.is_control(i) else 6 if sp.is_byte(i) else 1 for i in ids]
    tokens = [sp.id_to_piece(i) for i in ids]
    users = {i for i, token in enumerate(tokens) if token in ("<start_of_turn>", "▁▁", "▁▁▁", "\n\n")}
    return {
        "model": "llama",
        "tokens": [token.replace("▁", " ") if i in users else token for i, token in enumerate(tokens)],
        "scores": [-1000.0 if i in users else sp.get_score(i) for i in ids],
        "token_type": [4 if i in users else kind for i, kind in zip(ids, kinds, strict=True)],
        "unknown_token_id": sp.unk_id(),
        **more,
    }


@pytest.mark.parametrize(("prefix", "symbols"), [(True, ""), (False, ""), (False, "▁▁,▁▁▁,\n\n,<start_of_turn>")])
def test_sentence_pieces(prefix: bool, symbols: str, tmp_path: Path) -> None:
    model = vocabularies.byte_fallback(add_dummy_prefix=prefix, user_defined_symbols=symbols)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model)
    mine = write(tmp_path / "t.gguf", **sentence_settings(model, add_space_prefix=prefix))

    @given(ANY)
    def same(text: str) -> None:
        assert mine.inner.encode(text).ids == sp.encode(text)

    same()
    for text in TEXTS:
        assert mine.inner.encode(text).ids == sp.encode(text)
        assert mine.decode(mine.inner.encode(text).ids) == text


def test_begin_and_end_of_text(tmp_path: Path) -> None:
    given = sentence_settings(vocabularies.byte_fallback(), bos_token_id=1, eos_token_id=2, padding_token_id=0)
    mine = write(tmp_path / "t.gguf", **given)
    assert mine.encode("the")[0] == 1, "implied by this kind of tokenizer"
    assert mine.encode("the")[-1] != 2
    other = write(tmp_path / "t.gguf", **given, add_bos_token=False, add_eos_token=True)
    assert other.encode("the")[0] != 1
    assert other.encode("the")[-1] == 2
    assert mine.encode("the</s>cat").count(2) == 1, "a special token that is written out"


def test_it_is_built_when_it_is_first_used(tmp_path: Path) -> None:
    mine = write(tmp_path / "t.gguf", **bytes_settings("smollm", template="{{ messages[0]['content'] }}!"))
    assert isinstance(mine, Later)
    assert (mine.bos, mine.eos, mine.pad, mine.unk) == (0, 0, 0, None)
    assert "inner" not in vars(mine)
    for twin in (copy.deepcopy(mine), mine):
        assert twin.decode(twin.encode("the fox")) == "the fox"
        assert "inner" in vars(twin)
        assert twin.chat([{"role": "user", "content": "hi"}]) == "hi!"
    with pytest.raises(AttributeError):
        _ = mine.nothing


def test_what_it_saves_is_read_again(tmp_path: Path) -> None:
    mine = write(tmp_path / "t.gguf", **bytes_settings("qwen2"))
    mine.save(tmp_path / "saved")
    again = Tokenizer.load(tmp_path / "saved")
    theirs = hf.AutoTokenizer.from_pretrained(tmp_path / "saved")
    for text in TEXTS[:-1]:
        assert again.encode(text) == mine.encode(text) == theirs.encode(text)
    assert (again.bos, again.eos) == (0, 0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": "bert"}, "kind 'bert'; known are gpt2 and llama"),
        ({"pre": "tekken"}, "'tekken'; known are gpt-2, smollm"),
        ({"tokens": ["a", "a"]}, "of 2 tokens 1 differ"),
        ({"token_type": [1]}, "and 1 have a kind"),
        ({"merges": ["no such"]}, "cannot be built"),
        ({"merges": ["alone"]}, "cannot be built"),
    ],
)
def test_lists_that_make_no_sense(change: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    mine = write(tmp_path / "t.gguf", **{**bytes_settings("smollm"), **change})
    with pytest.raises(ValueError, match=sentence):
        mine.encode("a")
    with pytest.raises(ValueError, match=sentence):
        mine.encode("a")


def test_ids_beyond_the_vocabulary_are_left_out(tmp_path: Path) -> None:
    mine = write(tmp_path / "t.gguf", **bytes_settings("smollm", eos_token_id=99999))
    assert mine.eos is None
    assert mine.encode("a")


def test_a_file_may_have_none(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "t.gguf", "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert tokenizer_of(GgufFile(tmp_path / "t.gguf")) is None
