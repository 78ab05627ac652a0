"""The logit lens ends in the logits; direct contributions sum to a logit."""

from dataclasses import replace

import pytest
import torch

from clearhead.config import Dense, Head, TextClassifier
from clearhead.lens import direct_logit_attribution, logit_lens
from clearhead.lens.edit import edit
from clearhead.lens.edits import ablate
from clearhead.text.build import word_tokenizer
from lens.random_models import IDS, KINDS, both, decoder, inputs, made


@pytest.mark.parametrize("name", KINDS)
def test_the_last_layer_of_the_logit_lens_is_what_the_model_says(name: str) -> None:
    model = made(KINDS[name])
    with torch.no_grad():
        logits = model(**inputs(model.config)).logits[0]
    found = logit_lens(model, inputs(model.config), top=13, target=4)
    values, ids = logits.softmax(-1).topk(13)
    assert torch.equal(found.values[-1], values)
    assert found.more["ids"][-1] == ids.tolist()
    assert found.more["target_probability"][-1] == logits.softmax(-1)[:, 4].tolist()
    ranks = [row.index(4) + 1 for row in ids.tolist()]
    assert found.more["target_rank"][-1] == ranks
    assert found.axes["layer"] == ["embed", *(str(i) for i in range(len(model.last.form.layers)))]


def test_the_logit_lens_reads_post_norm_stacks_and_heads_with_a_dense_layer_too() -> None:
    model = made(both("post", head=Head(dense=Dense(activation="gelu"))))
    with torch.no_grad():
        logits = model(**inputs(model.config)).logits[0]
    assert torch.equal(logit_lens(model, inputs(model.config)).values[-1], logits.softmax(-1).topk(5).values)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", KINDS)
def test_direct_contributions_sum_to_the_logit(name: str, dtype: torch.dtype) -> None:
    model = made(KINDS[name], dtype)
    with torch.no_grad():
        logits = model(**inputs(model.config)).logits[0].double()
    if (cap := model.config.head.softcap) is not None:
        logits = cap * torch.atanh(logits / cap)
    bar = 1e-4 if dtype is torch.float32 else 1e-10
    one = direct_logit_attribution(model, inputs(model.config), 4, 1)
    assert abs(float(one.values.sum() - logits[1, 4])) < bar
    two = direct_logit_attribution(model, inputs(model.config), 4, against=7)
    assert abs(float(two.values.sum() - (logits[-1, 4] - logits[-1, 7]))) < bar
    assert abs(two.more["remainder"]) < bar
    layer = model.last.form.layers[0]
    heads = sum(" head " in label for label in two.axes["part"])
    assert heads == (4 if layer.cross_attention is None else 8) * len(model.last.form.layers)


def test_a_head_without_output_weights_contributes_nothing() -> None:
    model = made(KINDS["gemma"])
    with torch.no_grad():
        model.last.layers[1].self_attention.o.weight.unflatten(1, (4, 4))[:, 2] = 0.0
    found = direct_logit_attribution(model, IDS, 4)
    parts = dict(zip(found.axes["part"], found.values.tolist(), strict=True))
    assert parts["decoder.1.self head 2"] == 0.0
    assert parts["decoder.1.self head 1"] != 0.0


def test_contributions_are_those_of_the_edited_run() -> None:
    model = made(KINDS["gpt2"])
    with edit(model, {"decoder.1.self.heads": ablate(heads=[3])}):
        found = direct_logit_attribution(model, IDS, 4)
        logit = model(IDS).logits[0, -1, 4].detach()
    parts = dict(zip(found.axes["part"], found.values.tolist(), strict=True))
    assert parts["decoder.1.self head 3"] == 0.0
    assert abs(float(found.values.sum() - logit)) < 1e-4


def test_texts_and_pieces_are_taken_and_named() -> None:
    tokenizer = word_tokenizer(["one two three four"], bos=True, eos=True)
    config = replace(KINDS["gpt2"], eos=2)
    model = made(replace(config, decoder=replace(config.decoder, vocab=len(tokenizer))))
    model.tokenizer = tokenizer
    found = logit_lens(model, "one two", target="three")
    assert list(found.axes["position"]) == ["<s>", "one", "two"]
    assert found.more["target"] == "three"
    assert direct_logit_attribution(model, "one two", "three").more["token"] == ["three"]
    with pytest.raises(ValueError, match="'one two' is 2 tokens"):
        direct_logit_attribution(model, "one two", "one two")
    with pytest.raises(ValueError, match="ask about one sample at a time"):
        logit_lens(model, ["one two", "three"])


def test_dropout_rests_and_the_mode_comes_back() -> None:
    model = made(replace(KINDS["gpt2"], dropout=0.5)).train()
    model.head.eval()
    assert torch.equal(logit_lens(model, IDS).values, logit_lens(model, IDS).values)
    assert model.decoder.training
    assert not model.head.training


def test_what_cannot_be_taken_apart_is_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match=r"norm_place is 'post'.*no part reaches the logit on its own"):
        direct_logit_attribution(made(both("post")), inputs(both()), 4)
    dense = decoder(KINDS["gpt2"].decoder.layers[0], head=Head(dense=Dense(activation="gelu")))
    with pytest.raises(ValueError, match="stands between the residual and the logit"):
        direct_logit_attribution(made(dense), IDS, 4)
    labels = made(replace(KINDS["gpt2"], head=TextClassifier(labels=("a", "b"), pool="last")))
    for ask in (lambda: direct_logit_attribution(labels, IDS, 1), lambda: logit_lens(labels, IDS)):
        with pytest.raises(ValueError, match=r"config\.head is a TextClassifier"):
            ask()


def test_bad_places_are_refused_with_the_numbers() -> None:
    model = made(KINDS["gpt2"])
    with pytest.raises(ValueError, match="position=6, but there are 6 tokens"):
        direct_logit_attribution(model, IDS, 4, 6)
    padded = {"input_ids": IDS, "attention_mask": torch.tensor([[1, 1, 1, 1, 0, 0]])}
    with pytest.raises(ValueError, match=r"position=-1 is padding; the tokens stand at \[0, 1, 2, 3\]"):
        direct_logit_attribution(model, padded, 4)
    with pytest.raises(ValueError, match=r"token=13, but decoder.vocab is 13"):
        direct_logit_attribution(model, IDS, 13)
    with pytest.raises(ValueError, match="top=14; there are 13 tokens"):
        logit_lens(model, IDS, top=14)
    with pytest.raises(ValueError, match=r"model\.tokenizer is None"):
        logit_lens(model, "one")
