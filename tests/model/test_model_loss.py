"""Loss per target token, and what a decoder is fed."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from clearhead.model.transformer import shift_right
from model.tiny import ALL, build, close, text


def test_gen_13_labels_are_shifted_right_behind_the_start() -> None:
    assert shift_right(torch.tensor([[0, 7, 8, 2, 1]]), 2, 1).tolist() == [[2, 0, 7, 8, 2]]
    assert shift_right(torch.tensor([[7, 8, -100, -100]]), 2, 1).tolist() == [[2, 7, 8, 1]]


def test_a_translator_is_fed_its_labels_shifted() -> None:
    model, source, labels = build(ALL["relative_translator"]()), text(2, 4, vocab=31), text(2, 6)
    labels[1, 4:] = -100
    out = model(source, labels=labels)
    close(out.logits, model(source, None, shift_right(labels, 0, 0)).logits)
    close(out.loss, F.cross_entropy(out.logits[labels != -100], labels[labels != -100]))
    fed = model(source, None, text(2, 6, seed=4), labels=labels)
    close(fed.loss, F.cross_entropy(fed.logits[labels != -100], labels[labels != -100]))
    assert (fed.loss - out.loss).abs() > 1e-3


def test_the_start_is_bos_unless_it_is_named() -> None:
    config = ALL["post_norm_translator"]()
    source, labels = text(1, 4), text(1, 3)
    close(build(config)(source, labels=labels).logits, build(config)(source, None, shift_right(labels, 1, 0)).logits)
    named = build(replace(config, start=2))
    close(named(source, labels=labels).logits, named(source, None, shift_right(labels, 2, 0)).logits)


def test_a_decoder_predicts_the_next_token() -> None:
    model, ids = build(ALL["rotary_decoder"]()), text(2, 6)
    out = model(ids, labels=ids)
    close(out.loss, F.cross_entropy(out.logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten()))


def test_an_encoder_predicts_in_place() -> None:
    model, ids = build(ALL["learned_encoder"]()), text(2, 6)
    labels = torch.full_like(ids, -100)
    labels[0, 2], labels[1, 4] = 9, 11
    out = model(ids, labels=labels)
    close(
        out.loss,
        (F.cross_entropy(out.logits[0, 2], labels[0, 2]) + F.cross_entropy(out.logits[1, 4], labels[1, 4])) / 2,
    )


@pytest.mark.parametrize("kind", ["rotary_decoder", "learned_encoder", "relative_translator"])
def test_num_08_the_loss_is_per_token_not_a_mean_of_means(kind: str) -> None:
    model, ids, labels = build(ALL[kind]()), text(2, 8, vocab=31), text(2, 8)
    labels[0, 2:] = -100
    whole = model(ids, labels=labels).loss
    counts = [(labels[i, 1 if kind == "rotary_decoder" else 0 :] != -100).sum() for i in (0, 1)]
    parts = [model(ids[i : i + 1], labels=labels[i : i + 1]).loss for i in (0, 1)]
    close(whole, (parts[0] * counts[0] + parts[1] * counts[1]) / sum(counts))
    assert (whole - (parts[0] + parts[1]) / 2).abs() > 1e-3


def test_without_a_target_token_the_loss_and_its_gradient_are_0() -> None:
    model, ids = build(ALL["rotary_decoder"]()), text(2, 5)
    loss = model(ids, labels=torch.full_like(ids, -100)).loss
    loss.backward()
    assert loss.item() == 0.0
    assert not any(bool(p.grad.any()) for p in model.parameters() if p.grad is not None)


def test_the_loss_keeps_float64_and_widens_bfloat16() -> None:
    ids = text(2, 5)
    for dtype, expected in ((torch.float64, torch.float64), (torch.bfloat16, torch.float32)):
        assert build(ALL["rotary_decoder"](), dtype)(ids, labels=ids).loss.dtype == expected


def test_without_labels_or_head_there_is_no_loss() -> None:
    assert build(ALL["rotary_decoder"]())(text(1, 3)).loss is None
    out = build(ALL["rotary_encoder"]())(text(1, 3))
    assert out.logits is None
    assert out.loss is None
    assert out.hidden is not None


def test_msk_12_dropout_is_off_in_eval_and_on_in_training() -> None:
    for kind in ("learned_decoder", "post_norm_translator"):
        model = build(replace(ALL[kind](), dropout=0.5))
        given = {"input_ids": text(1, 6), "labels": text(1, 6)}
        assert torch.equal(model(**given).logits, model(**given).logits)
        close(model(**given).logits, build(ALL[kind]())(**given).logits)
        model.train()
        assert not torch.equal(model(**given).logits, model(**given).logits)
