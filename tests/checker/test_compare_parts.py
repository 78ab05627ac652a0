"""Two models that differ in one detail of one part: the part is named with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from checker.test_compare import IDS, ported, rotary, spread, table, with_dense
from clearhead.checker.compare import Comparison, compare_models
from clearhead.checker.ports import put, rebuilt
from clearhead.checker.variants import parts
from clearhead.config import Attention, FeedForward, Norm, Rotary
from clearhead.config import TransformerConfig as Config


def one_otherwise(config: Config, module: str, change: Callable[[Config], Config]) -> Comparison:
    """The model beside one in which this module alone is that of the changed config."""
    model = spread(config)
    other, changed = ported(model, config), ported(model, change(config))
    other.set_submodule(module, changed.get_submodule(module))
    for name in config.stacks:  # masks and angles are made for all layers of a stack
        i = int(module.rsplit(".", 1)[1]) if module.startswith(f"{name}.layers") else None
        if i is not None:
            stack = other.get_submodule(name)
            layers = [*stack.form.layers]
            layers[i] = changed.get_submodule(name).form.layers[i]
            stack.form = replace(stack.form, layers=tuple(layers))
    return compare_models(model, other, IDS)


def six(make: Callable[[], Config]) -> Config:
    config = make()
    name, stack = next(iter(config.stacks.items()))
    return replace(config, **{name: replace(stack, layers=stack.layers[:1] * 6)})


ALONE = [
    ("norm-eps", "decoder.layers.3", "decoder.3", rotary, Norm, {"eps": 1e-6}),
    ("activation", "decoder.layers.3", "decoder.3", rotary, FeedForward, {"activation": "gelu_tanh"}),
    ("activation", "encoder.layers.5", "encoder.5", table, FeedForward, {"activation": "gelu"}),
    ("rotary-theta", "decoder.layers.3", "decoder.3", rotary, Rotary, {"theta": 10000.0}),
    ("rotary-layout", "decoder.layers.4", "decoder.4", rotary, Rotary, {"layout": "pairs"}),
    ("window-missing", "decoder.layers.3", "decoder.3", rotary, Attention, {"window": None}),
    ("window-off-by-one", "decoder.layers.2", "decoder.2", rotary, Attention, {"window": 4}),
    ("causal", "encoder.layers.1", "encoder.1", table, Attention, {"causal": True}),
    ("attention-scale", "encoder.layers.3", "encoder.3", table, Attention, {"scale": 1.0}),
    ("softcap-off", "decoder.layers.0", "decoder.0", rotary, Attention, {"softcap": None}),
    ("norm-eps", "decoder.norm_out", "decoder.final", rotary, Norm, {"eps": 1e-12}),
    ("norm-eps", "decoder.norm_in", "decoder.embed", rotary, Norm, {"eps": 1e-12}),
    ("norm-eps", "head", "logits", with_dense, Norm, {"eps": 1e-12}),
]


@pytest.mark.parametrize(("cause", "module", "place", "make", "kind", "new"), ALONE)
def test_a_detail_of_one_layer_is_named_with_the_layer(
    cause: str, module: str, place: str, make: Any, kind: Any, new: dict[str, Any]
) -> None:
    def change(config: Config) -> Config:
        return rebuilt(config, lambda part: put(part, kind, *next(iter(new.items()))))

    found = one_otherwise(six(make), module, change)
    assert found.cause == cause, found.words
    assert found.first_site is not None
    assert found.first_site.startswith(place)
    assert f", in {place} alone" in found.words


def test_one_layer_of_a_function_is_found_without_a_site() -> None:
    model = spread(six(rotary))
    other = ported(model, rebuilt(model.config, lambda part: put(part, Rotary, "theta", 10000.0)))
    mixed = ported(model, model.config)
    mixed.decoder.layers[1] = other.decoder.layers[1]
    layers = (*model.config.decoder.layers[:1], other.config.decoder.layers[1], *model.config.decoder.layers[2:])
    mixed.decoder.form = replace(mixed.decoder.form, layers=layers)
    found = compare_models(model, lambda ids: mixed(ids).logits, IDS)
    assert (found.cause, found.first_site) == ("rotary-theta", None)
    assert "decoder.layers.1.self_attention.rotary.theta 10000.0 in place of 100.0, in decoder.1 alone" in found.words


def test_layers_that_share_weights_are_not_tried_one_by_one() -> None:
    config = six(table)
    config = replace(config, encoder=replace(config.encoder, shared=(0,) * 6))
    assert [part.name for part in parts(config, None)] == ["logits"]
