"""An encoder that hears: frames of sound in the place of tokens, everything else as always."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import clearhead
from clearhead.config import Attention, Audio, FeedForward, Head, Layer, Positions, Stack, TransformerConfig
from clearhead.model.cache import Cache
from clearhead.model.transformer import Transformer
from clearhead.tap import Tap
from model.tiny import VOCAB, build, close, text

BINS, FRAMES = 5, 13


def listener(**changes: Any) -> TransformerConfig:
    """As Whisper is: pre-norm, a learned table for each stack, keys without a bias."""
    look, ff = Attention(heads=3, bias="qvo"), FeedForward(dim=17, activation="gelu")
    read = Layer(self_attention=look, feed_forward=ff)
    write = Layer(self_attention=replace(look, causal=True), cross_attention=look, feed_forward=ff)
    heard, written = (Positions(kind="learned", count=count) for count in (8, 30))
    encoder = Stack(layers=(read,) * 2, vocab=0, audio=Audio(bins=BINS), positions=heard, norm_out=True)
    decoder = Stack(layers=(write,) * 2, vocab=VOCAB, positions=written, norm_out=True)
    settings: dict[str, Any] = {"encoder": encoder, "decoder": decoder, "pad": 0, "bos": 1, "eos": 2}
    return TransformerConfig(dim=12, **(settings | changes))


def encoder_only() -> TransformerConfig:
    return listener(decoder=None, head=None, pad=None, bos=None, eos=None)


def sound(batch: int = 2, frames: int = FRAMES, seed: int = 0) -> Tensor:
    return torch.randn(batch, BINS, frames, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


IDS, ONES = text(2, 6), torch.ones(2, 6, dtype=torch.int64)


@torch.no_grad()
def test_what_enters_the_encoder_is_two_convolutions_and_positions() -> None:
    """Each written as the products that it stands for."""
    model = build(listener())
    with clearhead.record(model, ["encoder.embed"]) as seen:
        states = model.encode(input_features=sound())
    assert model.encoder is not None
    x, weights = sound(), dict(model.encoder.embedding.named_parameters())
    for name, stride in (("first", 1), ("second", 2)):
        padded = F.pad(x, (1, 1))
        windows = torch.stack([padded[:, :, t : t + 3] for t in range(0, x.shape[2], stride)], dim=-1)  # [B in 3 T]
        x = torch.einsum("bijt,oij->bot", windows, weights[f"{name}.weight"]) + weights[f"{name}.bias"][:, None]
        x = 0.5 * x * (1 + torch.erf(x / 2**0.5))
    expected = x.transpose(1, 2) + model.encoder.positions.table.weight[:7]
    found = seen["encoder.embed"]
    assert isinstance(found, Tensor)
    close(found, expected)
    assert states.shape == (2, 7, 12)


@pytest.mark.parametrize("frames", [1, 2, 3, 15, 16])
def test_two_frames_are_one_position(frames: int) -> None:
    states = build(listener()).encode(input_features=sound(frames=frames))
    assert states.shape == (2, (frames + 1) // 2, 12)


@torch.no_grad()
def test_a_step_by_step_decoder_gives_the_same() -> None:
    model, cache = build(listener()), Cache()
    full = model(input_features=sound(), decoder_input_ids=IDS).logits
    steps = [
        model(input_features=sound(), decoder_input_ids=ids, cache=cache).logits for ids in IDS.split([3, 1, 2], 1)
    ]
    close(torch.cat(steps, 1), full)
    states = model.encode(input_features=sound())
    close(model(decoder_input_ids=IDS, encoder_hidden=states).logits, full)


@torch.no_grad()
def test_each_sound_answers_as_it_does_alone() -> None:
    model = build(listener())
    both = model(input_features=sound(), decoder_input_ids=IDS).logits
    for row in range(2):
        alone = model(input_features=sound()[row : row + 1], decoder_input_ids=IDS[row : row + 1]).logits
        close(alone, both[row : row + 1])


@pytest.mark.parametrize("options", [{}, {"num_beams": 3, "num_return_sequences": 2}, {"use_cache": False}])
def test_generation(options: dict[str, Any]) -> None:
    model = build(listener())
    ids = clearhead.generate(model, input_features=sound(), max_new_tokens=7, **options)
    if "num_beams" not in options:
        with torch.no_grad():
            logits = model(input_features=sound(), decoder_input_ids=ids[:, :-1]).logits
        logits[..., 0] = -torch.inf  # the padding
        assert torch.equal(logits.argmax(-1)[0], ids[0, 1:])
    else:
        one = clearhead.generate(model, input_features=sound()[1:], max_new_tokens=7, **options)
        assert torch.equal(ids[2:, : one.shape[1]], one)


def test_every_parameter_has_an_effect_and_so_has_every_frame() -> None:
    model, features = build(listener()), sound().requires_grad_()
    model(input_features=features, decoder_input_ids=IDS).logits.square().sum().backward()
    assert [name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-9] == []
    assert features.grad is not None
    assert bool((features.grad != 0).all())


@torch.no_grad()
def test_labels_are_predicted() -> None:
    model = build(listener())
    out = model(input_features=sound(), labels=IDS)
    shifted = torch.cat([torch.ones(2, 1, dtype=torch.int64), IDS[:, :-1]], 1)
    close(out.logits, model(input_features=sound(), decoder_input_ids=shifted).logits)
    assert out.loss is not None
    close(out.loss, F.cross_entropy(out.logits.flatten(0, 1), IDS.flatten()))


@torch.no_grad()
def test_features_take_the_type_of_the_weights() -> None:
    model = build(listener()).bfloat16()
    assert model(input_features=sound().float(), decoder_input_ids=IDS).logits.dtype == torch.bfloat16


@torch.no_grad()
def test_an_encoder_alone() -> None:
    model = build(encoder_only())
    out = model(input_features=sound())
    assert out.logits is None
    assert torch.equal(out.hidden, model.encode(input_features=sound()))


def test_a_new_model_is_drawn_and_a_saved_one_comes_back(tmp_path: Path) -> None:
    model = Transformer(listener()).eval()
    other = Transformer(listener())
    for name in ("first", "second"):
        weight, twin = (m.get_parameter(f"encoder.embedding.{name}.weight") for m in (model, other))
        assert not torch.equal(weight, twin)
        bound = (6 / (3 * (weight.shape[0] + weight.shape[1]))) ** 0.5  # Xavier's, with a window of 3
        assert 0.8 * bound < weight.abs().max() <= bound
    clearhead.save(model, tmp_path / "m")
    again = clearhead.load(tmp_path / "m")
    assert again.config == model.config
    given = {"input_features": sound().float(), "decoder_input_ids": IDS}
    assert torch.equal(again(**given).logits, model(**given).logits)
    assert "sound" in clearhead.describe(model)
    assert "audio(bins 5)" in clearhead.describe(model)


class Addresses(Tap):
    def __init__(self, heard: list[str], at: str = "") -> None:
        self.heard, self.address = heard, at

    def at(self, name: str) -> Tap:
        return Addresses(self.heard, f"{self.address}{name}.")

    def __call__(self, site: str, value: Any) -> Any:
        self.heard.append(self.address + site)
        return value

    def opens(self) -> bool:
        return True


def test_sites_are_the_addresses_of_a_forward_pass_in_order() -> None:
    heard: list[str] = []
    build(listener())(input_features=sound(), decoder_input_ids=IDS, tap=Addresses(heard))
    assert tuple(heard) == clearhead.sites(listener())


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no sound": ({"decoder_input_ids": IDS}, "input_features is missing"),
    "ids": (
        {"input_ids": IDS, "decoder_input_ids": IDS},
        "input_ids is given, but this model hears sound, input_features",
    ),
    "mask": (
        {"input_features": sound(), "attention_mask": ONES, "decoder_input_ids": IDS},
        "attention_mask is given, but sound has no padding: silence is heard",
    ),
    "types": (
        {"input_features": sound(), "token_type_ids": IDS, "decoder_input_ids": IDS},
        "token_type_ids is given, but this model hears sound",
    ),
    "one sound": (
        {"input_features": sound()[0], "decoder_input_ids": IDS},
        r"input_features is torch.float64 \[5, 13\]; expected numbers \[batch, 5, frames\].*features\[None\]",
    ),
    "whole numbers": ({"input_features": sound().long(), "decoder_input_ids": IDS}, "input_features is torch.int64"),
    "nothing": ({"input_features": sound(frames=0), "decoder_input_ids": IDS}, r"\[2, 5, 0\]: there is no sound"),
    "bins": (
        {"input_features": sound()[:, :4], "decoder_input_ids": IDS},
        r"input_features has 4 bins, but encoder.audio.bins is 5; make features with 5 bins",
    ),
    "the other way round": (
        {"input_features": sound().transpose(1, 2), "decoder_input_ids": IDS},
        r"input_features has 13 bins, but encoder.audio.bins is 5; transpose it",
    ),
    "frames": (
        {"input_features": sound(frames=17), "decoder_input_ids": IDS},
        r"input_features has 17 frames, two for each position, but the position table has 8 rows; cut the sound",
    ),
    "rows": (
        {"input_features": sound(3), "decoder_input_ids": IDS},
        "decoder_input_ids has 2 rows, but input_features has 3; they go in pairs",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_compute(name: str) -> None:
    given, message = BAD[name]
    heard: list[str] = []
    with pytest.raises(ValueError, match=message):
        build(listener())(**given, tap=Addresses(heard))
    assert heard == []
    if "rows" not in message and "token_type" not in message:
        with pytest.raises(ValueError, match=message):
            clearhead.generate(build(listener()), **given)


def test_sound_is_refused_where_a_text_is_read() -> None:
    from model.tiny import post_norm_translator, rotary_decoder

    for config in (post_norm_translator(), rotary_decoder()):
        with pytest.raises(ValueError, match="input_features is given, but this model reads text, input_ids"):
            build(config)(input_features=sound())
    with pytest.raises(ValueError, match="positions is given, but this model hears sound"):
        build(encoder_only())(input_features=sound(), positions=torch.arange(7))
    with pytest.raises(ValueError, match="input_ids is given, but this model hears sound"):
        build(listener()).encode(IDS)


CONFIGS: dict[str, tuple[dict[str, Any], str]] = {
    "audio and vocab": ({"vocab": 9}, "encoder.vocab is 9, but encoder.audio is set"),
    "neither": ({"audio": None}, r"encoder.vocab is 0; it must be at least 1 \(0 is for a stack with audio\)"),
    "types": ({"token_types": 2}, "encoder.token_types is 2, but encoder.audio is set"),
    "bins": ({"audio": Audio(bins=0)}, "encoder.audio.bins is 0; it must be at least 1"),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_configs_that_mean_nothing(name: str) -> None:
    changes, message = CONFIGS[name]
    encoder = listener().encoder
    assert encoder is not None
    with pytest.raises(ValueError, match=message):
        listener(encoder=replace(encoder, **changes))


def test_a_head_needs_tokens() -> None:
    with pytest.raises(ValueError, match=r"head is set, but encoder\.audio is set and there is no decoder"):
        replace(encoder_only(), head=Head())


def test_the_number_of_bins_is_noticed() -> None:
    encoder = listener().encoder
    assert encoder is not None
    more = build(listener(encoder=replace(encoder, audio=Audio(bins=2 * BINS))))
    with pytest.raises(ValueError, match=r"has 5 bins, but encoder\.audio\.bins is 10"):
        more(input_features=sound(), decoder_input_ids=IDS)
