"""Every address is met, in the order that `sites` says; what a tap changes there changes the logits."""

from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.model.cache import Cache
from clearhead.model.transformer import Transformer
from clearhead.tap import Tap, sites
from model.tiny import ALL, TRANSLATORS, build, close, text

EXAMPLES = {
    "encoder.embed",
    "encoder.1.self.weights",
    "decoder.0.cross.k",
    "decoder.1.middle",
    "decoder.final",
    "logits",
}


class Notes(Tap):
    """Keeps addresses and values; changes those that match `changed`; opens attention where asked."""

    def __init__(self, opened: bool = False, changed: str = "", place: str = "", root: "Notes | None" = None):
        self.opened, self.changed, self.place = opened, changed, place
        self.root = self if root is None else root
        self.seen: dict[str, Tensor] = {}
        self.products: list[str] = []

    def at(self, name: str) -> Tap:
        return Notes(self.opened, self.changed, f"{self.place}{name}.", self.root)

    def __call__(self, site: str, value: Any) -> Any:
        address = self.place + site
        assert address not in self.root.seen, f"{address} is met twice"
        self.root.seen[address] = value
        return value + 0.5 * value.roll(1, -1) if fnmatchcase(address, self.changed) else value

    def opens(self) -> bool:
        return self.opened

    def product(self, q: Any, k: Any, v: Any, weigh: Any) -> None:
        self.root.products.append(self.place)


def run(model: Transformer, kind: str, tap: Tap | None = None, **rest: Any) -> Tensor:
    target = {"decoder_input_ids": text(2, 5, seed=1)} if kind in TRANSLATORS else {}
    out = model(text(2, 6, vocab=31), **target, **rest, tap=tap)
    return out.hidden if out.logits is None else out.logits


@pytest.mark.parametrize("kind", ALL)
def test_sites_are_the_addresses_of_a_forward_pass_in_order(kind: str) -> None:
    model = build(ALL[kind]())
    opened, closed = Notes(opened=True), Notes()
    logits, plain = run(model, kind, opened), run(model, kind)
    assert tuple(opened.seen) == sites(model.config)
    close(logits, plain)
    assert torch.equal(run(model, kind, closed), plain)
    inner = (".scores", ".weights")
    assert tuple(closed.seen) == tuple(s for s in sites(model.config) if not s.endswith(inner))
    products = [s.removesuffix("heads") for s in sites(model.config) if s.endswith(".heads")]
    assert closed.products == opened.products == products


def test_sites_use_the_words_of_the_vocabulary() -> None:
    found = set(sites(ALL["post_norm_translator"]()))
    assert found >= EXAMPLES
    assert len(found) == 2 * 2 + 1 + 2 * (7 + 4) + 2 * (14 + 4)


@pytest.mark.parametrize("kind", ALL)
def test_shapes_at_each_site(kind: str) -> None:
    config, notes = ALL[kind](), Notes(opened=True)
    run(build(config), kind, notes)
    for address, value in notes.seen.items():
        parts = address.split(".")
        if address == "logits":
            continue
        stack = config.encoder if parts[0] == "encoder" else config.decoder
        tokens = 5 if parts[0] == "decoder" and kind in TRANSLATORS else 6
        if parts[-1] in ("embed", "middle", "residual", "final", "out"):
            assert value.shape == (2, tokens, config.dim), address
        elif parts[-1] == "hidden":
            assert value.shape == (2, tokens, stack.layers[int(parts[1])].feed_forward.dim), address
        else:
            layer = stack.layers[int(parts[1])]
            form = layer.self_attention if parts[2] == "self" else layer.cross_attention
            keys = 6 if parts[2] == "cross" else tokens
            width = form.width(config.dim)
            expected = {
                "q": (2, form.heads, tokens, width),
                "heads": (2, form.heads, tokens, width),
                "k": (2, form.groups, keys, width),
                "v": (2, form.groups, keys, width),
            }.get(parts[-1], (2, form.heads, tokens, keys))
            assert value.shape == expected, address


@pytest.mark.parametrize("kind", ALL)
def test_a_change_at_any_site_changes_the_logits(kind: str) -> None:
    model = build(ALL[kind]())
    plain = run(model, kind)
    for address in sites(model.config):
        tap = Notes(opened=address.endswith((".scores", ".weights")), changed=address)
        changed = run(model, kind, tap)
        assert bool(changed.isfinite().all()) or address.endswith("scores"), address
        assert not torch.allclose(changed, plain, atol=1e-9, rtol=0, equal_nan=True), address


def test_what_a_branch_adds_is_what_the_site_says() -> None:
    for kind in ("learned_decoder", "rotary_decoder", "window_decoder"):
        notes = Notes()
        run(build(ALL[kind]()), kind, notes)
        seen = notes.seen
        close(seen["decoder.0.middle"], seen["decoder.embed"] + seen["decoder.0.self.out"])
        close(seen["decoder.0.residual"], seen["decoder.0.middle"] + seen["decoder.0.feed_forward.out"])
        close(seen["decoder.1.middle"], seen["decoder.0.residual"] + seen["decoder.1.self.out"])
    notes = Notes()
    run(build(ALL["parallel_decoder"]()), "parallel_decoder", notes)
    seen = notes.seen
    close(
        seen["decoder.0.residual"],
        seen["decoder.embed"] + seen["decoder.0.self.out"] + seen["decoder.0.feed_forward.out"],
    )


def test_weights_in_flight_make_the_heads() -> None:
    for kind in ALL:
        notes = Notes(opened=True)
        run(build(ALL[kind]()), kind, notes)
        for address, weights in notes.seen.items():
            if address.endswith(".weights"):
                place = address.removesuffix("weights")
                v = notes.seen[place + "v"]
                heads = weights @ v.repeat_interleave(weights.shape[1] // v.shape[1], 1)
                close(heads, notes.seen[place + "heads"])


@torch.no_grad()
def test_a_cached_call_shows_the_new_tokens_only() -> None:
    model, source, ids = build(ALL["relative_translator"]()), text(2, 6, vocab=31), text(2, 5)
    cache, notes = Cache(), Notes(opened=True)
    model(source, None, ids[:, :4], cache=cache)
    model(source, None, ids[:, 4:], cache=cache, tap=notes)
    assert notes.seen["decoder.0.self.k"].shape[2] == 1
    assert notes.seen["decoder.0.self.weights"].shape[2:] == (1, 5)
    assert notes.seen["decoder.0.cross.weights"].shape[2:] == (1, 6)
    assert "decoder.0.cross.k" not in notes.seen  # stored since the first call


@torch.no_grad()
def test_an_edit_of_keys_and_values_is_made_once_and_stays() -> None:
    model, ids = build(ALL["rotary_decoder"]()), text(1, 7)
    whole = model(ids, tap=Notes(changed="decoder.0.self.[kv]")).logits
    cache = Cache()
    parts = [model(ids[:, i : i + 1], cache=cache, tap=Notes(changed="decoder.0.self.[kv]")).logits for i in range(7)]
    close(torch.cat(parts, 1), whole)


def test_the_models_own_tap_is_heard_unless_another_is_given() -> None:
    model, ids = build(ALL["rotary_decoder"]()), text(1, 4)
    plain = model(ids).logits
    model.tap = Notes(changed="decoder.embed")
    assert not torch.equal(model(ids).logits, plain)
    assert torch.equal(model(ids, tap=Tap()).logits, plain)
    encoder = build(ALL["learned_encoder"]())
    before = encoder.encode(ids)
    encoder.tap = Notes(changed="encoder.embed")
    assert not torch.equal(encoder.encode(ids), before)


def test_num_04_the_embedding_scale_is_rounded_to_the_type_of_the_weights() -> None:
    config = ALL["window_decoder"]()
    config = replace(config, decoder=replace(config.decoder, embedding_scale=3072**0.5))
    # In bfloat16 11 * 55.5 = 610.5 rounds to 612, and 11 * 55.4256 = 609.7 would round to 608.
    for dtype, expected in ((torch.bfloat16, 612.0), (torch.float64, 11 * 3072**0.5)):
        model, notes = build(config, dtype), Notes()
        model.decoder.embedding.weight.data.fill_(11.0)
        model(text(1, 3), tap=notes)
        assert notes.seen["decoder.embed"][0, 0, 0].item() == pytest.approx(expected, rel=1e-15)
