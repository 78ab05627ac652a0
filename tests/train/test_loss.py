"""The loss: smoothing, ignored tokens, and any split of a step into batches."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from clearhead.config import Attention, FeedForward, Layer, Positions, Stack, TokenClassifier, TransformerConfig
from clearhead.model.transformer import Transformer
from clearhead.train.loop import backward
from clearhead.train.loss import smoothed_loss, teach


def small(kind: str) -> Transformer:
    look = Attention(heads=2)
    reader = Layer(self_attention=look, feed_forward=FeedForward(dim=12))
    writer = Layer(
        self_attention=Attention(heads=2, causal=True),
        feed_forward=FeedForward(dim=12),
        cross_attention=look if kind == "both" else None,
    )
    places = Positions(kind="interleaved")
    config = TransformerConfig(
        dim=8,
        encoder=Stack(layers=(reader,), vocab=11, positions=places) if kind in ("encoder", "both") else None,
        decoder=Stack(layers=(writer,), vocab=11, positions=places) if kind in ("decoder", "both") else None,
        pad=0,
        bos=1,
        eos=2,
    )
    return Transformer(config).double()


def test_num_07_label_smoothing_of_uniform_predictions() -> None:
    logits = torch.zeros(3, 5)
    labels = torch.tensor([2, 1, -100])
    assert smoothed_loss(logits, labels, smoothing=0.4, pad=0).item() == pytest.approx(0.99396, abs=1e-5)
    assert smoothed_loss(logits[:1], labels[:1], smoothing=0.4, pad=0).item() == pytest.approx(0.49698, abs=1e-5)
    assert smoothed_loss(logits[2:], labels[2:], smoothing=0.4, pad=0).item() == 0.0


def test_num_07_a_class_of_probability_zero_keeps_the_loss_finite() -> None:
    logits = torch.zeros(1, 5, requires_grad=True)
    mask = torch.tensor([[True, False, False, True, False]])  # pad and one other class cannot come
    loss = smoothed_loss(logits.masked_fill(mask, -torch.inf), torch.tensor([2]), smoothing=0.4, pad=0)
    loss.backward()
    assert math.isfinite(loss.item())
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_smoothed_loss_is_zero_at_the_smoothed_target_and_cross_entropy_without_smoothing() -> None:
    target = torch.tensor([[1e-30, 0.1, 0.7, 0.1, 0.1]])  # pad gets nothing
    logits = target.log()
    assert smoothed_loss(logits, torch.tensor([2]), smoothing=0.3, pad=0).item() == pytest.approx(0.0, abs=1e-5)
    random = torch.randn(6, 5)
    labels = torch.tensor([0, 1, 2, 3, 4, -100])
    expected = F.cross_entropy(random, labels, ignore_index=-100, reduction="sum")
    assert torch.equal(smoothed_loss(random, labels), expected)


def test_smoothed_loss_against_the_sum_over_classes_written_out() -> None:
    torch.manual_seed(1)
    logits, label, smoothing = torch.randn(7).double(), 3, 0.2
    expected = 0.0
    log_p = logits.log_softmax(0)
    for token in range(1, 7):  # without pad
        share = 1 - smoothing if token == label else smoothing / 5
        expected += share * (math.log(share) - log_p[token].item())
    found = smoothed_loss(logits[None], torch.tensor([label]), smoothing, pad=0)
    assert found.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", ["encoder", "decoder", "both"])
def test_teach_gives_what_the_models_own_loss_uses(kind: str) -> None:
    model = small(kind)
    ids = torch.randint(3, 11, (3, 6))
    labels = torch.randint(3, 11, (3, 6))
    labels[1, 4:] = -100
    batch = {"input_ids": ids, "labels": labels}
    fed, targets = teach(model.config, batch)
    logits = model(**fed).logits
    mean = smoothed_loss(logits, targets) / (targets != -100).sum()
    assert mean.item() == pytest.approx(model(**batch).loss.item(), rel=1e-5)


def test_teach_shifts_right_and_fills_with_padding() -> None:
    fed, targets = teach(small("both").config, {"labels": torch.tensor([[5, 6, 2], [7, 2, -100]])})
    assert fed["decoder_input_ids"].tolist() == [[1, 5, 6], [1, 7, 2]]
    assert targets.tolist() == [[5, 6, 2], [7, 2, -100]]


def test_num_08_a_step_counts_tokens_not_batches() -> None:
    torch.manual_seed(2)
    model = small("both")
    ids = torch.randint(3, 11, (4, 5))
    labels = torch.randint(3, 11, (4, 7))
    labels[0, 2:] = -100  # rows of very different length
    labels[1, 1:] = -100
    whole = {"input_ids": ids, "labels": labels}
    one, count = backward(model, [whole], smoothing=0.1)
    expected = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    parts = [{name: value[rows] for name, value in whole.items()} for rows in (slice(0, 1), slice(1, 2), slice(2, 4))]
    several, same = backward(model, parts, smoothing=0.1)
    assert count == same == 2 + 1 + 14
    assert several == pytest.approx(one, abs=1e-9)
    found = [p.grad for p in model.parameters() if p.grad is not None]
    for a, b in zip(found, expected, strict=True):
        assert (a - b).abs().max() < 1e-12


def test_teach_refuses_heads_that_write_no_token() -> None:
    config = replace(small("decoder").config, head=TokenClassifier(labels=("a", "b")))
    ids = torch.ones(1, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"config.head is TokenClassifier; teacher forcing needs a Head"):
        teach(config, {"input_ids": ids, "labels": ids})
