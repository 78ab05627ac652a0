"""Recordings read by the names of TransformerLens, in its shapes."""

import pytest
import torch

from clearhead.lens.aliases import aliases
from clearhead.lens.edit import edit
from clearhead.lens.edits import ablate
from clearhead.lens.memory import cost
from clearhead.lens.record import record
from clearhead.lens.rows import Scores
from clearhead.tap import sites
from lens.products import inputs
from model.tiny import ALL, build


@torch.no_grad()
@pytest.mark.parametrize("kind", ALL)
def test_every_name_reads_what_is_recorded_in_its_shape(kind: str) -> None:
    model = build(ALL[kind]())
    with record(model, "*") as seen:
        model(**inputs(kind))
    names = aliases(model.config)
    assert set(names.values()) <= set(sites(model.config))
    assert not set(names) & set(sites(model.config))
    assert set(seen) == set(sites(model.config)), "a name is no second entry"
    for name, address in names.items():
        theirs, ours = seen[name], seen[address]
        ours = ours.dense() if isinstance(ours, Scores) else ours
        by_head = address.endswith((".q", ".k", ".v", ".heads"))
        assert torch.equal(theirs, ours.transpose(1, 2) if by_head else ours), name
        assert name in seen


def test_a_name_is_there_only_where_both_mean_the_same() -> None:
    names = {kind: aliases(make()) for kind, make in ALL.items()}
    turned, parallel, post = names["rotary_decoder"], names["parallel_decoder"], names["post_norm_translator"]
    assert turned["blocks.1.attn.hook_rot_q"] == "decoder.1.self.q"
    assert "blocks.1.attn.hook_q" not in turned, "theirs is not turned yet"
    assert names["learned_decoder"]["blocks.1.attn.hook_q"] == "decoder.1.self.q"
    assert "hook_embed" not in names["learned_decoder"], "theirs has no positions yet"
    assert turned["hook_embed"] == turned["blocks.0.hook_resid_pre"] == "decoder.embed"
    assert turned["blocks.1.hook_resid_pre"] == turned["blocks.0.hook_resid_post"] == "decoder.0.residual"
    assert "blocks.0.hook_resid_mid" in turned
    assert "blocks.0.hook_resid_mid" not in parallel
    assert "unembed.hook_out" in turned
    assert "unembed.hook_out" not in names["window_decoder"], "ours are capped"
    assert post["decoder_blocks.0.cross_attn.hook_pattern"] == "decoder.0.cross.weights"
    assert post["encoder_blocks.0.attn.hook_z"] == "encoder.0.self.heads"
    assert "decoder_blocks.0.hook_attn_out" not in post
    assert "encoder_ln_final.hook_out" not in post
    across = names["relative_translator"]
    assert across["decoder_blocks.0.hook_resid_mid2"] == "decoder.0.middle"
    assert across["decoder_blocks.0.hook_cross_attn_out"] == "decoder.0.cross.out"
    assert "decoder_blocks.0.hook_resid_mid" not in across, "no address of ours stands between the two attentions"


@torch.no_grad()
def test_what_is_wanted_may_be_named_so_too() -> None:
    model = build(ALL["rotary_decoder"]())
    wanted = ["blocks.*.hook_pattern", "blocks.0.hook_resid_pre", "decoder.1.residual"]
    with record(model, wanted) as seen:
        assert "blocks.1.attn.hook_pattern" not in seen, "nothing has run"
        model(**inputs("rotary_decoder", padded=False))
    recorded = {"decoder.embed", "decoder.0.self.weights", "decoder.1.self.weights", "decoder.1.residual"}
    assert set(seen) == recorded == set(cost(model.config, wanted, tokens=9))
    assert "blocks.0.hook_resid_post" not in seen
    with pytest.raises(KeyError, match=r"decoder\.0\.residual was not recorded; recorded are decoder\.embed"):
        seen["blocks.0.hook_resid_post"]
    with (
        pytest.raises(ValueError, match=r"no address matches 'blocks\.9\.hook_resid_pre'"),
        record(model, "blocks.9.hook_resid_pre"),
    ):
        pass


def test_names_are_to_read_only() -> None:
    model = build(ALL["rotary_decoder"]())
    with (
        pytest.raises(ValueError, match=r"no address matches 'blocks\.0\.attn\.hook_z'"),
        edit(model, {"blocks.0.attn.hook_z": ablate()}),
    ):
        pass
