"""Padding, buckets of like length, and lines of a file."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.text.batch import length_buckets, pad, read_lines


def test_pad_right_and_left() -> None:
    ids, mask = pad([[5, 6, 7], [8]], 0)
    assert ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    assert ids.dtype == mask.dtype == torch.int64
    ids, mask = pad([[5, 6, 7], [8]], 9, "left")
    assert ids.tolist() == [[5, 6, 7], [9, 9, 8]]
    assert mask.tolist() == [[1, 1, 1], [0, 0, 1]]


@given(st.lists(st.lists(st.integers(0, 50), max_size=7), min_size=1, max_size=5), st.sampled_from(["left", "right"]))
def test_the_mask_gives_the_rows_back(rows: list[list[int]], side) -> None:
    ids, mask = pad(rows, 0, side)
    assert ids.shape == mask.shape == (len(rows), max(map(len, rows)))
    assert [i[m == 1].tolist() for i, m in zip(ids, mask, strict=True)] == rows


def test_pad_leaves_the_rows_alone() -> None:
    rows = [[1, 2], [3]]
    pad(rows, 0)
    assert rows == [[1, 2], [3]]


def test_pad_refuses_no_rows_and_other_sides() -> None:
    with pytest.raises(ValueError, match="rows is empty"):
        pad([], 0)
    with pytest.raises(ValueError, match="side='top'"):
        pad([[1]], 0, "top")  # type: ignore[arg-type]


def test_512_examples_make_8_sorted_batches_of_64_in_random_order() -> None:
    lengths = np.random.default_rng(0).integers(1, 14, 512)
    batches = length_buckets(lengths.tolist(), 64, np.random.default_rng(1))
    assert [len(b) for b in batches] == [64] * 8
    assert sorted(np.concatenate(batches).tolist()) == list(range(512))
    longest = [int(lengths[b].max()) for b in batches]
    shortest = [int(lengths[b].min()) for b in batches]
    by_length = sorted(range(8), key=lambda i: (shortest[i], longest[i]))
    assert by_length != list(range(8)), "the batches are shuffled"
    assert all(longest[a] <= shortest[b] for a, b in pairwise(by_length))


def test_buckets_follow_the_generator() -> None:
    lengths = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3]

    def drawn(seed: int) -> list[list[int]]:
        return [b.tolist() for b in length_buckets(lengths, 2, np.random.default_rng(seed))]

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)
    assert sorted(drawn(0)) == sorted(drawn(1))


def test_examples_of_one_length_keep_their_order() -> None:
    lengths = np.random.default_rng(0).integers(1, 4, 200).tolist()
    (whole,) = length_buckets(lengths, 200, np.random.default_rng(0))
    assert whole.tolist() == sorted(range(200), key=lambda i: lengths[i])


def test_trn_06_a_short_last_batch_is_kept() -> None:
    batches = length_buckets([1, 2, 3, 4, 5], 2, np.random.default_rng(0))
    assert sorted(map(len, batches)) == [1, 2, 2]
    with pytest.raises(ValueError, match="size=0"):
        length_buckets([1], 0, np.random.default_rng(0))


def test_trn_11_lines_end_at_newlines_only(tmp_path: Path) -> None:
    lines = ["one\u2028still one", "two\x0bstill two\x85and\x0c\x1c\u2029still", "drei\rnoch"]
    file = tmp_path / "source.txt"
    file.write_bytes(("\n".join(lines) + "\n").encode())
    assert read_lines(file) == lines
    assert len(file.read_text(encoding="utf-8").splitlines()) > 3  # what goes wrong elsewhere


def test_lines_keep_empty_ones_and_need_no_last_newline(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"a\n\nb")
    assert read_lines(file) == ["a", "", "b"]
    file.write_bytes(b"a\n\n")
    assert read_lines(file) == ["a", ""]
    file.write_bytes(b"")
    assert read_lines(file) == []


def test_lines_of_a_windows_file(tmp_path: Path) -> None:
    file = tmp_path / "windows.txt"
    file.write_bytes(b"\xef\xbb\xbfzw\xc3\xb6lf\r\nelf\r\n")
    assert read_lines(str(file)) == ["zwölf", "elf"]
    file.write_bytes("zwölf".encode("latin-1"))
    with pytest.raises(UnicodeDecodeError):
        read_lines(file)
