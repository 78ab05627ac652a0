"""Values of one run in another: each patch is that of a single run, all patches together are the other run."""

from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.config import Head
from clearhead.lens import patch, patch_sweep, restored
from clearhead.lens.edit import edit
from clearhead.lens.record import record
from clearhead.lens.rows import Scores
from clearhead.model.transformer import Output, Transformer
from clearhead.tap import SILENT
from lens.kinds import KINDS, example, spread
from model.test_model_audio import listener, sound
from model.tiny import build, learned_decoder, sinusoidal_decoder, text

SITES = ["self.out", "self.heads", "self.weights", "cross.k", "feed_forward.hidden", "residual", "embed"]


def pair(name: str) -> tuple[Transformer, dict[str, Any], dict[str, Any]]:
    model, clean = example(name)
    corrupted = {**clean, "input_ids": text(2, 7, 31, seed=9)}
    if "decoder_input_ids" in clean:
        corrupted["decoder_input_ids"] = text(2, 9, seed=8)
    return model, clean, corrupted


@pytest.mark.parametrize("name", KINDS)
def test_every_patch_is_that_of_a_single_run(name: str) -> None:
    model, clean, corrupted = pair(name)
    both = len(model.config.stacks) == 2
    wanted = [site for site in SITES if both or not site.startswith("cross")]
    table = patch_sweep(model, clean, corrupted, spread, sites=wanted, positions=[3, (2, 4)], batch=5)
    with torch.no_grad(), record(model, "*") as seen:
        model(**clean)
    compared = 0
    for i, site in enumerate(table.axes["site"]):
        for j, layer in enumerate(table.axes["layer"]):
            if table.values[i, j].isnan().all():
                continue
            compared += 1
            for group, value in zip(([3], [2, 4]), table.values[i, j].tolist(), strict=True):
                change = patch(seen[f"{layer}.{site}"], positions=group)
                with torch.no_grad(), edit(model, {f"{layer}.{site}": change}):
                    assert value == pytest.approx(float(spread(model(**corrupted))), abs=1e-10)
    layers = sum(len(stack.layers) for stack in model.config.stacks.values())
    assert compared == 5 * layers + len(model.config.stacks) + (2 if both else 0)
    assert model.tap is SILENT


@pytest.mark.parametrize("name", KINDS)
def test_patching_everything_gives_the_other_run(name: str) -> None:
    model, clean, corrupted = pair(name)
    if "decoder_input_ids" in clean:
        corrupted["decoder_input_ids"] = clean["decoder_input_ids"]  # the source alone is another
    table = patch_sweep(model, clean, corrupted, spread, sites=["embed", "residual"], positions=[range(7)])
    first = next(iter(model.config.stacks))
    layers = list(table.axes["layer"])
    assert table.more["clean"] != pytest.approx(table.more["corrupted"], abs=1e-4)
    two_texts = len(model.config.stacks) == 2 and not isinstance(model.config.head, Head)  # both stacks read it
    if two_texts:
        return
    assert float(table.values[0, layers.index(first), 0]) == pytest.approx(table.more["clean"], abs=1e-10)
    for layer in range(2):
        assert float(table.values[1, layers.index(f"{first}.{layer}"), 0]) == pytest.approx(
            table.more["clean"], abs=1e-10
        )


def test_patching_all_that_the_decoder_has_is_the_other_run_too() -> None:
    for name in ("post_norm_translator", "classifying_translator"):
        model, clean, corrupted = pair(name)
        count = 9 if "decoder_input_ids" in clean else 7
        table = patch_sweep(model, clean, corrupted, spread, sites="decoder.*.residual", positions=[range(count)])
        assert list(table.axes["layer"]) == ["decoder.0", "decoder.1"]
        assert float(table.values[0, 1, 0]) == pytest.approx(table.more["clean"], abs=1e-10)
        assert abs(float(table.values[0, 0, 0]) - table.more["clean"]) > 1e-4  # layer 1 looks at the other source


def test_a_place_that_the_metric_cannot_see_changes_nothing() -> None:
    model = build(learned_decoder())
    table = patch_sweep(model, text(1, 8), text(1, 8, seed=5), lambda out: out.logits[0, 3, 6])
    assert table.values.shape == (1, 2, 8)
    assert torch.allclose(table.values[0, :, 4:], torch.tensor(table.more["corrupted"], dtype=torch.float64))
    assert torch.allclose(table.values[0, 1, 3], torch.tensor(table.more["clean"], dtype=torch.float64))


def test_what_is_the_same_in_both_runs_is_not_run() -> None:
    model, clean = build(learned_decoder()), text(1, 8)
    corrupted = clean.clone()
    corrupted[0, 5] = 3
    with record(model, "decoder.final") as seen:
        table = patch_sweep(model, clean, corrupted, spread)
    assert [len(call["decoder.final"]) for call in seen.calls] == [1, 1, 1, 3, 3]
    assert (table.values[0, :, :5] == table.more["corrupted"]).all()
    assert (table.values[0, :, 5:] != table.more["corrupted"]).all()


def test_the_longest_stack_gives_the_positions_and_the_others_end_in_nan() -> None:
    model, clean, corrupted = pair("relative_translator")
    table = patch_sweep(model, clean, corrupted, spread, sites=["residual", "cross.k"])
    assert list(table.axes["layer"]) == ["encoder.0", "encoder.1", "decoder.0", "decoder.1"]
    missing = table.values.isnan().sum(-1).tolist()
    assert missing == [[2, 2, 0, 0], [9, 9, 2, 2]]  # source 7, target 9; the keys across are the source's


def test_attribution_patching_is_exact_where_the_way_to_the_metric_is_straight() -> None:
    model = build(sinusoidal_decoder())  # without a final norm
    clean, corrupted = text(2, 8), text(2, 8, seed=5)

    def logits(out: Output) -> Tensor:
        assert out.logits is not None
        return out.logits[0, 3, 6] + out.logits[1, 5, 2] - out.logits[0, 7, 1]

    sites = ["decoder.1.residual", "decoder.1.feed_forward.out"]
    exact = patch_sweep(model, clean, corrupted, logits, sites=sites)
    estimate = patch_sweep(model, clean, corrupted, logits, sites=sites, method="gradient")
    assert torch.allclose(exact.values, estimate.values, atol=1e-10)
    assert (exact.values - exact.more["corrupted"]).abs().max() > 0.1


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("site", ["self.weights", "self.q", "feed_forward.out"])
def test_attribution_patching_is_the_slope_on_the_way_to_the_clean_run(name: str, site: str) -> None:
    model, clean, corrupted = pair(name)
    stack = next(iter(model.config.stacks))
    address, step = f"{stack}.0.{site}", 1e-6
    table = patch_sweep(model, clean, corrupted, spread, sites=address, method="gradient", positions=[range(7)])
    with torch.no_grad(), record(model, address) as seen:
        model(**clean)
    there = seen[address].dense() if isinstance(seen[address], Scores) else seen[address]
    ends: list[float] = []
    for sign in (1, -1):
        with torch.no_grad(), edit(model, {address: lambda v, s=sign: v + s * step * (there - v)}):
            ends.append(float(spread(model(**corrupted))))
    slope = (ends[0] - ends[1]) / (2 * step)
    assert float(table.values) - table.more["corrupted"] == pytest.approx(slope, abs=1e-6)
    assert abs(slope) > 1e-4


def test_restored_is_the_share_of_the_difference() -> None:
    model = build(learned_decoder())
    table = patch_sweep(model, text(1, 6), text(1, 6, seed=5), lambda out: out.logits[0, 5, 6], positions=[5, range(6)])
    share = restored(table)
    assert float(share.values[0, 1, 1]) == pytest.approx(1)
    assert float(share.values[0, 1, 0]) == pytest.approx(1)
    assert share.axes == table.axes
    with pytest.raises(ValueError, match="in both runs, so there is no difference to restore"):
        restored(patch_sweep(model, text(1, 6), text(1, 6), lambda out: out.logits[0, 5, 6]))


def test_bad_input_is_a_plain_error() -> None:
    model, ids = build(learned_decoder()), text(1, 6)

    def metric(out: Output) -> Tensor:
        assert out.logits is not None
        return out.logits[0, -1, 3]

    with pytest.raises(ValueError, match=r"input_ids is \[1, 6\] in the clean input and \[1, 7\] in the corrupted one"):
        patch_sweep(model, ids, text(1, 7), metric)
    with pytest.raises(ValueError, match=r"no address matches '\*\.residul'; near are"):
        patch_sweep(model, ids, ids, metric, sites="residul")
    with pytest.raises(ValueError, match=r"positions holds \[6\], but there are 6 tokens, 0 to 5"):
        patch_sweep(model, ids, ids, metric, positions=[6])
    with pytest.raises(ValueError, match=r"no address matches '\*\.logits'"):
        patch_sweep(model, ids, ids, metric, sites="logits")
    with pytest.raises(ValueError, match="logits has no place in a stack"):
        patch_sweep(model, ids, ids, metric, sites="*logits")
    with pytest.raises(ValueError, match="holds a cache"):
        patch_sweep(model, {"input_ids": ids, "cache": object()}, {"input_ids": ids, "cache": object()}, metric)


def test_a_model_that_hears() -> None:
    model = build(listener())
    clean, corrupted = ({"input_features": sound(seed=seed), "decoder_input_ids": text(2, 6)} for seed in (0, 1))
    table = patch_sweep(model, clean, corrupted, spread, positions=[range(7), 3])
    assert table.values[0, 0, 0].item() == pytest.approx(table.more["clean"], abs=1e-10)
    assert table.values[0, 0, 1].item() != pytest.approx(table.more["corrupted"], abs=1e-6)
