"""Configs: plain data and back, and every combination that means nothing refused by name and numbers."""

import json
from dataclasses import replace
from typing import Any

import pytest

from clearhead.config import (
    Attention,
    Bands,
    Dense,
    FeedForward,
    Head,
    Layer,
    Linear,
    LongRope,
    Norm,
    Positions,
    RelativeBias,
    Rotary,
    Stack,
    TransformerConfig,
    Yarn,
)

FF = FeedForward(dim=8)
OWN, AHEAD = Attention(heads=2), Attention(heads=2, causal=True)
PLAIN, BACK = Layer(self_attention=OWN, feed_forward=FF), Layer(self_attention=AHEAD, feed_forward=FF)
BOTH = replace(BACK, cross_attention=OWN)
ENCODER = Stack(layers=(PLAIN,), vocab=10)
ALONE, BESIDE = Stack(layers=(BACK,), vocab=10), Stack(layers=(BOTH,), vocab=10)


def rotated(scaling: Linear | Bands | Yarn | LongRope | None) -> Layer:
    return replace(BACK, self_attention=replace(AHEAD, rotary=Rotary(layout="pairs", scaling=scaling)))


WHOLE = TransformerConfig(
    dim=4,
    norm=Norm(kind="rms_plus_one", eps=1e-6),
    encoder=replace(
        ENCODER,
        layers=(PLAIN, PLAIN, replace(PLAIN, norm_place="sandwich"), PLAIN),
        positions=Positions(kind="learned", count=12, offset=2),
        token_types=2,
        norm_in=True,
        relative_bias=RelativeBias(buckets=8),
    ),
    decoder=replace(BESIDE, layers=(BOTH,) * 6, positions=Positions(kind="halves"), embedding_scale=2.0),
    head=Head(tied=False, bias=True, scale=0.5, softcap=30.0, dense=Dense(activation="gelu", bias=False)),
    pad=0,
    bos=1,
    eos=(2, 3),
    start=4,
    dropout=0.1,
    init_std=0.02,
)
GOOD = {
    "everything": WHOLE,
    "encoder": TransformerConfig(dim=4, encoder=ENCODER, head=None),
    "one eos": TransformerConfig(dim=4, decoder=ALONE, eos=2),
    "shared": TransformerConfig(dim=4, encoder=ENCODER, decoder=BESIDE, shared_embeddings=True),
    "rotary": TransformerConfig(dim=4, decoder=replace(ALONE, layers=(rotated(None),))),
    "linear": TransformerConfig(dim=4, decoder=replace(ALONE, layers=(rotated(Linear(factor=2.0)),))),
    "bands": TransformerConfig(
        dim=4, decoder=replace(ALONE, layers=(rotated(Bands(factor=8.0, low=1.0, high=4.0, length=64)),))
    ),
    "longrope": TransformerConfig(
        dim=4, decoder=replace(ALONE, layers=(rotated(LongRope(short=(1.0,), long=(2.0,), length=64)),))
    ),
    "yarn": TransformerConfig(dim=4, decoder=replace(ALONE, layers=(rotated(Yarn(factor=4.0, length=64)),))),
}


@pytest.mark.parametrize("name", GOOD)
def test_plain_data_and_back(name: str) -> None:
    config = GOOD[name]
    text = json.dumps(config.to_dict())
    again = TransformerConfig.from_dict(json.loads(text))
    assert again == config
    assert json.dumps(again.to_dict()) == text
    assert hash(again) == hash(config)


def test_equal_layers_are_folded() -> None:
    plain = WHOLE.to_dict()
    assert [run["times"] for run in plain["encoder"]["layers"]] == [2, 1, 1]
    assert [run["times"] for run in plain["decoder"]["layers"]] == [6]


def test_from_dict_leaves_its_argument_alone() -> None:
    plain = WHOLE.to_dict()
    before = json.dumps(plain)
    TransformerConfig.from_dict(plain)
    assert json.dumps(plain) == before


def test_scalings_are_told_apart_by_their_fields() -> None:
    plain = GOOD["yarn"].to_dict()
    plain["decoder"]["layers"][0]["layer"]["self_attention"]["rotary"]["scaling"] = {"factor": 4.0, "length": 64}
    assert TransformerConfig.from_dict(plain) == GOOD["yarn"]


def test_derived_values() -> None:
    assert WHOLE.eos_ids == (2, 3)
    assert GOOD["one eos"].eos_ids == (2,)
    assert GOOD["rotary"].eos_ids == ()
    assert list(WHOLE.stacks) == ["encoder", "decoder"]
    assert list(GOOD["rotary"].stacks) == ["decoder"]
    assert Attention(heads=6, kv_heads=2).groups == 2
    assert Attention(heads=6).groups == 6
    assert Attention(heads=6).width(24) == 4
    assert Attention(heads=6, head_dim=5).width(24) == 5


def self_attention(**changes: Any) -> dict[str, Any]:
    return {"decoder": replace(ALONE, layers=(replace(BACK, self_attention=replace(AHEAD, **changes)),))}


def turned(**changes: Any) -> dict[str, Any]:
    return self_attention(rotary=Rotary(**changes))


def decoder(**changes: Any) -> dict[str, Any]:
    return {"decoder": replace(ALONE, **changes)}


def layer(**changes: Any) -> dict[str, Any]:
    return decoder(layers=(BACK, replace(BACK, **changes)))


def cross(**changes: Any) -> dict[str, Any]:
    return {
        "encoder": ENCODER,
        "decoder": replace(BESIDE, layers=(replace(BOTH, cross_attention=replace(OWN, **changes)),)),
    }


AT = r"decoder\.layers\[0\]\.self_attention"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "dim": ({"dim": 0}, "dim is 0.* 1"),
    "no stack": ({"decoder": None}, "encoder and decoder are both None"),
    "shared alone": ({"shared_embeddings": True}, "shared_embeddings is True.*one stack"),
    "shared sizes": (
        {"encoder": ENCODER, "decoder": replace(BESIDE, vocab=11), "shared_embeddings": True},
        r"encoder\.vocab is 10 and decoder\.vocab is 11",
    ),
    "dropout": ({"dropout": 1.0}, r"dropout is 1\.0; it must be in \[0, 1\)"),
    "pad": ({"pad": 10}, r"pad is 10, but the vocabulary has 10 tokens \(0 to 9\)"),
    "bos": ({"bos": -1}, "bos is -1.* 10 tokens"),
    "start": ({"start": 99}, "start is 99.* 10 tokens"),
    "eos": ({"eos": 10}, "eos is 10.* 10 tokens"),
    "two eos": ({"eos": (2, 12)}, "eos is 12.* 10 tokens"),
    "init_std": ({"init_std": 0.0}, r"init_std is 0\.0.*above 0"),
    "eps": ({"norm": Norm(eps=-1e-5)}, r"norm\.eps is -1e-05.*at least 0"),
    "vocab": (decoder(vocab=0), r"decoder\.vocab is 0.* 1"),
    "no layers": (decoder(layers=()), r"decoder\.layers is empty"),
    "table": (decoder(positions=Positions(kind="learned")), r"decoder\.positions\.count is None.*rows"),
    "rows": (decoder(positions=Positions(kind="learned", count=0)), r"decoder\.positions\.count is 0.* 1"),
    "offset": (decoder(positions=Positions(kind="halves", offset=-1)), r"decoder\.positions\.offset is -1.* 0"),
    "token types": (decoder(token_types=-1), r"decoder\.token_types is -1.* 0"),
    "embedding scale": (decoder(embedding_scale=0.0), r"decoder\.embedding_scale is 0\.0.*above 0"),
    "one bias, two sizes": (
        decoder(layers=(BACK, replace(BACK, self_attention=replace(AHEAD, heads=4))), relative_bias=RelativeBias()),
        r"decoder\.relative_bias.*\[2, 4\] heads",
    ),
    "buckets": (decoder(relative_bias=RelativeBias(buckets=1)), r"relative_bias\.buckets is 1"),
    "buckets both ways": (decoder(relative_bias=RelativeBias(buckets=2)), r"relative_bias\.buckets is 2.* 4 buckets"),
    "distance": (decoder(relative_bias=RelativeBias(max_distance=8)), "max_distance 8.*above 8"),
    "parallel": (layer(parallel=True, norm_place="post"), r"decoder\.layers\[1\]\.parallel.*'pre', not 'post'"),
    "feed-forward": (layer(feed_forward=FeedForward(dim=0)), r"decoder\.layers\[1\]\.feed_forward\.dim is 0.* 1"),
    "future": (layer(self_attention=OWN), r"decoder\.layers\[1\]\.self_attention\.causal is False"),
    "cross without encoder": (layer(cross_attention=OWN), r"layers\[1\]\.cross_attention must be None without one"),
    "no cross beside encoder": ({"encoder": ENCODER}, r"decoder\.layers\[0\]\.cross_attention must be present"),
    "cross in an encoder": (
        {"encoder": replace(ENCODER, layers=(replace(PLAIN, cross_attention=OWN),)), "decoder": BESIDE},
        r"encoder\.layers\[0\]\.cross_attention must be None",
    ),
    "cross causal": (cross(causal=True), r"cross_attention: causal, window and rotary"),
    "cross window": (cross(window=3), r"cross_attention: causal, window and rotary"),
    "cross rotary": (cross(rotary=Rotary()), r"cross_attention: causal, window and rotary"),
    "cross heads": (cross(heads=3), r"cross_attention: dim 4 is not divisible by heads 3"),
    "heads": (self_attention(heads=0), rf"{AT}\.heads is 0.* 1"),
    "kv heads": (self_attention(kv_heads=0), rf"{AT}\.kv_heads is 0.* 1"),
    "uneven heads": (self_attention(heads=4, kv_heads=3), rf"{AT}: heads 4 is not a multiple of kv_heads 3"),
    "width": (self_attention(heads=3), rf"{AT}: dim 4 is not divisible by heads 3; .*head_dim"),
    "head width": (self_attention(head_dim=0), rf"{AT}\.head_dim is 0.* 1"),
    "window": (self_attention(window=0), rf"{AT}\.window is 0.* 1"),
    "softcap": (self_attention(softcap=-1.0), rf"{AT}\.softcap is -1\.0.*above 0"),
    "nan": (self_attention(softcap=float("nan")), rf"{AT}\.softcap is nan.*above 0"),
    "bias": (self_attention(bias="qx"), rf"{AT}\.bias is 'qx'.*q, k, v and o"),
    "odd rotary": (turned() | {"dim": 6}, rf"{AT}\.rotary turns pairs.*head_dim 3 \* fraction 1\.0 is 3"),
    "fraction": (turned(fraction=1.5), rf"{AT}\.rotary\.fraction is 1\.5.*at most 1"),
    "no fraction": (turned(fraction=0.0), rf"{AT}\.rotary\.fraction is 0\.0.*above 0"),
    "little fraction": (turned(fraction=0.1), rf"{AT}\.rotary turns pairs.* is 0"),
    "theta": (turned(theta=0.0), rf"{AT}\.rotary\.theta is 0\.0.*above 0"),
    "factor": (turned(scaling=Linear(factor=0.0)), rf"{AT}\.rotary\.scaling\.factor is 0\.0.*above 0"),
    "bands": (
        turned(scaling=Bands(factor=2.0, low=4.0, high=4.0, length=9)),
        rf"{AT}\.rotary\.scaling\.low is 4\.0.*high, 4\.0",
    ),
    "yarn": (
        turned(scaling=Yarn(factor=2.0, length=9, slow=40.0)),
        rf"{AT}\.rotary\.scaling\.slow is 40\.0.*fast, 32\.0",
    ),
    "longrope": (
        turned(scaling=LongRope(short=(1.0,), long=(1.0, 2.0), length=9)),
        rf"{AT}\.rotary\.scaling\.long has 2 numbers, but head_dim 2 \* fraction 1\.0 is 1 pairs",
    ),
    "no factor": (
        turned(scaling=LongRope(short=(0.0,), long=(1.0,), length=9)),
        rf"{AT}\.rotary\.scaling\.short holds 0\.0; each must be above 0",
    ),
    "narrow states": (
        {"head": Head(dense=Dense(width=3))},
        r"head\.tied needs states as wide as the table, 4 \(embedding_dim\), but they are 3",
    ),
    "length": (turned(scaling=Yarn(factor=2.0, length=0)), rf"{AT}\.rotary\.scaling\.length is 0.* 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_does_not_fit_is_refused_by_field_and_numbers(name: str) -> None:
    changes, message = BAD[name]
    parts: dict[str, Any] = {"dim": 4, "decoder": ALONE} | changes
    with pytest.raises(ValueError, match=message):
        TransformerConfig(**parts)


def plain(**changes: Any) -> dict[str, Any]:
    return GOOD["one eos"].to_dict() | changes


def stack(**changes: Any) -> dict[str, Any]:
    return plain(decoder=GOOD["one eos"].to_dict()["decoder"] | changes)


RUN = GOOD["one eos"].to_dict()["decoder"]["layers"][0]
UNREADABLE: dict[str, tuple[Any, str]] = {
    "near name": (plain(dropuot=0.1), r"config\.dropuot is not a field.*did you mean 'dropout'"),
    "far name": (plain(zzz=1), r"config\.zzz is not a field of TransformerConfig; known are dim, norm"),
    "inner name": (stack(vocabulary=3), r"config\.decoder\.vocabulary.*did you mean 'vocab'"),
    "missing": ({"decoder": plain()["decoder"]}, r"config\.dim is missing; TransformerConfig needs it"),
    "missing inside": (plain(decoder={"vocab": 10}), r"config\.decoder\.layers is missing"),
    "text for a number": (plain(dim="4"), r"config\.dim is '4'; expected int"),
    "number for a flag": (plain(shared_embeddings=1), r"config\.shared_embeddings is 1; expected bool"),
    "flag for a number": (plain(dim=True), r"config\.dim is True; expected int"),
    "fraction for a whole": (plain(dim=4.5), r"config\.dim is 4\.5; expected int"),
    "null": (plain(dim=None), r"config\.dim is None; expected int"),
    "word": (
        plain(norm={"kind": "batch"}),
        r"config\.norm\.kind is 'batch'; expected 'layer' or 'layer_gain' or 'rms' or 'rms_plus_one'",
    ),
    "list for an object": (plain(norm=[1]), r"config\.norm is \[1\]; expected Norm"),
    "layers": (stack(layers=3), r"config\.decoder\.layers is 3"),
    "unfolded layers": (stack(layers=[RUN["layer"]]), r"config\.decoder\.layers\[0\] is .*\"times\""),
    "times": (stack(layers=[RUN | {"times": "2"}]), r"config\.decoder\.layers\[0\].*\"times\""),
    "no layer": (stack(layers=[{"times": 2}]), r"config\.decoder\.layers\[0\].*\"layer\""),
    "no times": (stack(layers=[RUN | {"times": 0}]), r"decoder\.layers is empty"),
    "layer": (stack(layers=[{"times": 1, "layer": 7}]), r"config\.decoder\.layers\[0\] is 7; expected Layer"),
    "deep": (
        stack(layers=[{"times": 1, "layer": RUN["layer"] | {"feed_forward": {"dim": 8, "gate": True}}}]),
        r"config\.decoder\.layers\[0\]\.feed_forward\.gate.*did you mean 'gated'",
    ),
    "eos": (plain(eos=["2"]), r"config\.eos\[0\] is '2'; expected int"),
    "a value that does not fit": (plain(pad=11), "pad is 11.* 10 tokens"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_plain_data_is_read_strictly(name: str) -> None:
    given, message = UNREADABLE[name]
    with pytest.raises(ValueError, match=message):
        TransformerConfig.from_dict(given)


def test_whole_numbers_are_welcome_where_fractions_are_meant() -> None:
    config = TransformerConfig.from_dict(plain(dropout=0))
    assert config.dropout == 0.0
    assert isinstance(config.dropout, float)
