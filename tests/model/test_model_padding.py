"""A padded batch answers as each sample alone: solo = padded left = padded right = packed, per architecture."""

import pytest
import torch
from torch import Tensor

from clearhead.model.transformer import Transformer
from model.tiny import ALL, DECODERS, ENCODERS, TRANSLATORS, build, close, text

LENGTHS = [9, 4, 6]


def states(model: Transformer, *given: Tensor, **rest: Tensor) -> Tensor:
    out = model(*given, **rest)
    return out.hidden if out.logits is None else out.logits


def padded(samples: list[Tensor], side: str, pad: int = 7) -> tuple[Tensor, Tensor]:
    """Ids and mask; `pad` is an ordinary word, so that a leak would show."""
    width = max(len(s) for s in samples) + 1
    ids, mask = torch.full((len(samples), width), pad), torch.zeros(len(samples), width, dtype=torch.int64)
    for i, sample in enumerate(samples):
        place = slice(width - len(sample), width) if side == "left" else slice(0, len(sample))
        ids[i, place], mask[i, place] = sample, 1
    return ids, mask


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", DECODERS | ENCODERS)
def test_msk_10_padding_changes_nothing(kind: str, side: str) -> None:
    model = build(ALL[kind]())
    samples = [text(1, n, seed=n)[0] for n in LENGTHS]
    ids, mask = padded(samples, side)
    got = states(model, ids, mask)
    assert bool(got.isfinite().all())
    for i, sample in enumerate(samples):
        close(got[i, mask[i] == 1], states(model, sample[None])[0])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", TRANSLATORS)
def test_padding_of_source_and_target_changes_nothing(kind: str, side: str) -> None:
    model = build(ALL[kind]())
    sources, targets = ([text(1, n, vocab=31, seed=n)[0] for n in lengths] for lengths in (LENGTHS, [3, 8, 1]))
    (ids, mask), (fed, fed_mask) = padded(sources, side), padded(targets, side)
    got = model(ids, mask, fed, fed_mask).logits
    assert bool(got.isfinite().all())
    for i, (source, target) in enumerate(zip(sources, targets, strict=True)):
        close(got[i, fed_mask[i] == 1], model(source[None], None, target[None]).logits[0])


@pytest.mark.parametrize("lengths", [LENGTHS, [1, 1, 3, 1]], ids=str)
@pytest.mark.parametrize("kind", DECODERS | ENCODERS)
def test_packed_documents_equal_each_alone(kind: str, lengths: list[int]) -> None:
    model = build(ALL[kind]())
    samples = [text(1, n, seed=n)[0] for n in lengths]
    row, at = torch.cat(samples)[None], torch.cat([torch.arange(n) for n in lengths])[None]
    got = states(model, row, positions=at)[0].split(lengths)
    for part, sample in zip(got, samples, strict=True):
        close(part, states(model, sample[None])[0])


def test_packed_documents_of_a_batch_may_end_at_different_places() -> None:
    model, ids = build(ALL["learned_decoder"]()), text(2, 7)
    at = torch.tensor([[0, 1, 2, 0, 1, 2, 3], [0, 1, 2, 3, 4, 0, 1]])
    got = model(ids, positions=at).logits
    for row, cut in ((0, 3), (1, 5)):
        close(got[row, :cut], model(ids[row : row + 1, :cut]).logits[0])
        close(got[row, cut:], model(ids[row : row + 1, cut:]).logits[0])


@pytest.mark.parametrize("kind", ALL)
def test_gradients_of_a_padded_batch_are_the_sum_of_each_alone(kind: str) -> None:
    model = build(ALL[kind]())
    samples = [text(1, n, vocab=31, seed=n)[0] for n in LENGTHS]
    ids, mask = padded(samples, "left")
    rest = (ids, mask) if kind in TRANSLATORS else ()
    keep = mask == 1
    states(model, ids, mask, *rest)[keep].square().sum().backward()
    got = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    for sample in samples:
        rest = (None, sample[None]) if kind in TRANSLATORS else ()
        states(model, sample[None], *rest).square().sum().backward()
    for name, p in model.named_parameters():
        if p.grad is not None:
            torch.testing.assert_close(got[name], p.grad, atol=1e-8, rtol=1e-10, msg=name)


def test_pos_06_learned_positions_follow_from_the_mask() -> None:
    model = build(ALL["learned_decoder"]())
    ids, mask = torch.tensor([[9, 9, 5, 6, 7]]), torch.tensor([[0, 0, 1, 1, 1]])
    close(model(ids, mask).logits[:, 2:], model(ids[:, 2:]).logits)
    assert (model(ids).logits[:, 2:] - model(ids[:, 2:]).logits).abs().max() > 0.1


def test_pos_05_positions_begin_at_the_offset_whatever_the_padding() -> None:
    config = ALL["learned_decoder"]()
    model = build(config)
    table = model.decoder.positions.table.weight
    assert len(table) == 48 + 2
    seen: list[Tensor] = []
    model.decoder.positions.table.register_forward_hook(lambda _, given, __: seen.append(given[0]))
    ids, mask = text(2, 5), torch.tensor([[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]])
    model(ids, mask)
    model(ids)
    assert seen[0][0].tolist() == [2, 3, 4, 5, 6]
    assert seen[0][1, 2:].tolist() == [2, 3, 4]
    assert seen[1].tolist() == [2, 3, 4, 5, 6]


def test_a_mask_of_ones_is_no_mask_to_the_bit() -> None:
    model, ids = build(ALL["rotary_decoder"](), torch.float32), text(2, 9)
    assert torch.equal(model(ids, torch.ones(2, 9)).logits, model(ids).logits)


def test_msk_17_a_padded_source_needs_its_mask() -> None:
    model, target = build(ALL["relative_translator"]()), text(1, 4)
    short, long = torch.tensor([[7, 8, 9]]), torch.tensor([[7, 8, 9, 5, 5]])
    expected = model(short, None, target).logits
    close(model(long, torch.tensor([[1, 1, 1, 0, 0]]), target).logits, expected)
    assert (model(long, None, target).logits - expected).abs().max() > 0.01


def test_msk_02_a_sample_of_which_nothing_is_left() -> None:
    for kind in DECODERS | ENCODERS:
        model, ids = build(ALL[kind](), torch.float32), text(2, 4)
        out = states(model, ids, torch.tensor([[1, 1, 1, 1], [0, 0, 0, 0]]))
        out.square().sum().backward()
        close(out[0], states(model, ids[:1])[0], 1e-4)
        assert bool(out.isfinite().all())
        assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())


def test_a_source_of_which_nothing_is_left() -> None:
    model = build(ALL["post_norm_translator"](), torch.float32)
    out = model(text(2, 3), torch.tensor([[1, 1, 1], [0, 0, 0]]), text(2, 4)).logits
    out.square().sum().backward()
    assert bool(out.isfinite().all())
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in model.parameters())
