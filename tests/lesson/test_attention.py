"""The worked example and the table of positions: digits, keys, precision, and no torch."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

import shared
from clearhead.lesson import page, run
from clearhead.lesson.example import example

KEYS = ["X", "Wq", "Wk", "Wv", "Q", "K", "V", "scores", "scaled_scores", "weights", "row_sums", "output"]
WEIGHTS = [[0.509, 0.196, 0.295], [0.092, 0.422, 0.486], [0.233, 0.104, 0.663]]
OUTPUT = [[-1.107, 1.058, 1.509, 1.857], [-0.744, 0.210, 1.595, 2.511], [-0.988, 0.690, 1.251, 1.903]]


def numbers(line: str) -> list[str]:
    """The cells of a printed row, without its name."""
    return [cell for cell in line.split() if re.fullmatch(r"-?\d+\.\d{3}", cell)]


def printed(topic: str, name: str) -> list[list[str]]:
    """The digits under the heading of a step, row by row."""
    lines = run(topic, width=120).splitlines()
    start = next(i for i, line in enumerate(lines) if i and not lines[i - 1] and line.split(" ")[0] == name)
    rows = lines[start + 2 : lines.index("", start)]
    return [numbers(row) for row in rows if numbers(row)]


def test_drawn_weights_are_those_of_the_lesson() -> None:
    given = example()
    assert given.Wq.tolist()[0] == [0.1, -0.1, 0.6, 0.1]
    assert given.Wk.tolist()[0] == [-0.5, -0.3, 0.4, 1.0]
    assert given.Wv.tolist()[3] == [0.3, -0.3, 1.5, 2.0]


def test_weights_and_output_to_three_decimals() -> None:
    document = json.loads(run("attention", as_json=True))
    assert np.round(document["weights"], 3).tolist() == WEIGHTS
    assert np.round(document["output"], 3).tolist() == OUTPUT
    assert document["tokens"] == ["the", "cat", "sat"]
    assert [f"{w:.3f}" for w in WEIGHTS[0]] == printed("attention", "weights")[0]
    assert [[f"{o:.3f}" for o in row] for row in OUTPUT] == printed("attention", "output")[:3]


def test_json_has_every_key_in_order_and_more_than_three_decimals() -> None:
    document = json.loads(run("attention", as_json=True))
    assert [key for key in document if key in KEYS] == KEYS
    assert document["weights"][0][0] == pytest.approx(0.5089954957474585, abs=1e-15)
    assert document["causal_weights_full_precision"][1][0] == pytest.approx(0.1794615194073268, abs=1e-15)
    table = json.loads(run("positions", as_json=True))["positional_encoding_5x8"]
    assert table[1][0] == pytest.approx(np.sin(1), abs=1e-15)


def test_every_number_of_the_shared_example() -> None:
    expected = json.loads(shared.path("lesson/worked_example.json").read_text())
    found = json.loads(run("positions", as_json=True)) | json.loads(run("attention", as_json=True))
    for key, value in expected.items():
        if isinstance(value, list) and key.endswith("full_precision"):
            np.testing.assert_allclose(found[key], value, rtol=0, atol=1e-15, err_msg=key)
        elif isinstance(value, list):
            assert (np.round(found[key], 3) + 0.0).tolist() == value, key
        else:
            assert found[key] == value, key


def test_printed_digits_are_those_of_the_shared_example() -> None:
    expected = json.loads(shared.path("lesson/worked_example.json").read_text())
    for key in (*KEYS, "positional_encoding_5x8"):
        rows = np.atleast_2d(expected[key]).tolist()
        digits = [[f"{x:.3f}" for x in row] for row in rows]
        topic = "positions" if key.startswith("pos") else "attention"
        assert printed(topic, key)[: len(rows)] == digits, key


def test_masked_example_equals_the_shared_one() -> None:
    expected = json.loads(shared.path("lesson/worked_example.json").read_text())
    found = json.loads(run("mask", as_json=True))
    for key in ("causal_weights_full_precision", "causal_output_full_precision"):
        np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=1e-15)


def test_properties_of_the_example() -> None:
    shown = page("attention")
    np.testing.assert_array_equal(shown["Q"], shown["X"] @ shown["Wq"])
    np.testing.assert_array_equal(shown["scaled_scores"], shown["scores"] / 2)
    np.testing.assert_allclose(shown["row_sums"], 1, rtol=0, atol=1e-15)
    assert (shown["weights"] >= 0).all()
    assert len(np.unique(shown["weights"].round(6), axis=0)) == 3  # rows differ
    np.testing.assert_allclose(shown["output"], shown["weights"] @ shown["V"], rtol=0, atol=1e-15)


def test_notes_name_where_each_token_looks() -> None:
    notes = {step.name: step.note for step in page("attention").steps}
    assert "'the' looks mostly at itself (0.509), then at 'sat' (0.295)." in notes["weights"]
    assert "'cat' looks mostly at 'sat' (0.486)" in notes["weights"]
    assert notes["output"] == "output[the] = 0.509 V[the] + 0.196 V[cat] + 0.295 V[sat]"


@pytest.mark.parametrize("topic", ["attention", "positions", "scaling"])
def test_no_torch(topic: str) -> None:
    code = (
        "import sys, clearhead.lesson as lesson\n"
        f"text = lesson.run({topic!r}) + lesson.run({topic!r}, as_json=True)\n"
        "assert len(text) > 1000\n"
        "print('torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
