"""How long the residual stream and what is added to it are: by hand, for every kind of model."""

import pytest
import torch

from clearhead.lens import norms
from clearhead.lens.inputs import arguments
from clearhead.lens.record import record
from clearhead.view.figures import plot
from lens.random_models import IDS, KINDS, PAIR, both, inputs, made


@pytest.mark.parametrize("name", KINDS)
def test_every_norm_is_that_of_what_was_recorded(name: str) -> None:
    model = made(KINDS[name])
    found = norms(model, inputs(model.config))
    (stack,) = [*model.config.stacks][-1:]
    places, positions = found.axes["place"], found.axes["position"]
    assert places[0] == "embed"
    assert places[-1] == "final"
    assert found.values.shape == (len(places), len(positions))
    with record(model, "*") as seen, torch.no_grad():
        model(**arguments(model, inputs(model.config)))
    for place, row in zip(places, found.values, strict=True):
        address = f"{stack}.{place.replace(' ', '.')}"
        value = seen[address if address in seen else f"{address}.out"]
        assert torch.allclose(row, value[0].square().sum(-1).sqrt(), atol=1e-5), place


def test_both_stacks_of_a_translator() -> None:
    model = made(both())
    decoder, encoder = norms(model, PAIR), norms(model, PAIR, stack="encoder")
    assert decoder.title == "norms of the decoder"
    assert [place for place in decoder.axes["place"] if place.startswith("0 ")] == [
        "0 self",
        "0 cross",
        "0 feed_forward",
        "0 residual",
    ]
    assert "0 cross" not in encoder.axes["place"]
    assert len(encoder.axes["position"]) == 4


def test_a_stack_that_is_not_there_is_refused() -> None:
    model = made(KINDS["gpt2"])
    with pytest.raises(ValueError, match="stack='encoder'; this model has decoder"):
        norms(model, IDS, stack="encoder")


def test_it_is_drawn_and_printed() -> None:
    found = norms(made(KINDS["gpt2"]), IDS)
    pytest.importorskip("matplotlib")
    assert plot(found).axes
    assert "norms of the decoder (L2 norm), place x position" in repr(found)
