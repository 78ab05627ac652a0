"""Figures for papers: the right numbers in the right cells, tokens as they are, files that are what they say."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.view.look import Look, Part

matplotlib = pytest.importorskip("matplotlib", reason="figures need the extra `view`")


from clearhead.view import panels  # noqa: E402
from clearhead.view.canvas import readable  # noqa: E402
from clearhead.view.drawing import FLOOR  # noqa: E402
from clearhead.view.figures import plot  # noqa: E402
from view.drawn import cells, table, weights, words  # noqa: E402


def test_a_head_shows_its_weights() -> None:
    view = weights(6, 8)
    figure = clearhead.plot(view, head=2, queries=list("abcdef"), keys=list("stuvwxyz"))
    assert np.allclose(cells(figure), view.dense()[0, 2].numpy())
    assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == list("abcdef")
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == list("stuvwxyz")
    assert figure.axes[0].yaxis_inverted()  # the first query on top
    assert figure.axes[0].get_ylabel() == "query: is looking"
    assert figure.axes[1].get_ylabel() == "weight (square-root scale)"


def test_hidden_is_not_zero() -> None:
    drawn = cells(plot(weights(7, 7, causal=True), head=0))
    assert np.array_equal(np.ma.getmaskarray(drawn), ~np.tril(np.ones((7, 7), bool)))


@pytest.mark.parametrize("scale", ["linear", "sqrt", "log"])
def test_scales_end_at_the_largest_weight(scale: str) -> None:
    view = weights(5, 5, causal=True)
    mesh = plot(view, head=0, scale=scale).axes[0].collections[0]
    most = view.dense()[0, 0].max().item()
    middle = {"linear": most / 2, "sqrt": most / 4, "log": (most * FLOOR) ** 0.5}[scale]
    assert float(mesh.norm(most)) == pytest.approx(1.0)
    assert float(mesh.norm(middle)) == pytest.approx(0.5)


def test_all_heads_of_a_layer_and_of_all_layers() -> None:
    layers = [weights(6, 6, causal=True) for _ in range(2)]
    assert len(plot(layers[0]).axes[0].images) == 3
    figure = plot(Part("decoder", list("abcdef"), list("abcdef"), layers))
    drawn = [picture.get_array() for picture in figure.axes[0].images]
    assert len(drawn) == 6
    assert np.allclose(drawn[4].filled(0), layers[1].dense()[0, 1].numpy())
    left, right, bottom, top = figure.axes[0].images[4].get_extent()
    assert (round((left + right) / 2), round((bottom + top) / 2)) == (1, 1)  # head 1, layer 1
    assert all(
        picture.get_zorder() > patch.get_zorder()
        for picture in figure.axes[0].images
        for patch in figure.axes[0].patches
    )


def test_one_row_shows_its_largest_weights_and_the_rest() -> None:
    view = weights(3, 30)
    names = [f"t{i}" for i in range(30)]
    figure = plot(view, head=1, query=2, keys=names, top=4)
    row = view[0, 1, 2]
    shown = [bar.get_width() for bar in figure.axes[0].patches]
    assert shown[:4] == pytest.approx(row.topk(4).values.tolist())
    assert sum(shown) == pytest.approx(1.0)
    labels = [t.get_text().strip("\u200e") for t in figure.axes[0].get_yticklabels()]
    assert labels == [*(f"t{i} {i}" for i in row.topk(4).indices.tolist()), "26 other keys"]


def test_labels_are_readable() -> None:
    assert readable("  a ") == "··a·"
    assert readable(" ") == "·"
    assert len(readable("x" * 100)) == 24
    assert readable("\ue000") == "\\ue000"
    assert readable("\x00") in ("␀", "\\u0000")


def test_a_long_text_is_pooled_to_the_means_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(panels, "ROOM", 64)  # several steps
    view = weights(22, 22, causal=True)
    panel = panels.of_head(view, 1, 0, side=8)
    dense = view.dense()[0, 1].double().numpy()
    seen = np.tril(np.ones((22, 22), bool))
    assert panel.values.shape == (8, 8)
    for i, j in np.ndindex(8, 8):
        block = slice(3 * i, 3 * i + 3), slice(3 * j, 3 * j + 3)
        assert panel.values[i, j] == pytest.approx(dense[block].mean())
        assert panel.hidden[i, j] == (not seen[block].any())
    assert panel.note == "each cell is the mean of 3 x 3"


def test_no_picture_is_larger_than_its_side() -> None:
    figure = plot(weights(1500, 700, heads=1), head=0)
    assert cells(figure).shape == (750, 700)
    assert "each cell is the mean of 2 x 1" in figure.axes[0].get_title()
    assert figure.axes[0].collections[0].get_rasterized()
    assert figure.axes[0].get_ylim() == (1499.5, -0.5)  # the axis counts tokens, not blocks


def test_tables_of_one_two_and_three_axes() -> None:
    one, two, three = table(4), table(3, 5), table(2, 6, 7)
    figure = plot(one)
    assert [bar.get_width() for bar in figure.axes[0].patches] == pytest.approx(one.values.tolist())
    figure = plot(two)
    assert np.allclose(cells(figure), two.values.numpy())
    assert f"{two.values[1, 2]:.3f}"[:4] in "".join(words(figure))
    assert "a table" in words(figure)
    figure = plot(three)
    assert [figure.axes[i].get_title() for i in range(2)] == ["axis0 x0", "axis0 x1"]
    assert np.allclose(cells(figure, 1), three.values[1].numpy())


def test_numbers_on_both_sides_of_zero_have_zero_in_the_middle() -> None:
    mesh = plot(table(4, 4, signed=True)).axes[0].collections[0]
    assert mesh.norm.vmin == -mesh.norm.vmax
    assert mesh.cmap.name == "PuOr_r"


def test_what_is_not_there_is_hidden_and_a_broken_weight_is_not() -> None:
    found = table(3, 3)
    found.values[1, 1] = torch.nan
    assert np.ma.getmaskarray(cells(plot(found))).sum() == 1
    view = weights(3, 3)
    view.q[0, 0, 1] = torch.nan
    figure = plot(view, head=0)
    assert not np.ma.getmaskarray(cells(figure)).any()
    (mesh,) = figure.axes[0].collections
    assert np.allclose(mesh.to_rgba(cells(figure))[1], matplotlib.colors.to_rgba("#d000d0"))
    assert "magenta: not a number" in figure.axes[0].get_title()


def test_a_look_with_and_without_heads() -> None:
    layers = [weights(4, 4, causal=True) for _ in range(2)]
    part = Part("decoder", list("abcd"), list("abcd"), layers)
    figure = plot(Look((part,), ((1, 2),), "entropy", 8))
    assert figure.axes[0].get_title() == "decoder 1.2"
    assert np.allclose(cells(figure).filled(0), layers[1].dense()[0, 2].numpy())
    figure = plot(Look((part,), (), "max", 8))
    assert np.allclose(cells(figure), torch.stack([view.max()[0].mean(-1) for view in layers]).numpy())
    one = plot(part, layer=1, head=0)
    assert one.axes[0].get_title() == "decoder, layer 1, head 0"
    assert [t.get_text() for t in one.axes[0].get_xticklabels()] == list("abcd")


def test_positions_are_the_models_own() -> None:
    from clearhead import config

    layer = config.Layer(self_attention=config.Attention(heads=2), feed_forward=config.FeedForward(dim=8))
    for kind, count in (("interleaved", None), ("halves", None), ("learned", 20)):
        form = config.Positions(kind=kind, count=count)
        stack = config.Stack(layers=(layer,), vocab=9, positions=form)
        model = clearhead.Transformer(config.TransformerConfig(dim=6, encoder=stack))
        assert model.encoder is not None
        table = model.encoder.positions
        assert table is not None
        drawn = cells(plot(table, count=32))
        assert drawn.shape == (count or 32, 6)
        assert np.allclose(drawn, table(torch.arange(len(drawn)), torch.float32).detach().numpy())


def test_training_curves(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    said = [{"step": 1, "loss": 3.0, "lr": 0.1}, {"step": 2, "loss": 2.0, "valid_loss": 2.5}, {"step": 3, "loss": None}]
    log.write_text("\n".join(json.dumps(one) for one in said) + "\n", encoding="utf-8")
    curves = {line.get_label(): line.get_xydata().tolist() for line in plot(log).axes[0].lines}
    assert curves == {"loss": [[1, 3], [2, 2]], "valid_loss": [[2, 2.5]]}
    log.write_text('{"step": 1, "loss": 3}\n[1]\n', encoding="utf-8")
    with pytest.raises(ValueError, match="line 2 is no JSON object with step and loss"):
        plot(log)
    log.write_text('{"step": 1}\n', encoding="utf-8")
    with pytest.raises(ValueError, match="has no loss"):
        plot(log)
    with pytest.raises(ValueError, match="is no file"):
        plot(tmp_path / "none.jsonl")


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "kind": (3, {}, "int has no figure; give weights"),
    "scale": (weights(2, 2), {"head": 0, "scale": "cubic"}, "scale='cubic'; there are linear, sqrt, log"),
    "labels": (weights(2, 3), {"head": 0, "keys": ["a"]}, "keys has 1 labels, but there are 3 keys"),
    "query": (weights(2, 3), {"query": 1}, "query=1 is one row of one head; give head too"),
    "signed": (table(3, 3, signed=True), {"scale": "sqrt"}, "no place for numbers below 0"),
    "axes": (table(1, 1, 1).__class__("t", {n: ["x"] for n in "abcd"}, torch.ones(1, 1, 1, 1)), {}, "has 4 axes"),
    "panels": (table(30, 30, 30), {}, "30 places, a figure at most 24 panels"),
    "bars": (table(300), {}, "300 places, a figure at most 200 bars"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_drawn_is_refused(name: str) -> None:
    thing, options, problem = BAD[name]
    with pytest.raises(ValueError, match=problem):
        plot(thing, **options)
