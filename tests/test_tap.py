"""The silent tap, and the addresses of a model that has not been built."""

from dataclasses import replace

from clearhead.config import Attention, FeedForward, Layer, Stack, TransformerConfig
from clearhead.tap import SILENT, Tap, sites

FF = FeedForward(dim=8)
PLAIN = Layer(self_attention=Attention(heads=2), feed_forward=FF)
BACK = Layer(self_attention=Attention(heads=2, causal=True), feed_forward=FF)
BOTH = replace(BACK, cross_attention=Attention(heads=2))


def test_the_silent_tap_changes_nothing_and_keeps_nothing() -> None:
    value = object()
    assert SILENT("q", value) is value
    assert SILENT.at("decoder").at("3") is SILENT
    assert SILENT.opens() is False
    assert vars(SILENT) == {}
    assert SILENT.text("decoder", value, None) is SILENT
    SILENT.product(value, value, value, value)
    assert vars(SILENT) == {}
    assert type(SILENT) is Tap


def test_sites_of_a_decoder() -> None:
    config = TransformerConfig(dim=4, decoder=Stack(layers=(BACK,), vocab=9))
    inner = ("q", "k", "v", "scores", "weights", "heads", "out")
    assert sites(config) == (
        "decoder.embed",
        *(f"decoder.0.self.{s}" for s in inner),
        "decoder.0.middle",
        "decoder.0.feed_forward.hidden",
        "decoder.0.feed_forward.out",
        "decoder.0.residual",
        "decoder.final",
        "logits",
    )


def test_sites_of_every_kind() -> None:
    encoder = sites(TransformerConfig(dim=4, encoder=Stack(layers=(PLAIN,) * 2, vocab=9), head=None))
    assert encoder[0] == "encoder.embed"
    assert encoder[-1] == "encoder.final"
    assert "encoder.1.self.weights" in encoder
    assert not any("cross" in s for s in encoder)

    stacks = {"encoder": Stack(layers=(PLAIN,), vocab=9), "decoder": Stack(layers=(BOTH,) * 3, vocab=9)}
    both = sites(TransformerConfig(dim=4, **stacks))
    assert len(set(both)) == len(both)
    assert both.index("encoder.final") < both.index("decoder.embed")
    assert both.index("decoder.2.self.out") < both.index("decoder.2.cross.q") < both.index("decoder.2.middle")


def test_parallel_branches_have_no_middle() -> None:
    config = TransformerConfig(dim=4, decoder=Stack(layers=(replace(BACK, parallel=True), BACK), vocab=9))
    assert "decoder.0.middle" not in sites(config)
    assert "decoder.1.middle" in sites(config)
