"""The front page tells the truth: its Python runs, its tree is the tree, its verbs exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from clearhead.demo.run import Plan, run
from clearhead.demo.task import Task

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_tour_runs(tmp_path: Path) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    run(Plan(task=Task(), steps=2), tmp_path / "runs" / "demo", progress=False)
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    assert "decoder, " in ran.stdout


def test_the_tree_names_every_file() -> None:
    tree = README[README.index("## The house") :]
    files = {p.name for p in (ROOT / "src" / "clearhead").glob("*.py")}
    for folder in ("formulas", "model", "families", "generation", "lens", "text", "view", "train", "demo"):
        assert f"{folder}/" in tree
        files |= {p.name for p in (ROOT / "src" / "clearhead" / folder).rglob("*.py")}
    missing = {name for name in files if not name.startswith("__") and name not in tree}
    assert not missing


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_every_link_leads_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_every_verb_it_shows_exists() -> None:
    from clearhead.cli import app

    verbs = {command.callback.__name__ for command in app.registered_commands if command.callback is not None}
    verbs |= {group.name for group in app.registered_groups}
    shown = set(re.findall(r"^clearhead (\w+)", README, flags=re.MULTILINE))
    assert shown <= verbs
    assert len(shown) >= 4
