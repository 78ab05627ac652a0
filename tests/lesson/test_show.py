"""Text and JSON of every page: width, colour, digits, keys, unknown topics."""

import json
import re
from collections import Counter

import numpy as np
import pytest

from clearhead.lesson import TOPICS, Page, Step, page, run, to_json, to_text
from clearhead.lesson.show import figure

NAMES = ["attention", "torch", "heads", "order", "positions", "mask", "scaling", "encoder-decoder"]


def shown(value: object, **fields: object) -> str:
    """The text of a page with one step."""
    step = Step(name="a", words="Words.", value=value, **fields)  # pyright: ignore[reportArgumentType]
    return to_text(Page(topic="t", title="Title", steps=(step,)), width=40)


def test_topics_in_order() -> None:
    assert list(TOPICS) == NAMES


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("topic", NAMES)
def test_no_line_is_wider_than_asked(topic: str, width: int) -> None:
    text = run(topic, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text  # no name had to be cut
    assert not [line for line in text.splitlines() if line != line.rstrip()]


@pytest.mark.parametrize("topic", NAMES)
def test_a_narrow_page_shows_the_same_numbers(topic: str) -> None:
    narrow, wide = (
        Counter(word for word in run(topic, width=width).split() if re.fullmatch(r"-?\d+\.\d{3}|█|·|yes|no", word))
        for width in (40, 200)
    )
    assert narrow == wide


@pytest.mark.parametrize("topic", NAMES)
def test_words_are_one_line_and_every_step_is_shown(topic: str) -> None:
    text = run(topic, width=80)
    for step in page(topic).steps:
        assert len(step.words) <= 80, step.words
        assert step.words in text
        assert [line for line in text.splitlines() if line.split(" ")[0] == step.name], step.name


@pytest.mark.parametrize("topic", NAMES)
def test_matrices_are_printed_to_three_decimals(topic: str) -> None:
    text = run(topic, width=200)
    for step in page(topic).steps:
        if isinstance(step.value, np.ndarray) and step.value.dtype != bool and step.value.ndim > 1:
            for row in step.value.reshape(-1, step.value.shape[-1]):
                digits = [f"{x:z.3f}" for x in row.tolist()]
                assert any(line.split()[-len(digits) :] == digits for line in text.splitlines()), (step.name, digits)


@pytest.mark.parametrize("topic", NAMES)
def test_colour_only_where_wanted(topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    plain = run(topic, width=80)
    assert "\x1b" not in plain
    assert "\x1b[" in run(topic, width=80, colour=True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert run(topic, width=80, colour=True) == plain


@pytest.mark.parametrize("topic", NAMES)
def test_json_holds_every_step_at_full_precision(topic: str) -> None:
    document = json.loads(run(topic, as_json=True))
    made = page(topic)
    assert document["topic"] == topic
    assert [about["name"] for about in document["steps"]] == [step.name for step in made.steps]
    for step in made.steps:
        value = step.value.tolist() if isinstance(step.value, np.ndarray) else step.value
        assert document[step.name] == value


def test_without_a_topic_attention_and_the_names_of_the_others() -> None:
    assert run() == run("attention")
    assert run().splitlines()[-1] == f"Other topics: {', '.join(NAMES[1:])}"
    assert "Other topics: attention, torch, heads" in run("scaling")


def test_unknown_topic_names_the_nearest_and_all() -> None:
    with pytest.raises(ValueError, match=r"topic 'atention' is unknown; did you mean 'attention'\? choose one of att"):
        run("atention")
    with pytest.raises(ValueError, match="did you mean 'encoder-decoder'"):
        run("Encoder")
    with pytest.raises(ValueError, match=f"topic '123' is unknown; choose one of {', '.join(NAMES)}"):
        run("123", as_json=True)


def test_a_zero_has_no_minus() -> None:
    assert "-0.000" not in shown(np.array([[-0.0, -1e-9, -0.0006]]))
    assert shown(np.array([[-0.0, -1e-9, -0.0006]])).splitlines()[-1].split() == ["0.000", "0.000", "-0.001"]


def test_wide_matrices_go_on_below_under_column_numbers() -> None:
    lines = shown(np.arange(16.0).reshape(2, 8), labels=(("the", "cat"),)).splitlines()
    assert lines[4] == "         0      1       2       3"
    assert lines[5] == "the  0.000  1.000   2.000   3.000"  # a fifth column would need 41
    assert lines[7].split() == ["4", "5", "6", "7"]
    assert lines[8].split() == ["the", "4.000", "5.000", "6.000", "7.000"]


def test_labels_stand_over_and_beside_their_numbers() -> None:
    lines = shown(np.array([[True, False], [True, True]]), labels=(("the", "cat"), ("the", "cat"))).splitlines()
    assert lines[-3:] == ["     the  cat", "the    █    ·", "cat    █    █"]


def test_long_names_are_cut_before_a_line_overflows() -> None:
    line = shown({"n" * 60: ["m" * 60], "x": [1.0]}).splitlines()[-1]
    assert len(line) == 40
    assert line.endswith("…  1.000")


def test_figures() -> None:
    values = [0.0, 2.4e-07, 0.5, -0.25, 3e7, 7, True, False, "word"]
    assert [figure(v) for v in values] == ["0", "2.4e-07", "0.500", "-0.250", "3.0e+07", "7", "yes", "no", "word"]


def test_json_refuses_what_json_has_no_number_for() -> None:
    step = Step(name="a", words="", value=np.array([-np.inf]))
    with pytest.raises(ValueError, match="JSON"):
        to_json(Page(topic="t", title="", steps=(step,)))
