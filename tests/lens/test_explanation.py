"""Every shown number follows from those above it, and the last one is the model's, for every kind of model."""

import math
from typing import Any

import pytest
import torch

from clearhead.lens.explanation import Explanation, explain
from clearhead.lens.record import record
from clearhead.view.explained import to_html, to_markdown
from model.tiny import ALL, TRANSLATORS, build, text


def inputs(kind: str) -> Any:
    given = {"input_ids": text(1, 7, vocab=31)}
    return given | ({"decoder_input_ids": text(1, 6, seed=1)} if kind in TRANSLATORS else {})


def addresses(kind: str) -> list[str]:
    if kind in TRANSLATORS:
        return ["encoder.1.self.weights", "decoder.0.self.weights", "decoder.1.cross.weights"]
    stack = "decoder" if "decoder" in kind else "encoder"
    return [f"{stack}.0.self.weights", f"{stack}.1.self.weights"]


def recomputed(e: Explanation) -> float:
    """The weight, by hand, from what is shown."""
    digits, numbers = e.decimals, [step.numbers for step in e.steps]
    found = {name: number for step in numbers for name, number in step.items()}
    q, k = found["q"], found["k"]
    assert found["products"] == [round(a * b, digits) for a, b in zip(q, k, strict=True)]
    assert found["their sum"] is not None
    score = next(step for step in e.steps if step.title.startswith("Score"))
    dot = round(sum(found["products"]), digits)
    assert score.numbers["their sum"] == dot
    assert score.numbers["score"] == round(dot * float(score.formula.split("* ")[-1]), digits)
    last = numbers[-1]
    scores = last["scores of all keys that it may see"]
    assert found["score"] in scores
    top = max(scores)
    powers = [round(math.exp(s - top), digits) for s in scores]
    assert last["exp(score - largest)"] == powers
    assert last["their sum"] == round(sum(powers), digits)
    return round(powers[scores.index(found["score"])] / round(sum(powers), digits), digits)


@torch.no_grad()
@pytest.mark.parametrize("kind", ALL)
def test_the_shown_numbers_recompute_by_hand(kind: str) -> None:
    model = build(ALL[kind]())
    for address in addresses(kind):
        with record(model, address) as seen:
            model(**inputs(kind))
        for head, query, key in ((0, 4, 1), (1, 5, 5), (-1, 3, 0)):
            if address.endswith("cross.weights") or float(seen[address][0, head, query][key]) > 0:
                e = explain(model, inputs(kind), address, head=head, query=query, key=key)
                assert e.value == float(seen[address][0, head, query][key])
                assert abs(e.shown - e.value) <= 0.5 * 10**-e.decimals
                assert e.shown == pytest.approx(recomputed(e), abs=1e-12)


@torch.no_grad()
def test_what_enters_a_layer_is_the_sum_of_what_came_before() -> None:
    e = explain(
        build(ALL["rotary_decoder"]()), inputs("rotary_decoder"), "decoder.1.self.weights", head=0, query=4, key=2
    )
    for step in e.steps[:2]:
        rows = [value for name, value in step.numbers.items() if name != "x"]
        for total, *parts in zip(step.numbers["x"], *rows, strict=True):  # type: ignore[arg-type]
            assert total == pytest.approx(sum(parts), abs=len(parts) * 0.51 * 10**-e.decimals)


@torch.no_grad()
def test_a_hidden_key_has_weight_zero_and_says_why() -> None:
    e = explain(
        build(ALL["rotary_decoder"]()), inputs("rotary_decoder"), "decoder.0.self.weights", head=0, query=2, key=5
    )
    assert e.value == e.shown == 0.0
    assert "may not see this key" in e.steps[-1].title


@torch.no_grad()
def test_where_it_stands_in_the_code_is_true() -> None:
    from pathlib import Path

    import clearhead

    e = explain(
        build(ALL["rotary_decoder"]()), inputs("rotary_decoder"), "decoder.0.self.weights", head=0, query=4, key=2
    )
    for step in e.steps:
        place, function = step.code.split(" ")
        file, line = place.split(":")
        source = (Path(clearhead.__file__).parent / file).read_text().splitlines()
        assert f"def {function}" in "".join(source[int(line) - 1 : int(line) + 3]), step.code


@torch.no_grad()
def test_pages_hold_every_number_and_no_markup_of_tokens() -> None:
    e = explain(
        build(ALL["rotary_decoder"]()), inputs("rotary_decoder"), "decoder.1.self.weights", head=0, query=4, key=2
    )
    e = Explanation(**{**vars(e), "words": ("<script>alert(1)</script>", "|b|")})
    html, markdown = to_html(e), to_markdown(e)
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    for step in e.steps:
        assert step.latex in markdown
        for number in step.numbers.values():
            for one in number if isinstance(number, list) else [number]:
                assert f"{one:.{e.decimals}f}" in html
                assert f"{one:.{e.decimals}f}" in markdown
    assert str(e).count("\n") > 10


BAD = {
    "residual": ("decoder.0.residual", {}, ValueError, "a weight stands at such as decoder.0.self.weights"),
    "layer": ("decoder.9.self.weights", {}, ValueError, "see clearhead.sites"),
    "head": ("decoder.0.self.weights", {"head": 9}, IndexError, "head 9 of"),
    "query": ("decoder.0.self.weights", {"query": 7}, IndexError, "query 7 of 7"),
    "key": ("decoder.0.self.weights", {"key": 8}, IndexError, "key 8 of 7"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_are_refused(name: str) -> None:
    address, place, kind, problem = BAD[name]
    with pytest.raises(kind, match=problem):
        explain(
            build(ALL["rotary_decoder"]()),
            inputs("rotary_decoder"),
            address,
            **{"head": 0, "query": 1, "key": 1, **place},
        )
