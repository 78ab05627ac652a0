"""Two models that differ in one detail: where they part, and the detail by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from clearhead.checker.compare import Comparison, compare_models
from clearhead.checker.ports import put, rebuilt
from clearhead.config import Attention, Bands, Dense, FeedForward, Head, Layer, Norm, Positions, Rotary, Stack
from clearhead.config import TransformerConfig as Config
from clearhead.lens.record import record
from clearhead.model.transformer import Transformer

IDS = torch.tensor([[4, 7, 1, 9, 3, 12, 5], [2, 8, 8, 6, 11, 3, 10]])


def rotary(**more: Any) -> Config:
    """A decoder with everything that a port may get wrong."""
    look = Attention(
        heads=4, kv_heads=2, causal=True, window=3, softcap=2.0, qk_norm="head", bias="qkv",
        rotary=Rotary(theta=100.0, fraction=0.5, scaling=Bands(factor=4.0, low=1.0, high=4.0, length=16)), **more,
    )  # fmt: skip
    layer = Layer(self_attention=look, feed_forward=FeedForward(dim=24, activation="gelu", gated=True))
    return Config(
        dim=32,
        norm=Norm(kind="rms", eps=1e-3),
        decoder=Stack(layers=(layer, layer), vocab=13, embedding_scale=4.0, norm_out=True, norm_in=True),
        head=Head(tied=True, scale=0.25, softcap=3.0),
    )


def table(**more: Any) -> Config:
    """An encoder with a table of positions and pad 1."""
    layer = Layer(self_attention=Attention(heads=2, **more), feed_forward=FeedForward(dim=24))
    places = Positions(kind="learned", count=20, offset=2)
    return Config(
        dim=16, encoder=Stack(layers=(layer, layer), vocab=13, positions=places), head=Head(tied=False), pad=1
    )


def sinusoids() -> Config:
    return rebuilt(table(), lambda p: Positions(kind="interleaved") if isinstance(p, Positions) else p)


def with_dense() -> Config:
    """An encoder whose head begins with a dense layer."""
    dense = Dense(activation="gelu", norm=True)
    config = table()
    encoder = replace(config.encoder, norm_out=True)
    return replace(config, norm=Norm(eps=0.3), encoder=encoder, head=Head(tied=False, dense=dense))


def spread(config: Config) -> Transformer:
    """A model whose parameters are all drawn wide, so that every detail shows."""
    torch.manual_seed(0)
    model = Transformer(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5 + 0.1)
    return model


def ported(model: Transformer, config: Config) -> Transformer:
    """The same weights under another config; those that it does not want are left out."""
    made = Transformer(config).double().eval()
    made.load_state_dict({k: v for k, v in model.state_dict().items() if k in made.state_dict()})
    return made


def changed(make: Callable[[], Config], kind: Any, /, **new: Any) -> Comparison:
    model = spread(make())
    config = model.config
    for name, value in new.items():
        config = rebuilt(config, lambda part, n=name, v=value: put(part, kind, n, v))
    return compare_models(model, ported(model, config), IDS)


CASES = [
    ("rotary-layout", "decoder.0.self.q", rotary, Rotary, {"layout": "pairs"}),
    ("rotary-theta", "decoder.0.self.q", rotary, Rotary, {"theta": 10000.0}),
    ("rotary-scaling", "decoder.0.self.q", rotary, Rotary, {"scaling": None}),
    ("rotary-fraction", "decoder.0.self.q", rotary, Rotary, {"fraction": 1.0}),
    ("rotary-missing", "decoder.0.self.q", rotary, Attention, {"rotary": None}),
    ("norm-eps", "decoder.embed", rotary, Norm, {"eps": 1e-5}),
    ("norm-eps", "decoder.embed", rotary, Norm, {"eps": 1e-12}),
    ("norm-plus-one", "decoder.embed", rotary, Norm, {"kind": "rms_plus_one"}),
    ("activation", "decoder.0.feed_forward.hidden", rotary, FeedForward, {"activation": "gelu_tanh"}),
    ("activation", "decoder.0.feed_forward.hidden", rotary, FeedForward, {"activation": "silu"}),
    ("activation", "encoder.0.feed_forward.hidden", table, FeedForward, {"activation": "gelu"}),
    ("activation", "logits", with_dense, Dense, {"activation": "gelu_tanh"}),
    ("activation", "encoder.0.feed_forward.hidden", with_dense, (FeedForward, Dense), {"activation": "silu"}),
    ("embedding-scale", "encoder.embed", table, Stack, {"embedding_scale": 4.0}),
    ("embedding-scale", "decoder.embed", rotary, Stack, {"embedding_scale": 1.0}),
    ("head-scale", "logits", rotary, Head, {"scale": 1.0}),
    ("softcap-off", "logits", rotary, Head, {"softcap": None}),
    ("softcap-off", "decoder.0.self.scores", rotary, Attention, {"softcap": None}),
    ("position-offset", "encoder.embed", table, Positions, {"offset": 0, "count": 22}),
    ("position-offset", "encoder.embed", table, Positions, {"offset": 1, "count": 21}),
    ("position-kind", "encoder.embed", sinusoids, Positions, {"kind": "halves"}),
    ("position-missing", "encoder.embed", table, Stack, {"positions": None}),
    ("attention-scale", "encoder.0.self.scores", table, Attention, {"scale": 1.0}),
    ("attention-scale", "encoder.0.self.scores", lambda: table(scale=1.0), Attention, {"scale": 8**-0.5}),
    ("window-off-by-one", "decoder.0.self.scores", rotary, Attention, {"window": 2}),
    ("window-off-by-one", "decoder.0.self.scores", rotary, Attention, {"window": 4}),
    ("window-missing", "decoder.0.self.scores", rotary, Attention, {"window": None}),
    ("causal", "encoder.0.self.scores", table, Attention, {"causal": True}),
    ("causal", "decoder.0.self.scores", rotary, Attention, {"causal": False}),
    ("parallel", "encoder.0.feed_forward.hidden", table, Layer, {"parallel": True}),
    ("bias-missing", "decoder.0.self.q", rotary, Attention, {"bias": ""}),
    ("bias-missing", "decoder.0.feed_forward.hidden", rotary, FeedForward, {"bias": False}),
    ("qk-norm-missing", "decoder.0.self.q", rotary, Attention, {"qk_norm": None}),
    ("norm-out-missing", "decoder.final", rotary, Stack, {"norm_out": False}),
    ("norm-in-missing", "decoder.embed", rotary, Stack, {"norm_in": False}),
]


@pytest.mark.parametrize(("cause", "site", "make", "kind", "new"), CASES)
def test_the_detail_is_named(cause: str, site: str, make: Any, kind: Any, new: dict[str, Any]) -> None:
    found = changed(make, kind, **new)
    assert not found.equal
    assert (found.cause, found.first_site) == (cause, site)
    assert cause in repr(found)


def test_a_model_equals_its_copy() -> None:
    model = spread(rotary()).float().train()
    found = compare_models(model, ported(model, model.config).float(), IDS)
    assert found.equal
    assert found.max_difference < 1e-9
    assert (found.first_site, found.cause) == (None, None)
    assert model.training
    assert next(model.parameters()).dtype == torch.float32


def test_a_mask_that_is_ignored() -> None:
    model = spread(table())
    mask = torch.ones_like(IDS)
    mask[0, 5:] = 0

    def deaf(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return model(input_ids).logits

    found = compare_models(model, deaf, {"input_ids": IDS, "attention_mask": mask})
    assert found.cause == "mask-ignored"
    assert found.first_site is None


def test_what_no_cause_explains() -> None:
    model = spread(table())
    other = ported(model, model.config)
    with torch.no_grad():
        other.get_parameter("encoder.layers.1.feed_forward.up.weight").add_(0.1)
    found = compare_models(model, other, IDS)
    assert (found.cause, found.first_site) == (None, "encoder.1.feed_forward.hidden")
    assert "no known cause" in found.words


def test_the_one_of_ours_may_be_second() -> None:
    model = spread(table())
    other = ported(model, replace(model.config, norm=Norm(eps=1e-12)))
    found = compare_models(lambda ids: other(ids).logits, model, IDS)
    assert found.cause == "norm-eps"
    assert "b gives what a gives with norm.eps 1e-12" in found.words


class Small(nn.Module):
    def __init__(self, bend: nn.Module, names: str = "ab"):
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(13, 8)
        self.add_module(f"{names[0]}1", nn.Linear(8, 8))
        self.bend = bend
        self.add_module(f"{names[1]}2", nn.Linear(8, 13))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = ids
        for part in self.children():
            x = part(x)
        return x


def test_other_modules_by_name() -> None:
    found = compare_models(Small(nn.ReLU()), Small(nn.GELU()), IDS)
    assert found.first_site == "bend"
    assert found.cause is None


def test_other_modules_by_order() -> None:
    one, two = Small(nn.ReLU()), nn.Sequential(*Small(nn.GELU()).children())
    assert compare_models(one, two, IDS).first_site == "bend / 2"


def test_blocks_of_different_make() -> None:
    """Ours has an encoder of two layers; the other shows two blocks, of which the second is wrong."""
    model = spread(table())
    hidden = [ported(model, model.config)]  # in a list, so that its own submodules are not seen

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([nn.Identity(), nn.Identity()])

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            with record(hidden[0], ["*.residual"]) as seen:
                logits = hidden[0](ids).logits
            for i, block in enumerate(self.blocks):
                block(seen[f"encoder.{i}.residual"] * (1 + i))
            return logits * 1.5

    assert compare_models(model, Wrapped(), IDS).first_site == "encoder.layers.1 / blocks.1"


def test_a_detail_that_only_the_second_has() -> None:
    model = spread(rotary())
    plain = ported(model, rebuilt(model.config, lambda part: put(part, Head, "softcap", None)))
    found = compare_models(plain, model, IDS)
    assert found.cause == "softcap-off"
    assert "b gives what a gives with head.softcap None in place of 3.0" in found.words


def test_shapes_that_differ() -> None:
    with pytest.raises(ValueError, match=r"a gives \[2, 7, 13\] and b gives \[2, 7, 12\]"):
        compare_models(lambda ids: torch.zeros(2, 7, 13), lambda ids: torch.zeros(2, 7, 12), IDS)


def test_what_stands_at_padding_does_not_count() -> None:
    model = spread(table())
    mask = torch.ones_like(IDS)
    mask[0, 5:] = 0

    def other(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return model(input_ids, attention_mask=attention_mask).logits + 7.0 * (1 - attention_mask)[..., None]

    assert compare_models(model, other, {"input_ids": IDS, "attention_mask": mask}).equal
