"""The truth tests notice every setting: flip one field of a family's config, and the logits are no longer equal."""

from typing import Any

import pytest
import torch

from clearhead.model.transformer import Transformer
from model.test_model_flips import Refused, flips
from truth.cases import LIMIT, case, difference, result, text
from truth.homes import HOMES

# The home libraries of these have no setting for eps: 1e-5 stands in their code, and twice as much is lost in float32.
FIXED_EPS = ("bart", "marian", "m2m")


def noticed(config: Any, weights: dict[str, torch.Tensor], inputs: dict[str, torch.Tensor], truth: Any) -> bool:
    """Whether the flipped config is refused, wants other tensors, or gives other logits."""
    if isinstance(config, Refused):
        return True
    with torch.device("meta"):
        model = Transformer(config).eval()
    if {name: p.shape for name, p in model.named_parameters()} != {name: p.shape for name, p in weights.items()}:
        return True
    if config.shared_embeddings:
        weights = {**weights, "decoder.embedding.weight": weights["encoder.embedding.weight"]}
    model.load_state_dict(weights, assign=True)
    try:
        found = result(model(**inputs))
    except ValueError:
        return True
    return found.shape != truth.shape or difference(found, truth) > 2 * LIMIT


@pytest.mark.parametrize("name", HOMES)
@torch.no_grad()
def test_every_setting_is_noticed(name: str) -> None:
    c = case(name)
    inputs = c.inputs(text(1, 44))
    truth, weights = c.theirs(**inputs), dict(c.ours.named_parameters())
    flipped = [flip for flip in flips(c.ours.config) if flip[0] != "norm.eps = 2e-05" or not name.startswith(FIXED_EPS)]
    idle = [path for path, config in flipped if not noticed(config, weights, inputs, truth)]
    assert len(flipped) > 30
    assert not noticed(c.ours.config, weights, inputs, truth)
    assert not idle, idle
