"""Figures as files and on the command line: literal tokens, the same bytes each time, nothing of the user's style."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from clearhead.cli import main
from clearhead.demo.run import Plan, run
from clearhead.demo.task import Task

matplotlib = pytest.importorskip("matplotlib", reason="figures need the extra `view`")

from matplotlib import image  # noqa: E402
from matplotlib.text import Text  # noqa: E402

from clearhead.view.drawing import VECTOR  # noqa: E402
from clearhead.view.figures import plot, save  # noqa: E402
from view.drawn import table, weights, words  # noqa: E402

HOSTILE = [
    *(
        "$x$",
        "_",
        "$\\frac{1}",
        "^2",
        "a\nb",
        "\x1b[31m",
        "<script>alert(1)</script>",
        "--><script>x</script>",
        "&amp;",
    ),
    *("שלום", "مرحبا", "日本語", "\u202eevil", " the", "", "\U0001f600", "e\u0301", "]]>", "&amp;", "x" * 100),
]


def test_the_pixels_have_the_colours_of_the_weights(tmp_path: Path) -> None:
    view = weights(4, 4)
    figure = plot(view, head=1, scale="linear")
    save(figure, tmp_path / "a.png")
    pixels = image.imread(tmp_path / "a.png")[::-1]
    values = view.dense()[0, 1].numpy()
    expected = matplotlib.colormaps["cividis"](values / values.max())
    for row, column in np.ndindex(4, 4):
        x, y = figure.axes[0].transData.transform((column + 0.3, row + 0.3)) * 200 / figure.dpi
        assert np.allclose(pixels[int(y), int(x), :3], expected[row, column, :3], atol=0.02), (row, column)


def test_vis_01_tokens_stand_there_as_they_are(tmp_path: Path) -> None:
    count = len(HOSTILE)
    figure = plot(weights(count, count), head=0, queries=HOSTILE, keys=HOSTILE, title="$\\frac{x}")
    shown = words(figure)
    assert not any(
        text.get_parse_math() or text.get_usetex() for text in figure.findobj(Text) if "$" in text.get_text()
    )
    for token in ("$x$", "_", "$\\frac{1}", "^2", "\\u202eevil", "·the", "∅", "&amp;", "$\\frac{x}"):
        assert token in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", "".join(shown))
    for kind in ("svg", "png", "pdf"):
        save(figure, tmp_path / f"a.{kind}")
    tree = ElementTree.parse(tmp_path / "a.svg")
    tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
    assert tags <= {
        *("svg", "metadata", "RDF", "Work", "type", "format", "creator", "Agent", "title", "defs", "style"),
        *("g", "path", "use", "clipPath", "rect", "image", "pattern"),
    }


def test_the_users_settings_change_nothing(tmp_path: Path) -> None:
    view = weights(3, 3)
    figures = [plot(view, head=0, queries=["$x$", "b", "c"])]
    with matplotlib.rc_context({"font.size": 20, "image.cmap": "jet", "text.parse_math": True, "svg.fonttype": "none"}):
        before = dict(matplotlib.rcParams)
        figures.append(plot(view, head=0, queries=["$x$", "b", "c"]))
        save(figures[1], tmp_path / "1.svg")
        assert dict(matplotlib.rcParams) == before
    save(figures[0], tmp_path / "0.svg")
    assert (tmp_path / "0.svg").read_bytes() == (tmp_path / "1.svg").read_bytes()


def test_few_cells_are_shapes_and_many_one_picture(tmp_path: Path) -> None:
    pictures: list[int] = []
    for side in (10, int(VECTOR**0.5) + 1):
        save(plot(weights(side, side, heads=1), head=0), tmp_path / "a.svg")
        pictures.append((tmp_path / "a.svg").read_text(encoding="utf-8").count("data:image/png"))
    assert pictures[1] == pictures[0] + 1


def test_files_are_what_they_say_and_the_same_each_time(tmp_path: Path) -> None:
    view = weights(5, 5, causal=True)
    for turn in ("a", "b"):
        for kind in ("svg", "png", "pdf"):
            save(plot(view, head=0, queries=["שלום", "b", "c", "d", "e"]), tmp_path / f"{turn}.{kind}")
    for kind in ("svg", "png", "pdf"):
        assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()
    png, pdf = ((tmp_path / f"a.{kind}").read_bytes() for kind in ("png", "pdf"))
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    inches = plot(view, head=0, queries=["שלום", "b", "c", "d", "e"]).get_size_inches()
    assert [int.from_bytes(png[i : i + 4]) for i in (16, 20)] == [int(200 * inch) for inch in inches]
    assert pdf.startswith(b"%PDF-")
    assert b"/FontFile2" in pdf  # TrueType, embedded
    assert b"/Type3" not in pdf
    assert b"CreationDate" not in pdf
    assert "<dc:date>" not in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert "<text" not in (tmp_path / "a.svg").read_text(encoding="utf-8")  # outlines: no font is needed


def test_a_notebook_gets_a_picture_without_pyplot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # an import would fail
    figure = plot(weights(3, 3), head=0)
    assert figure._repr_png_().startswith(b"\x89PNG")
    save(figure, tmp_path / "a.pdf")


def test_files_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    figure = plot(table(2))
    with pytest.raises(ValueError, match="cannot be written as 'gif'; use svg, png, pdf"):
        save(figure, tmp_path / "a.gif")
    with pytest.raises(ValueError, match="is no folder; make it first"):
        save(figure, tmp_path / "none" / "a.svg")


def test_the_command_writes_what_it_looks_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run(Plan(task=Task(), steps=2), tmp_path / "m", progress=False)
    names = {kind: tmp_path / f"head.{kind}" for kind in ("svg", "png", "pdf")}
    options = [word for kind, path in names.items() for word in (f"--{kind}", str(path))]
    monkeypatch.setattr(sys, "argv", ["clearhead", "look", str(tmp_path / "m"), "three", "--heads", "0.2", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    assert all(path.stat().st_size > 1000 for path in names.values())
    assert f"{names['svg']} shows it" in capsys.readouterr().out
    options = ["--png", str(tmp_path / "none" / "a.png")]
    monkeypatch.setattr(sys, "argv", ["clearhead", "look", "nowhere", "three", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "none is no folder; make it first" in capsys.readouterr().err  # before the model is looked for


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "clearhead.view.drawing")
    monkeypatch.delattr("clearhead.view.drawing")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ValueError, match=r"pip install clearhead\[view\]"):
        plot(table(2))
