"""The truth tests notice every setting: flip one field of a family's config, and the logits are no longer equal."""

from typing import Any

import pytest
import torch

from clearhead.model.transformer import Transformer
from model.test_model_flips import Refused, flips
from truth.cases import LIMIT, case, difference, result, text
from truth.homes import HOMES

# The home libraries of these have no setting for eps: 1e-5 or less stands in their code, and twice as much is lost in
# float32.
FIXED_EPS = ("bart", "marian", "m2m", "mbart", "pegasus", "whisper", "distilbert")


Run = tuple[dict[str, torch.Tensor], torch.Tensor]  # inputs, and the home library's logits


def noticed(config: Any, weights: dict[str, torch.Tensor], runs: list[Run]) -> bool:
    """Whether the flipped config is refused, wants other tensors, or gives other logits for one of the texts."""
    if isinstance(config, Refused):
        return True
    with torch.device("meta"):
        model = Transformer(config).eval()
    if {name: p.shape for name, p in model.named_parameters()} != {name: p.shape for name, p in weights.items()}:
        return True
    if config.shared_embeddings:
        weights = {**weights, "decoder.embedding.weight": weights["encoder.embedding.weight"]}
    model.load_state_dict(weights, assign=True)
    return any(unlike(model, inputs, truth) for inputs, truth in runs)


def unlike(model: Transformer, inputs: dict[str, torch.Tensor], truth: torch.Tensor) -> bool:
    try:
        found = result(model(**inputs))
    except ValueError:
        return True
    return found.shape != truth.shape or difference(found, truth) > 2 * LIMIT


@pytest.mark.parametrize("name", HOMES)
@torch.no_grad()
def test_every_setting_is_noticed(name: str) -> None:
    c = case(name)
    runs = [(inputs, c.theirs(**inputs)) for inputs in (c.inputs(text(1, 44)), c.inputs(text(1, 9)))]
    weights = dict(c.ours.named_parameters())
    fixed = name.startswith(FIXED_EPS)
    flipped = [flip for flip in flips(c.ours.config) if not (fixed and flip[0].startswith("norm.eps"))]
    idle = [path for path, config in flipped if not noticed(config, weights, runs)]
    assert len(flipped) > 30
    assert not noticed(c.ours.config, weights, runs)
    assert not idle, idle
