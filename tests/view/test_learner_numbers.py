"""The learner's page computes what clearhead computes: its formulas against NumPy, its mistakes against the checker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from clearhead import reference
from clearhead.checker import bank
from clearhead.view.learner import lesson, output_weights
from clearhead.view.learner_mistakes import PAGES
from shared import path
from view.learner_page import in_formulas
from view.learner_truth import RANDOM, STAGES, checker_numbers, run_shown_code, way

Formulas = Callable[[str, Any], Any]


@pytest.fixture(scope="module")
def formulas(browser: Any) -> Iterator[Formulas]:
    """Evaluates an expression of the page's formulas with `given` in reach."""
    page = browser.new_page()
    yield partial(in_formulas, page)
    page.close()


def plain(numbers: dict[str, Any]) -> dict[str, Any]:
    return {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in numbers.items()}


def array(rows: Any) -> np.ndarray:
    return np.array(rows, dtype=np.float64)


@pytest.mark.parametrize("page", RANDOM)
def test_random_numbers_give_what_the_reference_gives(formulas: Formulas, page: str) -> None:
    found = formulas("given.map(g => attend(g))", [plain(g) for g in RANDOM[page]])
    for numbers, c in zip(RANDOM[page], found, strict=True):
        x, y, wq, wk, wv, wo = (numbers[k] for k in ("x", "y", "wq", "wk", "wv", "wo"))
        mask = reference.causal_mask(len(x), len(y)) if numbers["causal"] else None
        if page != "heads":
            want = reference.attention(x @ wq, y @ wk, y @ wv, mask)
            for name, value in zip(("scores", "masked", "weights", "out"), want, strict=True):
                np.testing.assert_allclose(array(c[name][0]), value, atol=1e-12)
        answer = reference.multi_head_attention(
            x, y, wq, wk, wv, np.eye(4) if wo is None else wo, numbers["heads"], mask
        )
        np.testing.assert_allclose(array(c["answer"]), answer, atol=1e-12)


@pytest.mark.parametrize("page", PAGES)
def test_a_mistake_gives_the_checkers_numbers(formulas: Formulas, page: str) -> None:
    """Every stage of every mistake, on random numbers; what does not run there does not run here either."""
    jobs = [(broken, numbers) for broken in PAGES[page] for numbers in RANDOM[page]]
    asked = [[broken.id, plain(numbers)] for broken, numbers in jobs]
    found = formulas("given.map(([id, g]) => attend(g, CHANGES[id]))", asked)
    compared = 0
    for (broken, numbers), c in zip(jobs, found, strict=True):
        try:
            want = checker_numbers(numbers, way(page, broken))
        except ValueError:
            assert "failed" in c, broken.id
            continue
        assert "failed" not in c, (broken.id, c.get("failed"))
        for stage in STAGES:
            got, right = array(c[stage]), getattr(want, stage)[0]
            np.testing.assert_allclose(got, right, atol=1e-9, err_msg=f"{broken.id} {stage}")
            compared += 1
    assert compared > len(STAGES) * len(PAGES[page]) * 2


@pytest.mark.parametrize("page", PAGES)
def test_the_line_shown_makes_the_mistake(page: str) -> None:
    """The very code that the page shows is run, with the wrong line in place: one of the catalogue's ways comes out."""
    for broken in PAGES[page]:
        assert way(page, broken)


@pytest.mark.parametrize("page", PAGES)
def test_the_code_shown_is_right_without_a_mistake(page: str) -> None:
    for numbers in RANDOM[page]:
        np.testing.assert_allclose(run_shown_code(page, {}, numbers), checker_numbers(numbers, {}).answer[0])


def test_every_mistake_is_the_catalogues() -> None:
    told = lesson()["mistakes"]
    for page, brokens in PAGES.items():
        for broken, said in zip(brokens, told[page], strict=True):
            known = bank.known()[broken.id]
            assert (said["id"], said["says"], said["fix"]) == (broken.id, known.says, known.fix)
            blocks = {f"{b['name']}.{name}" for b in lesson()["code"][page] for name, _ in b["lines"]}
            assert set(broken.lines) <= blocks, "a line must stand in for one that is shown"


def test_the_page_and_the_catalogue_know_the_same_mistakes(formulas: Formulas) -> None:
    known = formulas("Object.keys(CHANGES)", None)
    assert set(known) == {broken.id for brokens in PAGES.values() for broken in brokens}


def test_positions_are_the_references(formulas: Formulas) -> None:
    for count, dim in ((5, 8), (3, 4), (6, 4)):
        found = formulas("sinusoids(...given)", [count, dim])
        np.testing.assert_allclose(array(found), reference.sinusoidal_positions(count, dim), atol=1e-12)


def test_the_page_is_given_the_lessons_facts() -> None:
    facts = json.loads(path("lesson/worked_example.json").read_text(encoding="utf-8"))
    found = lesson()
    for name in ("X", "Wq", "Wk", "Wv"):
        assert found[name] == facts[name]
    draw = np.random.default_rng(0)
    weights = [draw.normal(0, 1, (4, 4)).round(1).tolist() for _ in range(4)]
    assert [found["Wq"], found["Wk"], found["Wv"], output_weights().tolist()] == weights
