"""Files to batches: every example once per epoch, any step from the seed alone, nothing of the validation part."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.config import Positions, TransformerConfig
from clearhead.families.presets import small_lm, small_translator
from clearhead.text.build import char_tokenizer
from clearhead.text.pair import Pair
from clearhead.train.data import Blocks, Pairs, blocks, cut, pairs, read_pairs, read_text, stream


def numbered(count: int, length: int = 8, size: int = 3) -> Blocks:
    return Blocks(np.arange(count), length, size)


def lengthy(count: int, size: int = 3) -> Pairs:
    """Pairs that tell their number."""
    rows = [[i + 3] * (1 + i % 5) for i in range(count)]
    return Pairs(rows, rows, size, pad=0)


def with_table(config: TransformerConfig, count: int) -> TransformerConfig:
    assert config.decoder is not None
    return replace(config, decoder=replace(config.decoder, positions=Positions(kind="learned", count=count)))


@pytest.mark.parametrize("count", [9, 17, 24, 25, 100])
def test_blocks_of_an_epoch_do_not_overlap_and_stay_inside(count: int) -> None:
    data = numbered(count)
    for seed in range(5):
        epoch = data.epoch(np.random.default_rng(seed))
        assert len(epoch) == data.per_epoch
        rows = [data.batch(chosen)["input_ids"] for chosen in epoch]
        predicted = torch.cat([row[:, 1:].flatten() for row in rows]).tolist()
        assert len(set(predicted)) == len(predicted) == 8 * data.count
        assert max(predicted) < count


def test_every_token_of_a_text_but_the_first_is_scored_once() -> None:
    for count in range(2, 60):
        rows = [batch["labels"][:, 1:].flatten() for batch in numbered(count).whole()]
        assert torch.cat(rows).tolist() == list(range(1, count)), count


def test_trn_04_each_pair_once_per_epoch_with_short_last_batches() -> None:
    data = lengthy(100)
    for epoch in range(3):
        batches = list(islice(stream(data, 7), epoch * data.per_epoch, (epoch + 1) * data.per_epoch))
        seen = torch.cat([batch["labels"][:, 0] for batch in batches]).tolist()
        assert sorted(seen) == list(range(3, 103))


@pytest.mark.parametrize("data", [numbered(100), lengthy(50)], ids=["text", "pairs"])
@pytest.mark.parametrize("done", [0, 1, 4, 5, 17, 40])
def test_trn_04_a_stream_goes_on_where_it_was_left(data: Blocks | Pairs, done: int) -> None:
    whole = list(islice(stream(data, 3), done, done + 8))
    rest = list(islice(stream(data, 3, done), 8))
    for a, b in zip(whole, rest, strict=True):
        assert a.keys() == b.keys()
        assert all(torch.equal(a[name], b[name]) for name in a)
    assert not torch.equal(rest[0]["labels"], next(stream(data, 4, done))["labels"])


def test_targets_end_in_eos_and_do_not_repeat_the_first_token_of_the_decoder() -> None:
    tokenizer = Pair(char_tokenizer(["ab"], eos=True), char_tokenizer(["xy"], bos=True, eos=True))
    parts = pairs(["a", "ab", "b"], ["x", "yx", ""], tokenizer, small_translator(5, 5, 32), size=4)
    batch = parts.train.batch(np.array([0, 1]))
    assert batch["input_ids"].tolist() == [[3, 2, 0], [3, 4, 2]]
    assert batch["attention_mask"].tolist() == [[1, 1, 0], [1, 1, 1]]
    assert batch["labels"].tolist() == [[3, 2, -100], [4, 3, 2]]
    (kept,) = parts.validation.whole()
    assert kept["labels"].tolist() == [[2]]


def test_the_last_twentieth_is_kept() -> None:
    assert [cut(n) for n in (2, 19, 20, 40, 1000)] == [1, 18, 19, 38, 950]


def test_trn_06_a_text_shorter_than_a_block_is_refused_with_both_numbers() -> None:
    text = "abcdefghij"
    tokenizer = char_tokenizer([text])
    with pytest.raises(ValueError, match="the text to train on has 9 tokens, but needs 65; give a longer text"):
        blocks(text, tokenizer, small_lm(13, 64), length=64, size=2)
    with pytest.raises(ValueError, match="the text to validate on has 1 tokens, but needs 2"):
        blocks(text, tokenizer, small_lm(13, 64), length=4, size=2)
    table = with_table(small_lm(13, 64), 5)
    parts = blocks(text * 9, tokenizer, table, length=64, size=2)
    assert parts.train.batch(np.array([0]))["input_ids"].shape == (1, 5)


def test_trn_07_ids_outside_the_vocabulary_are_refused_with_both_numbers() -> None:
    text = "abcdefghij" * 30
    with pytest.raises(ValueError, match="holds the id 12, but the model has 11, from 0"):
        blocks(text, char_tokenizer([text]), small_lm(11, 64), length=4, size=2)


def test_a_pair_that_is_too_long_for_the_model_is_named() -> None:
    tokenizer = char_tokenizer(["abc"], bos=True, eos=True)
    config = with_table(small_translator(6, 6, 32), 4)
    with pytest.raises(ValueError, match="line 2 has 6 tokens, but the model has 4 positions"):
        pairs(["a", "b", "c"], ["abc", "abcab", "a"], tokenizer, config, size=2)


def test_trn_11_lines_end_at_newlines_only_and_must_be_as_many(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text("one\u2028two\x85three\nfour\n", encoding="utf-8")
    b.write_text("eins\nvier\n", encoding="utf-8")
    assert read_pairs(a, b) == (["one\u2028two\x85three", "four"], ["eins", "vier"])
    b.write_text("eins\nvier\nsechs\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"a has 2 lines but .*b has 3; line n of one translates line n of"):
        read_pairs(a, b)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere cannot be read: No such file"):
        read_text(tmp_path / "nowhere")
    (tmp_path / "empty").write_text("\n \n")
    with pytest.raises(ValueError, match="empty is empty; give some text"):
        read_text(tmp_path / "empty")
    (tmp_path / "latin").write_bytes("für".encode("latin-1") + b"\n")
    with pytest.raises(ValueError, match="latin is not UTF-8"):
        read_text(tmp_path / "latin")
