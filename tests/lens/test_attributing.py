"""Attributions: complete where they must be, zero where nothing is read, and no trace left."""

from dataclasses import replace

import pytest
import torch

from clearhead.config import (
    AnswerSpan,
    Attention,
    Audio,
    Head,
    Layer,
    Positions,
    Stack,
    TextClassifier,
    TextEmbedding,
    TokenClassifier,
    TransformerConfig,
)
from clearhead.lens import saliency
from clearhead.text.build import word_tokenizer
from clearhead.text.pair import Pair
from lens.random_models import IDS, KINDS, PLAIN, D, V, both, inputs, made


@pytest.mark.parametrize("name", KINDS)
def test_integrated_gradients_are_complete(name: str) -> None:
    model = made(KINDS[name])
    found = saliency(model, inputs(model.config), 4, method="integrated_gradients")
    whole = found.more["score"] - found.more["baseline_score"]
    assert abs(whole) > 0.01
    assert abs(float(found.values.sum()) - whole) < 0.01 * abs(whole)
    with torch.no_grad():
        logits = model(**inputs(model.config)).logits
    assert found.more["score"] == pytest.approx(float(logits[0, -1, 4]), abs=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "t5", "shared layers"])
def test_integrated_gradients_are_complete_from_the_zero_vector(name: str) -> None:
    model = made(KINDS[name])
    found = saliency(model, inputs(model.config), 4, method="integrated_gradients", baseline=torch.zeros(D))
    whole = found.more["score"] - found.more["baseline_score"]
    assert abs(float(found.values.sum()) - whole) < 0.01 * abs(whole)


def test_a_sum_that_is_not_complete_says_so() -> None:
    """Without any bias, all norms of this model turn at once where the way leaves the zero vector."""
    found = saliency(made(KINDS["llama"]), IDS, 4, method="integrated_gradients", baseline=torch.zeros(D))
    whole = found.more["score"] - found.more["baseline_score"]
    assert abs(float(found.values.sum()) - whole) > 0.01 * abs(whole)
    assert "more than 1 % apart" in found.note


def test_the_baseline_is_the_model_on_that_token_everywhere() -> None:
    for name in ("gpt2", "t5", "encoder"):
        model = made(KINDS[name])
        given = inputs(model.config)
        found = saliency(model, given, 4, method="integrated_gradients", baseline=2)
        with torch.no_grad():
            logits = model(**{key: torch.full_like(ids, 2) for key, ids in given.items()}).logits
        assert found.more["baseline_score"] == pytest.approx(float(logits[0, -1, 4]), abs=1e-5)
    assert found.note.startswith(f"The values sum to {float(found.values.sum()):.4g}; the logit differs from")


def test_gradient_times_input_is_that_of_a_plain_backward_pass() -> None:
    model = made(KINDS["llama"])
    found = saliency(model, IDS, 4, position=3)
    row = model.decoder.table.detach()[IDS].requires_grad_()
    model.decoder.embedding.register_forward_hook(lambda *_: row)
    (grad,) = torch.autograd.grad(model(IDS).logits[0, 3, 4], row)
    assert torch.allclose(found.values, (row * grad).sum(-1)[0].detach(), atol=1e-6)
    assert found.values[4:].tolist() == [0.0, 0.0]
    assert all(parameter.grad is None for parameter in model.parameters())


def test_occlusion_of_an_ignored_token_is_zero() -> None:
    model = made(KINDS["encoder"])
    mask = torch.tensor([[1, 1, 0, 1, 1, 1]])
    found = saliency(model, {"input_ids": IDS, "attention_mask": mask}, 4, method="occlusion")
    assert abs(float(found.values[2])) < 1e-6
    assert (found.values[[0, 1, 3, 4, 5]].abs() > 1e-4).all()


def test_occlusion_is_the_difference_that_the_token_makes() -> None:
    model = made(KINDS["llama"])
    found = saliency(model, IDS, 4, method="occlusion", baseline=9)
    with torch.no_grad():
        for t in range(6):
            ids = IDS.clone()
            ids[0, t] = 9
            lost = model(IDS).logits[0, -1, 4] - model(ids).logits[0, -1, 4]
            assert found.values[t] == pytest.approx(float(lost), abs=1e-5)


def test_a_translation_is_explained_by_source_and_target_tokens() -> None:
    source, target = word_tokenizer(["a b c d"], eos=True), word_tokenizer(["x y z"], bos=True, eos=True)
    model = made(both(vocab=max(len(source), len(target))))
    model.tokenizer = Pair(source, target)
    for method in ("input_x_gradient", "integrated_gradients", "occlusion"):
        found = saliency(model, ("a b c", "x y"), "y", position=1, method=method)
        assert found.axes["token"] == ["a", "b", "c", "</s>", "<s>", "x", "y"]
        assert found.more["stack"] == ["encoder"] * 4 + ["decoder"] * 3
        assert found.more["target"] == "y"
        assert (found.values[:6].abs() > 0).all()
        assert abs(float(found.values[6])) < 1e-5


@pytest.mark.parametrize("pool", ["first", "mean", "not_pad"])
def test_labels_of_texts_are_explained(pool: str) -> None:
    model = made(replace(KINDS["gpt2"], head=TextClassifier(labels=("bad", "good"), pool=pool)))
    found = saliency(model, IDS, "good", method="integrated_gradients")
    with torch.no_grad():
        assert found.more["score"] == pytest.approx(float(model(IDS).logits[0, 1]), abs=1e-5)
    assert float(found.values.sum()) == pytest.approx(found.more["score"] - found.more["baseline_score"], rel=0.01)
    if pool == "first":
        assert found.values[1:].abs().max() == 0.0
    with pytest.raises(ValueError, match=r"target='great'; the labels are bad, good \(0 to 1\)"):
        saliency(model, IDS, "great")


def test_labels_of_tokens_and_ends_of_answers_are_explained() -> None:
    tokens = made(replace(KINDS["encoder"], head=TokenClassifier(labels=("o", "b", "i"))))
    found = saliency(tokens, IDS, "b", position=2)
    with torch.no_grad():
        assert found.more["score"] == pytest.approx(float(tokens(IDS).logits[0, 2, 1]), abs=1e-5)
        answer = made(replace(KINDS["encoder"], head=AnswerSpan()))
        found = saliency(answer, IDS, "end", position=2)
        assert found.more["score"] == pytest.approx(float(answer(IDS).end_logits[0, 2]), abs=1e-5)


def test_a_classifier_with_two_stacks_reads_its_text_twice() -> None:
    model = made(replace(both(), head=TextClassifier(labels=("bad", "good"), pool="last")))
    found = saliency(model, IDS, method="integrated_gradients")
    assert found.more["stack"] == ["encoder"] * 6 + ["decoder"] * 6
    assert found.axes["token"] == list("345678") + list("134567")
    assert float(found.values.sum()) == pytest.approx(found.more["score"] - found.more["baseline_score"], rel=0.01)


def test_a_sound_is_measured_against_silence() -> None:
    look = Attention(heads=4)
    layer = Layer(self_attention=look, feed_forward=PLAIN)
    writer = replace(layer, self_attention=Attention(heads=4, causal=True), cross_attention=look)
    config = TransformerConfig(
        dim=D,
        encoder=Stack(layers=(layer,), vocab=0, audio=Audio(bins=5), positions=Positions(kind="halves")),
        decoder=Stack(layers=(writer,), vocab=V),
        head=Head(),
        bos=1,
    )
    model = made(config)
    given = {"input_features": torch.randn(1, 5, 8), "decoder_input_ids": torch.tensor([[1, 5]])}
    found = saliency(model, given, 4, method="integrated_gradients")
    assert found.axes["token"] == ["0", "1", "2", "3", "1", "5"]
    with torch.no_grad():
        quiet = torch.full((1, 5, 8), float(given["input_features"].min()))
        silent = model(input_features=quiet, decoder_input_ids=torch.tensor([[1, 1]])).logits[0, -1, 4]
    assert found.more["baseline_score"] == pytest.approx(float(silent), abs=1e-5)


def test_bad_questions_are_refused() -> None:
    model = made(KINDS["gpt2"])
    with pytest.raises(ValueError, match="method='lime'; there are"):
        saliency(model, IDS, 4, method="lime")
    with pytest.raises(ValueError, match="steps=0"):
        saliency(model, IDS, 4, steps=0)
    with pytest.raises(ValueError, match=r"baseline is \[3\]; give \[16\]"):
        saliency(model, IDS, 4, baseline=torch.zeros(3), method="occlusion")
    with pytest.raises(ValueError, match="compares with nothing"):
        saliency(model, IDS, 4, baseline=3)
    with pytest.raises(ValueError, match="gives no logit"):
        saliency(made(replace(KINDS["encoder"], head=TextEmbedding(pool="mean"))), IDS)
    bare = made(replace(KINDS["encoder"], pad=None, bos=None))
    assert saliency(bare, IDS, 4).values.shape == (6,)
    with pytest.raises(ValueError, match="no mask, pad, eos or bos token"):
        saliency(bare, IDS, 4, method="occlusion")
