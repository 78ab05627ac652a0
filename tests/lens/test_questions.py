"""Every question of one model and one text, asked of every kind of model: answered in full or refused with a reason."""

import json
from typing import Any

import pytest
import torch

from clearhead.config import Head
from clearhead.lens import alignment, direct_logit_attribution, logit_lens, rollout, saliency
from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT
from lens.kinds import KINDS, example


def asked(name: str) -> tuple[Transformer, dict[str, Any]]:
    model, given = example(name)
    return model, {argument: value[1:] for argument, value in given.items() if argument != "labels"}


@pytest.mark.parametrize("name", KINDS)
def test_projections(name: str) -> None:
    model, given = asked(name)
    head = model.config.head
    if not isinstance(head, Head):
        for question in (lambda: logit_lens(model, given), lambda: direct_logit_attribution(model, given, 5)):
            with pytest.raises(ValueError, match="one logit for each token"):
                question()
        return
    with torch.no_grad():
        logits = model(**given).logits[0]
    assert torch.equal(logit_lens(model, given, top=1).values[-1, :, 0], logits.softmax(-1).amax(-1))
    layers = model.last.form.layers
    if head.dense is not None or layers[0].norm_place == "post":
        with pytest.raises(ValueError, match="no part reaches"):
            direct_logit_attribution(model, given, 5)
        return
    found = direct_logit_attribution(model, given, 5, 2, against=6)
    if head.softcap is not None:
        logits = head.softcap * torch.atanh(logits / head.softcap)
    assert abs(float(found.values.sum() - (logits[2, 5] - logits[2, 6]))) < 1e-10


@pytest.mark.parametrize("name", [name for name in KINDS if KINDS[name]().head is not None])
def test_attributions(name: str) -> None:
    model, given = asked(name)
    last = 8 if "decoder_input_ids" in given else 4
    full = saliency(model, given, position=last, method="integrated_gradients", baseline=3)
    whole = full.more["score"] - full.more["baseline_score"]
    assert float(full.values.sum()) == pytest.approx(whole, rel=0.01)
    lost = saliency(model, given, position=last, method="occlusion", baseline=3)
    steep = saliency(model, given, position=last)
    padding = [t for t, keep in enumerate(given["attention_mask"][0].tolist()) if not keep]
    for found in (full, lost, steep):
        assert found.axes == full.axes
        assert found.values[padding].abs().max() < 1e-12
        assert len(json.dumps(found.to_dict())) > 100


@pytest.mark.parametrize("name", KINDS)
def test_flows(name: str) -> None:
    model, given = asked(name)
    found = rollout(model, given)
    assert torch.allclose(found.values.sum(1), torch.ones(len(found.values)), atol=1e-5)
    assert [*found.axes["position"]] == [*found.axes["token"]][-len(found.values) :]
    assert found.values.shape[1] == len(found.values) + (7 if len(model.config.stacks) == 2 else 0)
    if "decoder_input_ids" in given:
        links = alignment(model, given["input_ids"][0], torch.tensor([4, 5, 6]), layer=0).more["links"]
        assert [target for _, target in links] == [0, 1, 2]


@pytest.mark.parametrize("name", KINDS)
def test_no_question_leaves_a_trace(name: str) -> None:
    model, given = asked(name)
    model.train()

    def state() -> list[Any]:
        return [[module.training for module in model.modules()], model.tap, [p.grad for p in model.parameters()]]

    before = state()
    rollout(model, given)
    if model.config.head is not None:
        saliency(model, given, position=0)
    if isinstance(model.config.head, Head):
        logit_lens(model, given)
    assert state() == before
    assert model.tap is SILENT
