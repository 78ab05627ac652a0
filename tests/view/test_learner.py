"""The learner's screen as a learner meets it: read, predict, point, walk, type, break, link."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

from clearhead.lesson.example import example
from clearhead.lesson.positions import page as positions
from clearhead.view.learner import output_weights
from clearhead.view.learner_mistakes import PAGES
from shared import path
from view.learner_page import Opener, as_numbers, file, learner
from view.learner_truth import checker_numbers, way

__all__ = ["file", "learner"]

LAST = {"attention": 7, "heads": 5, "order": 4, "cross": 6}


def at(page: str, more: str = "", step: int | None = None) -> str:
    return f"v=1&p={page}&s={LAST[page] if step is None else step}{more}"


def close(shown: list[list[float]], want: Any) -> bool:
    """Equal as printed: to half a unit of the third decimal."""
    return np.allclose(np.array(shown), np.array(want), atol=0.00051)


def test_vis_03_opened_from_disk_it_asks_for_nothing(learner: Opener) -> None:
    screen = learner()
    assert screen.page.title() == "Attention, worked out"
    assert len(screen.requests) == 1  # the file itself; the fixture looks at the addresses
    assert screen.text(".say").startswith("The embedding: each token as 4 numbers.")


def test_the_printed_digits_of_the_lesson_at_each_step(learner: Opener) -> None:
    facts = json.loads(path("lesson/worked_example.json").read_text(encoding="utf-8"))
    names = {"X": "X", "Q": "Q", "K": "K", "V": "V", "scores": "scores", "scaled_scores": "scaled"}
    names |= {"weights": "weights", "output": "output"}
    screen = learner()
    for step in range(1, 8):
        for fact, name in names.items():
            opens = {"X": 1, "Q": 2, "K": 2, "V": 2, "scores": 3, "scaled": 4, "weights": 6, "output": 7}[name]
            if step >= opens:
                assert screen.numbers(name) == facts[fact], name
            else:
                assert {text for row in screen.matrix(name) for text in row} == {"?"}
        screen.page.keyboard.press("ArrowRight")
    assert screen.page.locator("td.sum").all_inner_texts() == ["Σ 1.000 ✓"] * 3


def test_the_causal_weights_of_the_lesson(learner: Opener) -> None:
    facts = json.loads(path("lesson/worked_example.json").read_text(encoding="utf-8"))
    screen = learner(at("attention"))
    screen.page.get_by_label("causal mask").check()
    assert close(screen.numbers("weights"), facts["causal_weights_full_precision"])
    assert close(screen.numbers("output"), facts["causal_output_full_precision"])
    assert screen.matrix("masked")[0][1:] == ["−∞", "−∞"]
    assert screen.cell("weights", 0, 1).get_attribute("class") == "masked"
    assert screen.matrix("weights")[0] == ["1.000", "0", "0"]


def test_a_question_mark_opens_its_step(learner: Opener) -> None:
    screen = learner()
    screen.cell("output", 2, 1).focus()
    assert screen.text(".line p").endswith("What do you expect? Click, or press Enter, for step 7.")
    screen.cell("scores", 2, 1).click()
    assert screen.text("[aria-current=step]") == "3 Scores"
    assert screen.text(".arithmetic") == "−0.4·(−0.6) + 0.3·1.6 + 1.9·(−1.7) + 1.0·0.2 = −2.31"


ARITHMETIC = {
    "Q.2.0": ("Query of “sat”, number 1", "1·0.1 + 1·(−0.5) + 0·(−0.7) + 0·(−2.3) = −0.4"),
    "scaled.1.2": ("√4 = 2", "2.15 ÷ 2 = 1.075"),
    "masked.0.2": ("No mask", "−0.520 → −0.520"),
    "weights.2.1": ("How far “sat” looks at “cat”", "= 0.315 ÷ 3.037 = 0.104"),
    "output.0.0": ("The new “the”, number 1", "0.509·(−1.5) + 0.196·(−0.4) + 0.295·(−0.9) = −1.107"),
}


def test_a_number_shows_its_arithmetic_when_it_is_pointed_at(learner: Opener) -> None:
    screen = learner(at("attention"))
    for cell, (says, arithmetic) in ARITHMETIC.items():
        screen.page.locator(f'[data-cell="{cell}"]').hover()
        screen.page.wait_for_selector(f'td.chosen[data-cell="{cell}"]')
        assert says in screen.text(".line p")
        assert screen.text(".arithmetic").endswith(arithmetic)


def test_inputs_are_outlined_and_the_arithmetic_leads_back(learner: Opener) -> None:
    screen = learner(at("attention"))
    screen.cell("scores", 2, 1).click()
    marked = screen.page.locator("td.from").evaluate_all("all => all.map(td => [td.dataset.cell, td.className])")
    want = [[f"Q.2.{e}", "from from-q"] for e in range(4)] + [[f"K.1.{e}", "from from-k"] for e in range(4)]
    assert marked == want
    first = screen.page.locator(".ref").first
    first.hover()
    assert screen.page.locator("td.pointed").get_attribute("data-cell") == "Q.2.0"
    first.click()
    assert screen.page.locator("td.chosen").get_attribute("data-cell") == "Q.2.0"
    assert screen.text(".arithmetic").startswith("1·0.1 + 1·(−0.5)")


def test_a_changed_number_changes_what_follows(learner: Opener) -> None:
    screen = learner(at("attention"))
    screen.cell("X", 0, 1).click()
    screen.page.keyboard.type("-0.5")
    screen.page.keyboard.press("Enter")
    given = example()
    X = given.X.copy()
    X[0, 1] = -0.5
    want = given._replace(X=X, Q=X @ given.Wq, K=X @ given.Wk, V=X @ given.Wv).attend()
    assert close(screen.numbers("weights"), want.weights)
    assert close(screen.numbers("output"), want.output)
    screen.cell("Wv", 3, 3).click()
    screen.page.keyboard.press("ArrowUp")  # + 0.1
    screen.page.keyboard.press("Enter")
    Wv = given.Wv.copy()
    Wv[3, 3] += 0.1
    assert close(screen.numbers("output"), want.weights @ (X @ Wv))
    screen.page.get_by_role("button", name="Start over").click()
    assert close(screen.numbers("output"), given.attend().output)


REFUSED = {
    "abc": "“abc” is not a number; write one such as −0.5. The cell keeps 1.",
    "": "An empty cell is not a number; write one such as −0.5. The cell keeps 1.",
    "1e5": "1e5 is too large; stay between −1000 and 1000. The cell keeps 1.",
    "NaN": "“NaN” is not a number; write one such as −0.5. The cell keeps 1.",
    "1,2,3": "“1,2,3” is not a number; write one such as −0.5. The cell keeps 1.",
}


def test_what_is_no_number_is_refused_in_one_sentence(learner: Opener) -> None:
    screen = learner(at("attention"))
    before = screen.numbers("output")
    for typed, sentence in REFUSED.items():
        screen.cell("X", 0, 0).click()
        screen.page.locator("td input").fill(typed)
        assert screen.page.locator("td input").get_attribute("aria-invalid") == "true"
        screen.page.keyboard.press("Enter")
        assert screen.text("[role=alert]") == sentence
        assert screen.numbers("output") == before
        assert screen.cell("X", 0, 0).inner_text() == "1"


def test_tokens_are_renamed_added_and_removed(learner: Opener) -> None:
    screen = learner(at("attention"))
    screen.page.get_by_label("Token 2").fill("dog")
    screen.page.keyboard.press("Enter")
    assert screen.page.locator("thead th").nth(1).inner_text() == "dog"
    screen.page.get_by_role("button", name="Add a token").click()
    assert len(screen.matrix("weights")) == 4
    for _ in range(2):
        screen.page.get_by_role("button", name="Add a token").click()
    screen.page.get_by_role("button", name="Add a token").click()
    assert screen.text("[role=alert]") == "6 tokens are the most that this page can show."
    for _ in range(5):
        screen.page.get_by_role("button", name=re.compile("Remove")).first.click()
    assert screen.matrix("weights") == [["1"]]
    assert screen.page.get_by_role("button", name=re.compile("Remove")).first.is_disabled()
    screen.page.get_by_label("Token 1").fill(" ")
    screen.page.keyboard.press("Enter")
    assert screen.text("[role=alert]").startswith("A token needs at least one letter")


@pytest.mark.parametrize("page", PAGES)
def test_every_mistake_shows_the_checkers_numbers(learner: Opener, page: str) -> None:
    """On the lesson's own numbers, as printed; changed cells are marked, and something is said of each."""
    screen, given = learner(at(page)), example()
    y = np.array([[0.0, 0, 1, 1], [1, 0, 0, 1]]) if page == "cross" else given.X
    numbers = {"x": y, "y": given.X, "wq": given.Wq, "wk": given.Wk, "wv": given.Wv, "causal": False, "wo": None}
    numbers |= {"heads": 2, "wo": output_weights()} if page == "heads" else {"heads": 1}
    shown = screen.breaks([broken.id for broken in PAGES[page]], "answer" if page == "heads" else "output")
    for broken, told in zip(PAGES[page], shown, strict=True):
        assert told["says"].startswith(broken.id)
        assert told["lines"] > 0
        mine = numbers | {"causal": broken.step == "masked"}
        if told["verdict"].startswith("It does not run"):
            with pytest.raises(ValueError, match="mismatch"):
                checker_numbers(mine, way(page, broken))
            continue
        right, want = (checker_numbers(mine, change).answer[0] for change in ({}, way(page, broken)))
        assert close(as_numbers(told["rows"]), want), broken.id
        if want.shape == right.shape:
            assert told["marked"] == (~np.isclose(want, right, equal_nan=True)).sum(), broken.id


VERDICTS = {
    "scale-missing": ([], "Every property holds: only a comparison"),
    "softmax-dim-query": (["a row of weights sums to 0.676, not 1"], "weights.sum(-1) == 1 fails"),
    "mask-after-softmax": (["a row of weights sums to 0.509, not 1"], "weights.sum(-1) == 1 fails"),
    "mask-zero-before-softmax": (["a hidden key gets a weight of 0.331"], "weights[~mask] == 0 fails"),
    "softmax-log": (
        ["a row of weights sums to −3.526, not 1", "a weight is negative: −0.675"],
        "weights.sum(-1) == 1 and weights >= 0 fail",
    ),
    "scale-int-sqrt": ([], "Nothing changes with these numbers"),
    "keys-not-transposed": ([], "It does not run: 3 × 4 times 3 × 4 does not fit: 4 is not 3."),
}


def test_it_says_what_breaks_and_what_would_notice(learner: Opener) -> None:
    screen = learner(at("attention"))
    for mistake, (breaks, verdict) in VERDICTS.items():
        screen.page.get_by_label("causal mask").set_checked(False)
        screen.page.get_by_label("Choose a mistake").select_option(mistake)
        assert verdict in screen.text(".card strong")
        assert [text[2:] for text in screen.page.locator(".checks .breaks").all_inner_texts()] == breaks


def test_a_shape_that_happens_to_fit_is_silently_wrong(learner: Opener) -> None:
    screen = learner(at("attention", "&m=keys-not-transposed"))
    assert screen.matrix("scores")[0] == ["–"] * 3
    screen.page.get_by_role("button", name="Add a token").click()
    assert "It does not run" not in screen.text(".card strong")
    assert screen.page.locator('[data-cell^="scores."].wrong').count() > 0


def test_two_heads(learner: Opener) -> None:
    screen, given = learner(at("heads")), example()
    numbers = {"x": given.X, "y": given.X, "wq": given.Wq, "wk": given.Wk, "wv": given.Wv, "wo": output_weights()}
    want = checker_numbers(numbers | {"heads": 2, "causal": False}, {})
    for head in range(2):
        assert close(screen.numbers(f"weights{head}"), want.weights[0, head])
        assert close(screen.numbers(f"output{head}"), want.out[0, head])
    assert close(screen.numbers("joined"), want.merged[0])
    assert close(screen.numbers("answer"), want.answer[0])
    screen.cell("scaled1", 0, 2).click()
    assert screen.text(".arithmetic") == "(0.0·(−0.3) + 0.1·1.4) ÷ 1.414 = 0.099"


def test_order_does_not_matter_until_positions_are_added(learner: Opener) -> None:
    screen = learner(at("order"))
    assert close(screen.numbers("back"), example().attend().output)
    assert screen.page.locator("td.sum").all_inner_texts()[-3:] == ["same ✓"] * 3
    screen.page.get_by_role("button", name="Move cat back").click()
    assert screen.where().endswith("&o=210")
    assert screen.page.locator("td.sum").all_inner_texts()[-3:] == ["same ✓"] * 3
    screen.page.get_by_label("add positions").check()
    assert screen.page.locator("td.sum").all_inner_texts()[-3:] == ["differs"] * 3
    assert close(screen.numbers("table"), positions()["positional_encoding_5x8"])


def test_cross_attention_is_not_square(learner: Opener) -> None:
    screen, given = learner(at("cross")), example()
    y = np.array([[0.0, 0, 1, 1], [1, 0, 0, 1]])
    numbers = {"x": y, "y": given.X, "wq": given.Wq, "wk": given.Wk, "wv": given.Wv, "wo": None, "heads": 1}
    want = checker_numbers(numbers | {"causal": False}, {})
    assert close(screen.numbers("weights"), want.weights[0, 0])
    assert np.array(screen.numbers("weights")).shape == (2, 3)
    weights = screen.page.locator('[aria-label^="weights"]')
    assert weights.locator("th[scope=row]").all_inner_texts() == ["die", "Katze"]
    assert weights.locator("th[scope=col]").all_inner_texts() == ["the", "cat", "sat"]
    screen.page.get_by_role("button", name="Add a written token").click()
    assert np.array(screen.numbers("weights")).shape == (3, 3)
    screen.page.get_by_role("button", name="Remove cat").click()
    assert np.array(screen.numbers("weights")).shape == (3, 2)
