"""Editing: every site of every kind of model, what each edit does, order, and no trace afterwards."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.generation.generate import generate
from clearhead.lens.edit import edit
from clearhead.lens.edits import ablate, freeze, knock_out, patch, scale, steer, without_sink
from clearhead.lens.record import record
from clearhead.lens.rows import Written
from clearhead.model.cache import Cache
from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT, sites
from lens.products import draw, inputs
from model.tiny import ALL, DECODERS, TRANSLATORS, build, text

KINDS = pytest.mark.parametrize("kind", ALL)


def hidden(model: Transformer, kind: str, **more: Any) -> Tensor:
    return model(**inputs(kind, **more)).hidden


@KINDS
@torch.no_grad()
def test_ins_06_a_change_of_nothing_is_bit_equal(kind: str) -> None:
    """At every site but scores and weights, which are written out for it; there within 1e-5."""
    model = build(ALL[kind]())
    before = hidden(model, kind)
    for site in sites(model.config):
        opens = site.endswith((".scores", ".weights"))
        for change in (lambda value: value, scale(1.0)):
            with edit(model, {site: change}):
                after = hidden(model, kind)
            assert (after - before).abs().max() < 1e-5 if opens else torch.equal(after, before), site
    assert model.tap is SILENT
    assert torch.equal(hidden(model, kind), before)


@KINDS
@torch.no_grad()
def test_zero_at_any_site_changes_the_result(kind: str) -> None:
    model = build(ALL[kind]())
    found = model(**inputs(kind))
    before = found.hidden if found.logits is None else found.logits
    for site in sites(model.config):
        with edit(model, {site: ablate(to="zero") if not site.endswith(".scores") else scale(0.0)}):
            found = model(**inputs(kind))
        after = found.hidden if found.logits is None else found.logits
        assert torch.isfinite(after).all() or site.endswith(".scores"), site  # 0 times -inf is the user's to avoid
        if not torch.isfinite(after).all():
            continue
        assert (after - before).abs().max() > 1e-6, site


@KINDS
@torch.no_grad()
def test_patching_a_whole_run_gives_the_other_run(kind: str) -> None:
    model = build(ALL[kind]())
    clean = inputs(kind, padded=False)
    other = {name: ids.flip(0).roll(1, 1) for name, ids in clean.items()}
    last = "decoder" if model.config.decoder else "encoder"
    depth = len(model.config.stacks[last].layers) - 1
    with record(model, [f"{last}.{depth}.residual"]) as seen:
        truth = model(**other).hidden
    with edit(model, {f"{last}.{depth}.residual": patch(seen[f"{last}.{depth}.residual"])}):
        assert torch.equal(model(**clean).hidden, truth)


@torch.no_grad()
def test_heads_and_positions_are_the_ones_that_were_asked_for() -> None:
    model = build(ALL["rotary_decoder"]())
    heads = model.config.decoder.layers[0].self_attention.heads  # type: ignore[union-attr]
    assert heads > 1
    with record(model, "decoder.0.self.heads") as seen, edit(model, {"decoder.0.self.heads": ablate([1], [2, 4])}):
        hidden(model, "rotary_decoder", padded=False)
    with record(model, "decoder.0.self.heads") as plain:
        hidden(model, "rotary_decoder", padded=False)
    value, before = seen["decoder.0.self.heads"], plain["decoder.0.self.heads"]
    assert torch.equal(value[:, 1, [2, 4]], torch.zeros_like(value[:, 1, [2, 4]]))
    others = torch.ones(value.shape[1], value.shape[2], dtype=torch.bool)
    others[1, [2, 4]] = False
    assert torch.equal(value[:, others], before[:, others])


@torch.no_grad()
def test_what_each_ablation_puts_there() -> None:
    model = build(ALL["rotary_decoder"]())
    address = "decoder.0.residual"
    with record(model, address) as plain:
        hidden(model, "rotary_decoder", padded=False)
    before = plain[address]
    given = draw(before.shape[-1]).to(before)
    expected: dict[str, tuple[Any, Tensor]] = {
        "mean": (ablate(to="mean"), before.mean((0, 1)).expand_as(before)),
        "resample": (ablate(to="resample"), before.flip(0)),
        "given": (ablate(to=given), given.expand_as(before)),
        "scale": (scale(-0.5), before * -0.5),
        "steer": (steer(given), before + given),
        "steer one": (steer(given, positions=[3]), before + torch.eye(9)[3][:, None] * given),
    }
    for name, (change, truth) in expected.items():
        with record(model, address) as seen, edit(model, {address: change}):
            hidden(model, "rotary_decoder", padded=False)
        assert torch.allclose(seen[address], truth, atol=1e-6), name
    torch.manual_seed(3)
    with record(model, address) as seen, edit(model, {address: ablate(to="noise")}):
        hidden(model, "rotary_decoder", padded=False)
    noise = seen[address] - before
    assert 0.7 < float(noise.std() / before.std()) < 1.3


@torch.no_grad()
@pytest.mark.parametrize("kind", [*DECODERS, *TRANSLATORS])
def test_cut_edges_carry_no_weight_and_the_others_share_it(kind: str) -> None:
    model = build(ALL[kind]())
    address = "decoder.0.self"
    with record(model, f"{address}.weights") as plain:
        hidden(model, kind, padded=False)
    changes = {f"{address}.scores": knock_out([(4, 2), (5, 0)])}
    with record(model, f"{address}.weights") as seen, edit(model, changes):
        hidden(model, kind, padded=False)
    view, before = seen[f"{address}.weights"], plain[f"{address}.weights"].dense()
    assert isinstance(view, Written)
    after = view.dense()
    assert torch.equal(after[:, :, [4, 5], [2, 0]], torch.zeros_like(after[:, :, [4, 5], [2, 0]]))
    kept = before[:, :, 4].clone()
    kept[..., 2] = 0
    assert torch.allclose(after[:, :, 4], kept / kept.sum(-1, keepdim=True), atol=1e-5)
    assert torch.allclose(after[:, :, 3], before[:, :, 3], atol=1e-5)
    assert torch.allclose(view.max(), after.amax(-1))
    with record(model, f"{address}.weights") as seen, edit(model, {f"{address}.scores": without_sink(heads=[1])}):
        hidden(model, kind, padded=False)
    sinkless = seen[f"{address}.weights"].dense()
    assert torch.equal(sinkless[:, 1, 1:, 0], torch.zeros_like(sinkless[:, 1, 1:, 0]))
    assert torch.allclose(sinkless[:, 1, 0, 0], torch.ones(2).to(sinkless))
    assert torch.allclose(sinkless[:, 0], before[:, 0], atol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("kind", [*DECODERS, *TRANSLATORS])
def test_edits_in_a_cached_run_are_those_of_one_run(kind: str) -> None:
    """Positions count in the text, so the same tokens are changed whatever the chunks."""
    model = build(ALL[kind]())
    given = inputs(kind, padded=False)
    key = "decoder_input_ids" if kind in TRANSLATORS else "input_ids"
    width, tokens = model.config.dim, given[key].shape[1]
    with record(model, "decoder.1.self.weights") as seen:
        model(**given)
    other = seen["decoder.1.self.weights"].dense().flip(1)
    for changes in (
        {"decoder.0.self.k": ablate(positions=[1, 4])},
        {"decoder.*.residual": steer(draw(width), positions=[0, 3])},
        {"decoder.1.self.scores": knock_out([(3, 1), (4, 4), (None, 2)])},
        {"decoder.1.self.weights": freeze(other)},
        {"decoder.0.self.scores": without_sink(), "logits": ablate(positions=[2])},
    ):
        with edit(model, changes):
            truth = model(**given).logits
            cache, parts = Cache(), []
            for chunk in given[key].split([2, 1, 1, tokens - 4], dim=1):
                parts.append(model(**{**given, key: chunk}, cache=cache).logits)
        assert torch.allclose(torch.cat(parts, 1), truth, atol=1e-5), changes


@torch.no_grad()
@pytest.mark.parametrize("kind", list(TRANSLATORS))
def test_without_weights_across_the_source_is_irrelevant(kind: str) -> None:
    model = build(ALL[kind]())
    given = inputs(kind, padded=False)
    other = {**given, "input_ids": given["input_ids"].flip(1)}
    changes = {"decoder.*.cross.weights": ablate()}
    assert not torch.allclose(model(**given).logits, model(**other).logits)
    with edit(model, changes):
        assert torch.equal(model(**given).logits, model(**other).logits)
        one, two = (generate(model, g["input_ids"], max_new_tokens=6, num_beams=2) for g in (given, other))
    assert torch.equal(one, two)
    assert not torch.equal(one, generate(model, given["input_ids"], max_new_tokens=6, num_beams=2))


@torch.no_grad()
def test_order_and_nesting_are_defined() -> None:
    """Blocks from the outermost in, within a block as written; recorders hear the result, wherever they stand."""
    model = build(ALL["rotary_decoder"]())
    address = "decoder.final"
    with record(model, address) as plain:
        hidden(model, "rotary_decoder")
    before = plain[address]
    first, then = {address: lambda x: x + 1, "*.final": scale(2.0)}, {address: lambda x: x - 5}
    with record(model, address) as outer, edit(model, first), edit(model, then), record(model, address) as inner:
        found = hidden(model, "rotary_decoder")
    assert torch.equal(found, (before + 1) * 2 - 5)
    assert torch.equal(outer[address], found)
    assert torch.equal(inner[address], found)


def test_ins_04_leaving_by_exception_leaves_no_trace() -> None:
    model = build(ALL["rotary_decoder"]())
    before = hidden(model, "rotary_decoder")

    def fail(value: Tensor) -> Tensor:
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"), edit(model, {"decoder.1.residual": fail}):
        hidden(model, "rotary_decoder")
    assert model.tap is SILENT
    assert torch.equal(hidden(model, "rotary_decoder"), before)


def test_ins_07_gradients_flow_through_an_edit() -> None:
    model = build(ALL["rotary_decoder"]())
    given = draw(2, 9, model.config.dim).requires_grad_()
    with edit(model, {"decoder.0.residual": patch(given, positions=[3])}):
        hidden(model, "rotary_decoder", padded=False).square().sum().backward()
    assert given.grad is not None
    assert given.grad[:, 3].abs().max() > 0
    assert torch.equal(given.grad[:, 4:], torch.zeros_like(given.grad[:, 4:]))
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in model.parameters())


def test_in_training_the_edited_model_is_what_learns() -> None:
    model = build(ALL["rotary_decoder"]()).train()
    with edit(model, {"decoder.0.self.heads": ablate()}):
        hidden(model, "rotary_decoder").square().sum().backward()
    layer = model.decoder.layers[0].self_attention  # type: ignore[union-attr]
    assert layer.q.weight.grad is None or not layer.q.weight.grad.any()  # type: ignore[union-attr]
    assert layer.o.weight.grad is None or not layer.o.weight.grad.any()  # type: ignore[union-attr]


@torch.no_grad()
def test_ins_03_only_the_edited_layer_is_written_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.formulas import attention

    opened: list[int] = []
    original = attention._open
    monkeypatch.setattr(attention, "_open", lambda *a: opened.append(1) or original(*a))
    model = build(ALL["rotary_decoder"]())
    with edit(model, {"decoder.1.self.weights": lambda w: w}):
        hidden(model, "rotary_decoder")
    assert len(opened) == 1
    with edit(model, {"decoder.*.q": lambda q: q}), record(model, "*"):
        hidden(model, "rotary_decoder")
    assert len(opened) == 1


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "site": ({"decoder.9.self.q": ablate()}, r"no address matches 'decoder\.9\.self\.q'; near are decoder\."),
    "head": ({"decoder.0.self.heads": ablate(heads=[77])}, r"heads=\[77\]: decoder\.0\.self\.heads has \d heads"),
    "headless": ({"decoder.0.residual": ablate(heads=[0])}, r"heads=\[0\]: decoder\.0\.residual has no heads"),
    "negative": ({"decoder.0.residual": ablate(positions=[-1])}, r"positions=\[-1\]: tokens are counted from 0"),
    "edges": ({"decoder.0.self.weights": knock_out([(1, 0)])}, "edges are cut in scores"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_edits_are_refused_when_the_block_is_entered(name: str) -> None:
    model = build(ALL["rotary_decoder"]())
    changes, problem = BAD[name]
    with pytest.raises(ValueError, match=problem), edit(model, changes):
        raise AssertionError("entered")
    assert model.tap is SILENT


LATE: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"decoder.0.residual": lambda x: x[:, :1]}, r"made shape \[2, 1, \d+\] out of \[2, 9, \d+\]"),
    "type": ({"decoder.0.residual": lambda x: x.half()}, r"made dtype torch\.float16 out of torch\.float64"),
    "nothing": ({"decoder.0.residual": lambda x: None}, "returned NoneType; it must return a tensor"),
    "too late": (
        {"decoder.0.residual": ablate(positions=[40])},
        r"never came by decoder\.0\.residual, or by the tokens",
    ),
    "no edge": ({"decoder.0.self.scores": knock_out([(9, 0)])}, r"never came by decoder\.0\.self\.scores, or by the"),
    "vector": ({"decoder.0.residual": steer(torch.ones(2))}, r"the vector is \[2\]"),
    "values": ({"decoder.0.residual": patch(torch.ones(2, 4, 3))}, r"the values are \[2, 4, 3\]"),
}


@pytest.mark.parametrize("name", LATE)
def test_an_edit_that_cannot_work_is_refused_in_the_call(name: str) -> None:
    model = build(ALL["rotary_decoder"]())
    changes, problem = LATE[name]
    with pytest.raises(ValueError, match=problem), edit(model, changes):
        hidden(model, "rotary_decoder", padded=False)
    assert model.tap is SILENT


def test_resampling_needs_another_sample() -> None:
    model = build(ALL["rotary_decoder"]())
    with pytest.raises(ValueError, match="the batch has 1"), edit(model, {"decoder.0.residual": ablate(to="resample")}):
        model(text(1, 5, vocab=31))


@torch.no_grad()
def test_an_edit_that_was_never_reached_is_an_error() -> None:
    model = build(ALL["post_norm_translator"]())
    given = inputs("post_norm_translator", padded=False)
    states = model.encode(given["input_ids"])
    with (
        pytest.raises(
            ValueError, match=r"never came by encoder\.0\.residual, or by the tokens named: the edit had no effect"
        ),
        edit(model, {"encoder.0.residual": ablate()}),
    ):
        model(encoder_hidden=states, decoder_input_ids=given["decoder_input_ids"])
    with edit(model, {"encoder.0.residual": ablate()}):
        pass  # nothing ran, so nothing was lost
