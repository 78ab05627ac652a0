"""What goes wrong without an error is said."""

import math

import pytest
import torch

from clearhead.train.alarms import alarms, first_bad
from clearhead.train.loop import TrainingArguments, train
from clearhead.train.loss import Batch
from clearhead.train.optimizer import Rates, freeze
from clearhead.train.schedule import cosine
from train.test_compute import batch
from train.test_loop import copying
from train.test_loss import small


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("encoder.layers.0.self_attention.v.weight", "encoder.0.self.v"),
        ("decoder.layers.0.feed_forward.up.weight", "decoder.0.feed_forward.hidden"),
        ("decoder.embedding.weight", "decoder.embed"),
    ],
)
def test_trn_15_the_first_bad_place_is_named_with_the_step(name: str, place: str) -> None:
    model = small("both").float()
    before = {key: p.clone() for key, p in model.named_parameters()}
    given = copying(0)

    def spoil(reached, history) -> bool:
        if reached.step == 2:
            before.update({key: p.detach().clone() for key, p in model.named_parameters()})
            model.get_parameter(name).data.fill_(math.nan)
        return False

    args = TrainingArguments(steps=9, rates=Rates(), schedule=cosine(1, 9))
    with pytest.raises(ValueError, match=rf"step 3: the gradient is nan, .* forward pass first at {place}"):
        train(model, given, args, after=spoil)
    rest = {key: p for key, p in model.named_parameters() if key != name}
    assert all(torch.equal(p, before[key]) for key, p in rest.items()), "no step is made with such gradients"


def test_a_healthy_forward_pass_has_no_bad_place_even_with_hidden_keys() -> None:
    assert first_bad(small("both"), [batch()]) is None


def many(rows: int = 25) -> Batch:
    ids = torch.randint(3, 11, (rows, 6))
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.randint(3, 11, (rows, 5))}


def test_trn_16_a_model_that_ignores_its_source_is_named_with_share_and_entropy() -> None:
    model = small("both").eval()
    for parameter in model.parameters():
        parameter.data.mul_(3.0)
    assert alarms(model, many()) == []
    model.decoder.layers[0].cross_attention.o.weight.data.zero_()
    model.decoder.layers[0].cross_attention.q.weight.data.zero_()
    (said,) = [one for one in alarms(model, many()) if "ignores the source" in one]
    assert "20 of 20 sources give the same predictions" in said
    assert "2.58 bits of entropy, evenly spread they would have 2.58" in said


def test_a_model_that_says_one_token_only_is_named() -> None:
    model = small("decoder").eval()
    model.decoder.embedding.weight.data[5] = 0.0
    ids = torch.randint(3, 11, (20, 6))
    given = {"input_ids": ids, "labels": ids}
    assert alarms(model, given) == []
    model.decoder.embedding.weight.data.fill_(0.0)
    (said,) = alarms(model, given)
    assert said.startswith("100% of all predictions are the same;")
    assert alarms(model, {"input_ids": ids, "labels": torch.full_like(ids, 4)}) == [], "it is all that is asked"


def test_a_pattern_that_freezes_nothing_or_everything_is_refused() -> None:
    model = small("decoder")
    freeze(model, ("decoder.layers.0.*",))
    names = {name for name, p in model.named_parameters() if not p.requires_grad}
    assert names == {name for name, _ in model.named_parameters() if name.startswith("decoder.layers.0.")}
    with pytest.raises(ValueError, match=r"no parameter is called decoder\.embeding\.\*; there is for instance deco"):
        freeze(model, ("decoder.embeding.*",))
    with pytest.raises(ValueError, match=r"all \d+ parameters are frozen; leave some to be trained"):
        freeze(model, ("*",))
