"""What may and what may not depend on order, the future and the neighbours in the batch."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import TransformerConfig
from model.tiny import ALL, DECODERS, ENCODERS, TRANSLATORS, build, close, learned_encoder, text


@pytest.mark.parametrize("kind", DECODERS)
def test_the_future_changes_nothing(kind: str) -> None:
    model, ids = build(DECODERS[kind]()), text(1, 9)
    expected = model(ids).logits
    for cut in range(9):
        changed = torch.cat([ids[:, :cut], text(1, 9 - cut, seed=3)], dim=1)
        close(model(changed).logits[:, :cut], expected[:, :cut])
        close(model(ids[:, : cut + 1]).logits, expected[:, : cut + 1])


@pytest.mark.parametrize("kind", DECODERS)
def test_no_gradient_comes_from_the_future(kind: str) -> None:
    model, ids = build(DECODERS[kind]()), torch.arange(3, 12)[None]
    model(ids).logits[0, 4].square().sum().backward()
    rows = model.decoder.embedding.weight.grad
    if not model.config.head.tied:
        assert not bool(rows[ids[0, 5:]].any())
    grad = torch.autograd.grad(model(ids).hidden[0, 4].square().sum(), model.decoder.embedding.weight)[0]
    assert not bool(grad[ids[0, 5:]].any())
    assert bool(grad[ids[0, 2:5]].any(-1).all())


@pytest.mark.parametrize("kind", TRANSLATORS)
def test_a_target_does_not_see_its_future_but_all_of_the_source(kind: str) -> None:
    model, source, ids = build(TRANSLATORS[kind]()), text(1, 6, vocab=31), text(1, 7)
    expected = model(source, None, ids).logits
    close(model(source, None, torch.cat([ids[:, :3], text(1, 4, seed=3)], 1)).logits[:, :3], expected[:, :3])
    last = source.clone()
    last[0, -1] = (last[0, -1] - 3 + 1) % 28 + 3
    assert (model(last, None, ids).logits - expected)[:, 0].abs().max() > 1e-4


def without_positions() -> TransformerConfig:
    config = learned_encoder()
    return replace(config, encoder=replace(config.encoder, positions=None))


@settings(max_examples=10)
@given(st.permutations(range(6)))
def test_an_encoder_without_positions_does_not_know_the_order(order: list[int]) -> None:
    model, ids = build(without_positions()), text(2, 6)
    close(model(ids[:, order]).logits, model(ids).logits[:, order])


@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_with_positions_does(kind: str) -> None:
    model, ids, order = build(ENCODERS[kind]()), text(2, 6), [2, 0, 1, 5, 3, 4]
    assert (model(ids[:, order]).hidden - model(ids).hidden[:, order]).abs().max() > 0.01


@pytest.mark.parametrize("kind", ALL)
def test_neighbours_in_the_batch_change_nothing(kind: str) -> None:
    model, ids, target = build(ALL[kind]()), text(3, 6, vocab=31), text(3, 5)
    rest = (None, target) if kind in TRANSLATORS else ()
    whole = model(ids, *rest).hidden
    for i in range(3):
        rest = (None, target[i : i + 1]) if kind in TRANSLATORS else ()
        close(model(ids[i : i + 1], *rest).hidden, whole[i : i + 1])


@pytest.mark.parametrize("kind", ALL)
def test_long_texts_in_blocks_equal_short_cuts(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.formulas import attention
    from clearhead.model import places

    model, ids, target = build(ALL[kind]()), text(2, 20, vocab=31), text(2, 17)
    mask = torch.ones(2, 20, dtype=torch.int64)
    mask[1, :5] = 0
    rest = (target,) if kind in TRANSLATORS else ()
    expected = model(ids, mask, *rest).hidden
    monkeypatch.setattr(attention, "BLOCK", 50)
    monkeypatch.setattr(places, "BLOCK", 50)
    got = model(ids, mask, *rest).hidden
    keep = torch.ones_like(target) if kind in TRANSLATORS else mask
    close(got[keep == 1], expected[keep == 1])
