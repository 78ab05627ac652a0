"""The pages of docs/ tell the truth: their Python runs, their names exist."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from clearhead import lens
from clearhead.view.scene import QUESTIONS

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("page", ["lens.md"])
def test_the_python_of_a_page_runs(page: str) -> None:
    code = "\n".join(re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.DOTALL))
    names: dict[str, Any] = {}
    exec(code, names)
    assert not names["without_it"].equal(names["model"](names["ids"]).logits)


def test_the_python_of_the_views_page_runs() -> None:
    page = (DOCS / "view.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    names: dict[str, Any] = {}
    exec(code, names)
    assert float(names["row"][:8].sum()) == pytest.approx(1)
    assert names["row"][8:].eq(-1).all()
    assert f"# {names['picture'].head['text']}" in page
    assert names["page"].startswith("<!doctype html>")
    assert 0 < max(map(max, names["distances"])) < 1
    assert names["compared"].startswith("<!doctype html>")
    asked = re.findall(r"^\| `(\w+)` \|", page, flags=re.MULTILINE)
    assert set(asked) == set(QUESTIONS)


def test_every_question_that_the_page_names_can_be_asked() -> None:
    page = (DOCS / "lens.md").read_text(encoding="utf-8")
    questions = page[page.index("## Ask") : page.index("`explain` works")]
    named = set(re.findall(r"`(\w+)`", questions.split("| --- | --- |")[1]))
    assert len(named) >= 10
    for name in named:
        assert callable(getattr(lens, name)), name


def test_the_catalogue_of_mistakes_is_the_banks(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(DOCS / "mistakes.py"), run_name="__main__")
    assert capsys.readouterr().out == (DOCS / "mistakes.md").read_text(encoding="utf-8")
