"""Packed rows: a model says of each document what it says of it alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from clearhead.config import Positions
from clearhead.families.presets import small_encoder, small_lm
from clearhead.model.transformer import Transformer
from clearhead.train.data.ids import Ids
from clearhead.train.data.packed import Packed
from clearhead.train.loop import backward


def documents(count: int = 40, longest: int = 23) -> tuple[list[list[int]], Ids, np.ndarray]:
    rng = np.random.default_rng(1)
    rows = [rng.integers(3, 20, rng.integers(2, longest)).tolist() for _ in range(count)]
    return rows, Ids.of(rows), np.ones(count, dtype=np.bool_)


def lm() -> Transformer:
    return Transformer(small_lm(20, 64)).double().eval()


def with_a_table() -> Transformer:
    config = small_lm(20, 64)
    assert config.decoder is not None
    table = Positions(kind="learned", count=24)
    return Transformer(replace(config, decoder=replace(config.decoder, positions=table))).double().eval()


@pytest.mark.parametrize("make", [lm, with_a_table])
def test_packed_is_alone_for_a_decoder(make) -> None:
    rows, ids, begins = documents()
    model, data = make(), Packed(ids, begins, length=24, size=3, pad=0)
    loss, count = backward(model, [{"input_ids": batch, "labels": batch} for batch in map(_row, rows)])
    alone = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    together, same = backward(model, list(data.whole()))
    assert same == count == sum(len(row) - 1 for row in rows)
    assert together == pytest.approx(loss, rel=1e-9)
    for p, gradient in zip(model.parameters(), alone, strict=True):
        assert p.grad is not None
        assert (p.grad - gradient).abs().max() < 1e-12


def _row(ids: list[int]) -> torch.Tensor:
    return torch.tensor([ids])


def test_packed_is_alone_for_an_encoder() -> None:
    rows, ids, begins = documents(20)
    model = Transformer(small_encoder(20, 64)).double().eval()
    for batch in Packed(ids, begins, length=24, size=3, pad=0, ahead=0, edges=(1, 2)).whole():
        given = {name: value for name, value in batch.items() if name != "labels"}
        found = model(**given).logits
        for r, (line, places) in enumerate(zip(batch["input_ids"], batch["positions"], strict=True)):
            starts = [t for t in range(len(line)) if places[t] == 0 and int(line[t]) != 0]
            ends = [t + 1 for t in range(len(line)) if int(line[t]) == 2]
            for start, end in zip(starts, ends, strict=True):
                alone = model(line[None, start:end]).logits
                assert (found[r, start:end] - alone[0]).abs().max() < 1e-10
    assert len(rows) == 20


def test_rows_are_nearly_full_and_long_documents_are_cut() -> None:
    _, ids, begins = documents(400)
    data = Packed(ids, begins, length=64, size=4, pad=0)
    batches = [data.batch(chosen) for chosen in data.epoch(np.random.default_rng(0))]
    real = sum(int(batch.get("attention_mask", torch.ones_like(batch["labels"])).sum()) for batch in batches)
    assert real == ids.total
    assert real / sum(batch["labels"].numel() for batch in batches) > 0.97
    long = Packed(Ids.of([list(range(3, 20)), [5, 6]]), np.array([True, True]), length=6, size=2, pad=0)
    assert long.pieces[1].tolist() == [6, 6, 5, 2]
    assert long.given.tolist() == [3, 9, 15, 5]


def test_a_document_may_come_in_several_rows() -> None:
    rows = [[3, 4], [5], [6, 7, 8]]
    data = Packed(Ids.of(rows), np.array([True, False, True]), length=8, size=1, pad=0)
    (batch,) = data.whole()
    assert batch["input_ids"].tolist() == [[3, 4, 5, 6, 7, 8]]
    assert batch["positions"].tolist() == [[0, 1, 2, 0, 1, 2]]
    assert batch["labels"].tolist() == [[-100, 4, 5, -100, 7, 8]]
