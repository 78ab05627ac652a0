"""Two tokenizers behind one handle."""

from pathlib import Path

import pytest
import tokenizers

from clearhead.text.build import char_tokenizer, word_tokenizer
from clearhead.text.pair import Pair, saved
from clearhead.text.tokenizer import Tokenizer

PAIR = Pair(word_tokenizer("see a cat", eos=True), char_tokenizer("katze", bos=True, eos=True))


def test_text_goes_in_at_the_source_and_ids_come_out_at_the_target() -> None:
    ids = PAIR(["a cat", "cat"])["input_ids"]
    assert ids.tolist() == [[3, 4, 2], [4, 2, 0]]
    target = PAIR(["katze", "tat"], target=True, padding_side="left")
    assert target["input_ids"].tolist() == [[1, 5, 3, 6, 7, 4, 2], [0, 0, 1, 6, 3, 6, 2]]
    assert PAIR.encode("cat") == [4, 2]
    assert PAIR.encode("tat", target=True) == [1, 6, 3, 6, 2]
    assert PAIR.decode([1, 6, 3, 6, 2]) == "tat"
    assert PAIR.decode([3, 4, 2], target=False) == "a cat"
    assert PAIR.decode([1, 6, 2], skip_special_tokens=False) == "<s>t</s>"
    assert PAIR.decode_batch(target["input_ids"]) == ["katze", "tat"]
    assert PAIR.decode_batch(ids, target=False) == ["a cat", "cat"]
    assert PAIR.decode_batch([[4, 2]], skip_special_tokens=False, target=False) == ["cat </s>"]
    assert PAIR.pieces([1, 6, 2]) == ["<s>", "t", "</s>"]
    assert PAIR.pieces([3, 2], target=False) == ["a", "</s>"]
    assert (PAIR.pad, PAIR.bos, PAIR.eos) == (0, 1, 2)
    assert PAIR.offsets("a cat") == [(0, 1), (2, 5), None]
    assert PAIR.offsets("at", target=True) == [None, (0, 1), (1, 2), None]
    assert PAIR.encode("cat", add_special_tokens=False) == [4]
    assert PAIR(["t"], target=True, add_special_tokens=False)["input_ids"].tolist() == [[6]]


def test_trn_13_a_pair_comes_back_from_its_folder(tmp_path: Path) -> None:
    PAIR.save(tmp_path)
    assert {f.name for f in tmp_path.iterdir()} == {
        *("tokenizer.json", "tokenizer_config.json", "target_tokenizer.json", "target_tokenizer_config.json")
    }
    again = saved(tmp_path)
    assert isinstance(again, Pair)
    for ours, theirs in ((PAIR.source, again.source), (PAIR.target, again.target)):
        assert ours.inner.to_str() == theirs.inner.to_str()
        assert (theirs.pad, theirs.bos, theirs.eos, theirs.unk, theirs.mask) == (0, 1, 2, None, None)


def test_a_folder_may_hold_one_or_none(tmp_path: Path) -> None:
    assert saved(tmp_path) is None
    PAIR.source.save(tmp_path)
    assert isinstance(saved(tmp_path), Tokenizer)


def test_the_two_sides_agree_on_pad() -> None:
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "<pad>": 1}))
    with pytest.raises(ValueError, match=r"source.pad=0 and target.pad=1: a model has one pad id"):
        Pair(PAIR.source, Tokenizer(inner, {"pad": "<pad>"}))
