"""Moves run both ways, and a plan places every parameter once."""

import pytest
import torch

from clearhead.families.moves import Rename, Row, Split, SplitHeads, SplitTransposed, Transpose, plan

MOVES = [
    (Rename("a", "b"), (5, 3), (5,)),
    (Transpose("a", "b"), (3, 5), (5,)),
    (Row("a", "b"), (1, 5), (5,)),
    (Split("a", "x.*"), (12, 3), (6, 4, 2)),
    (Split("a", "x.*", names=("gate", "up")), (12, 3), (6, 6)),
    (Split("a", "x.*"), (12,), (6, 4, 2)),
    (SplitTransposed("a", "x.*"), (3, 12), (6, 4, 2)),
    (SplitHeads("a", "x.*", heads=2), (12, 3), (4, 4, 4)),
    (SplitHeads("a", "x.*", heads=2), (12,), (4, 4, 4)),
]


@pytest.mark.parametrize(("move", "shape", "rows"), MOVES)
def test_read_and_write_are_inverse(move: Rename, shape: tuple[int, ...], rows: tuple[int, ...]) -> None:
    theirs = torch.arange(torch.Size(shape).numel()).float().reshape(shape)
    ours = move.read(theirs, rows)
    assert tuple(len(part) for part in ours) == rows
    assert len(ours) == len(move.parts)
    assert torch.equal(move.write(ours), theirs)


def test_a_split_by_heads_takes_turns() -> None:
    rows = torch.arange(12)
    q, k, v = SplitHeads("a", "x.*", heads=2).read(rows, (4, 4, 4))
    assert (q.tolist(), k.tolist(), v.tolist()) == ([0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11])


@pytest.mark.parametrize("move", [Split("a", "x.*"), SplitHeads("a", "x.*", heads=2)])
def test_a_split_of_the_wrong_size_says_so(move: Split) -> None:
    with pytest.raises(ValueError, match=r"a has 12 rows in the file, but the config says \[6, 4, 4\]"):
        move.read(torch.zeros(12, 3), (6, 4, 4))


def test_a_plan_completes_layers_and_leaves() -> None:
    names = [
        "norm.gain",
        "norm.shift",
        *(f"layers.{i}.{q}.{leaf}" for i in (0, 1) for q in "qkv" for leaf in ("weight",)),
    ]
    moves = [Rename("ln", "norm"), Split("h.{}.qkv", "layers.{}.*"), Rename("lm_head", "head")]
    found = {one.theirs: one.ours for one in plan(moves, names)}
    assert found["ln.weight"] == ("norm.gain",)
    assert found["ln.bias"] == ("norm.shift",)
    assert found["h.1.qkv.weight"] == ("layers.1.q.weight", "layers.1.k.weight", "layers.1.v.weight")
    assert len(found) == 4


def test_a_table_with_a_hole_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match=r"misses or doubles \['b.weight'\]"):
        plan([Rename("x", "a")], ["a.weight", "b.weight"])
