"""The page about training tells the truth: its recipes are read, its verbs and options exist, its run runs."""

import re
from pathlib import Path

import pytest
import typer.main
import yaml

import clearhead
from clearhead.cli import app
from clearhead.train.doctor import UNKNOWN
from clearhead.train.examine import LEAK, RATIO
from clearhead.train.folder import ASKED, CHECKPOINT, LOG, REPORT
from clearhead.train.keep import BEST, KEPT
from clearhead.train.lora import FOLDER as ADAPTER
from clearhead.train.recipe import FILE, Recipe, fields, read_recipe, recipe_of
from clearhead.train.run import PAGE as PAGE_FILE
from clearhead.train.run import run
from clearhead.train.start import LARGE, MANY
from clearhead.train.task_pairs import SCORED
from clearhead.train.watch import BOARD, SAMPLES, SNAPSHOTS

PAGE = (Path(__file__).parents[2] / "docs" / "train.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.mark.parametrize("text", RECIPES)
def test_its_recipes_are_recipes(text: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(text)
    assert read_recipe(tmp_path / "recipe.yaml") != Recipe()


def test_the_first_recipe_trains(tmp_path: Path) -> None:
    smaller = {"6000": "300", "dim: 256, layers: 4": "dim: 32, layers: 1", "1e-3": "0.001"}
    plain = yaml.safe_load(re.sub("|".join(smaller), lambda found: smaller[found[0]], RECIPES[0]))
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        lines = range(30 if name.startswith("train") else 3)
        (tmp_path / name).write_text("".join(f"some words {i} in {name[-2:]}\n" for i in lines))
    plain["data"] = {part: [str(tmp_path / name) for name in names] for part, names in plain["data"].items()}
    plain |= {"steps": 4, "save": {**plain["save"], "every": 1}, "watch": {"evaluate_every": 2}}
    report = run(recipe_of(plain), tmp_path / "run")
    assert report is not None
    assert report["sentences"] == 3


def test_the_recipe_of_an_adapter_trains_and_its_python_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (text,) = [text for text in RECIPES if "lora" in text]
    Path("notes.txt").write_text("".join(f"a note about {i} things\n" for i in range(80)))
    first = {"data": {"train": "notes.txt"}, "model": {"dim": 64, "layers": 1}, "batch": {"block": 16}, "steps": 2}
    run(recipe_of(first), Path("organisation/model"))
    run(recipe_of({**yaml.safe_load(text), "batch": {"block": 16}, "steps": 2, "optimizer": {}}), Path("runs/notes"))
    code, labels = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {"clearhead": clearhead}
    exec(code, names)
    trained = clearhead.load("runs/notes")
    assert (names["model"].last.table - trained.last.table).abs().max() == 0
    for name, matrix in trained.named_parameters():
        assert (names["model"].get_parameter(name) - matrix).abs().max() < 1e-6
    Path("reviews.tsv").write_text("text\tlabel\n" + "good film\tyes\nbad film\tno\n" * 20)
    said = {"task": "classify", "data": {"train": "reviews.tsv"}, "model": first["model"], "steps": 2}
    run(recipe_of(said), Path("runs/reviews"))
    (shares,) = eval(labels, names)
    assert shares.keys() == {"yes", "no"}


def test_every_line_it_shows_can_be_typed() -> None:
    group = typer.main.get_command(app)
    lines = [line.split("#")[0].split() for line in PAGE.split("\n") if line.startswith("clearhead ")]
    assert len(lines) >= 8
    for words in lines:
        command = group
        for word in words[1:]:
            command = getattr(command, "commands", {}).get(word, command)
        known = {option for parameter in command.params for option in parameter.opts}
        assert command is not group, words
        assert {word for word in words if word.startswith("--")} <= known, words
    options = {
        option
        for name in ("lm", "translate", "mlm", "span", "classify")
        for p in group.commands["train"].commands[name].params
        for option in p.opts
    }
    assert set(re.findall(r"`(--[a-z-]+)", PAGE)) <= options | {"--quick", "--help"}


def test_every_field_it_names_exists() -> None:
    names = {name for name, _, _ in fields(Recipe())}
    parts = {name.split(".")[0] for name in names}
    shown = {name for name in re.findall(r"`([a-z]+\.[a-z_]+)", PAGE) if name.split(".")[0] in parts}
    assert len(shown) > 8
    assert shown <= names | {"model.safetensors", "tokenizer.json"}


def test_every_file_that_a_run_may_write_is_named() -> None:
    for name in (KEPT, BEST, SNAPSHOTS, BOARD, ADAPTER):
        assert f"`{name}/`" in PAGE
    for name in (ASKED, CHECKPOINT, FILE, LOG, PAGE_FILE, REPORT, SAMPLES):
        assert f"`{name}" in PAGE


def test_its_numbers_are_those_of_the_code() -> None:
    assert f"under {LARGE // 1_000_000} million characters" in PAGE
    assert f"fewer than {MANY:,} pairs" in PAGE
    assert f"more than {RATIO} times as long" in PAGE
    assert f"more than {LEAK:.0%} of the rows" in PAGE.replace(" %", "%")
    assert f"more than {UNKNOWN:.0%} unknown" in PAGE.replace(" %", "%")
    assert f"its first {SCORED}\nsentences" in PAGE
