"""Heat maps as text."""

import re

import pytest
from rich.cells import cell_len

from clearhead.view.terminal import heat_map, plain, shade, to_text

WEIGHTS = [[0.9, 0.1, 0.0], [0.25, 0.5, 0.25]]
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_numbers_are_percent_under_their_columns() -> None:
    lines = to_text(heat_map(WEIGHTS, ["drei", "vier"], ["three", "and", "four"]), colour=False).split("\n")
    assert lines[0].split() == ["three", "and", "four"]
    assert lines[1].split() == ["drei", "90", "10", "0"]
    assert lines[2].split() == ["vier", "25", "50", "25"]
    ends = [m.end() for m in re.finditer(r"\S+", lines[0])]
    assert [m.end() for m in re.finditer(r"\S+", lines[2])][1:] == ends


@pytest.mark.parametrize(("said", "codes"), [("truecolor", "48;2;"), ("24bit", "48;2;"), ("", "48;5;")])
def test_colour_codes_only_when_asked_and_as_many_as_the_terminal_has(
    monkeypatch: pytest.MonkeyPatch, said: str, codes: str
) -> None:
    monkeypatch.setenv("COLORTERM", said)
    weights = (
        WEIGHTS if said else [[0.91, 0.11, 0.02], [0.26, 0.52, 0.26]]
    )  # rich keeps the codes of a style it has met
    picture = heat_map(weights, ["a", "b"], ["x", "y", "z"])
    assert "\x1b" not in to_text(picture, colour=False)
    coloured = to_text(picture, colour=True)
    backgrounds = set(re.findall(r"48;[0-9;]+", coloured))
    assert all(code.startswith(codes) for code in backgrounds)
    assert len(backgrounds) == 5  # one for each different weight
    assert ESCAPE.sub("", coloured) == to_text(picture, colour=False)


@pytest.mark.parametrize("width", [24, 40, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    count = 12
    weights = [[1 / count] * count] * 3
    picture = heat_map(weights, ["siebenundvierzig"] * 3, [f"token{i}" for i in range(count)], width)
    assert all(cell_len(line) <= width for line in picture.plain.split("\n"))


def test_narrow_cells_use_marks_that_tell_weights_apart() -> None:
    weights = [[0.0, 0.5, 1.0] + [0.0] * 27]
    line = heat_map(weights, ["q"], ["k"] * 30, width=40).plain.split("\n")[1]
    assert line.split(" ")[0] == "q"
    assert "@" in line
    assert "+" in line


def test_vis_01_tokens_cannot_steer_the_terminal() -> None:
    hostile = ["\x1b[31mred", "a\nb", "\u202eevil", "tab\t", "\x9b1A"]
    picture = heat_map([[0.2] * 5], ["\x1b]0;title\x07"], hostile, width=200)
    shown = to_text(picture, colour=False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", shown)
    assert "red" in shown
    assert plain("a\nb") == "a␊b"
    assert plain("\u202e") == "\\u202e"


def test_wide_scripts_keep_the_columns() -> None:
    rows = heat_map([[0.1, 0.9], [0.9, 0.1]], ["地図", "é"], ["日本", "abc"]).plain.split("\n")
    assert len({cell_len(line) for line in rows}) == 1


def test_markup_in_tokens_is_text() -> None:
    assert "[bold]x[/bold]" in to_text(heat_map([[1.0]], ["[bold]x[/bold]"], ["k"]), colour=True)


def test_labels_must_match() -> None:
    with pytest.raises(ValueError, match="2 rows of weights, but 1 row and 3 column labels"):
        heat_map(WEIGHTS, ["a"], ["x", "y", "z"])


def test_shades_run_from_dark_to_light_with_readable_text() -> None:
    dark, light = shade(0.0), shade(1.0)
    assert dark.color is not None
    assert dark.color.name == "#ffffff"
    assert light.color is not None
    assert light.color.name == "#000000"
    assert shade(-1.0) == dark
    assert shade(2.0) == light
