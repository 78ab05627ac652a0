"""Recipes: what is written is what is read; what cannot be meant is refused in one sentence."""

import dataclasses
from pathlib import Path

import pytest

from clearhead.train.recipe import Recipe, explained, fields, fixed, read_recipe, recipe_of, write_recipe


def read(text: str, folder: Path) -> Recipe:
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    return read_recipe(folder / "recipe.yaml")


def test_a_recipe_comes_back_as_it_was_written(tmp_path: Path) -> None:
    recipe = read("task: mlm\ndata: {train: ä.txt}\noptimizer: {adamw: 1e-3}\nwatch: {prompts: [a, b]}\n", tmp_path)
    assert recipe.data.train == ("ä.txt",)
    assert recipe.optimizer.adamw == 0.001
    assert recipe.watch.prompts == ("a", "b")
    write_recipe(recipe, tmp_path / "again.yaml")
    assert read_recipe(tmp_path / "again.yaml") == recipe
    assert recipe_of({}) == Recipe()


def test_names_with_dots_stand_for_parts(tmp_path: Path) -> None:
    wanted = read("optimizer: {adamw: 1, decay: 0}\nbatch: {block: 3}\n", tmp_path)
    for text in (
        "optimizer.adamw: 1\noptimizer.decay: 0\nbatch.block: 3\n",
        "optimizer.adamw: 1\noptimizer: {decay: 0}\nbatch: {block: 3}\n",
        "optimizer: {decay: 0}\noptimizer.adamw: 1\nbatch.block: 3\n",
    ):
        assert read(text, tmp_path) == wanted


def test_every_field_is_explained_with_its_default() -> None:
    lines = explained().split("\n")
    names = [name for name, _, _ in fields(Recipe())]
    assert [line.strip().split(":")[0] for line in lines] == names
    assert len(names) > 40
    assert all(len(line.split("# ", 1)[1]) > 5 for line in lines)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stepz: 3", "recipe.stepz is not a field of Recipe; did you mean 'steps'?"),
        ("batch: {tokns: 3}", "recipe.batch.tokns is not a field of Batches; did you mean 'tokens'?"),
        ("steps: many", "recipe.steps is 'many'; expected int or null"),
        ("steps: true", "recipe.steps is True; expected int or null"),
        ("dtype: int8", "recipe.dtype is 'int8'; expected 'float32' or 'bfloat16'"),
        ("data: {train: 3}", "recipe.data.train is 3; expected a list"),
        ("watch: {probe_steps: [1, b]}", r"recipe.watch.probe_steps\[1\] is 'b'; expected int"),
        ("steps: 0", "recipe.steps is 0; it must be above 0"),
        ("optimizer: {adamw: -1e-3}", r"recipe.optimizer.adamw is -0.001; it must be at least 0"),
        ("optimizer: {decay: .nan}", "recipe.optimizer.decay is nan; it must be at least 0"),
        ("smoothing: 1", "recipe.smoothing is 1.0; it must be below 1"),
        ("watch: {patience: 2}", "patience is 2, but watch.evaluate_every is 0; say how often"),
        ("save: {average: 3}", "save.average is 3, but save.keep is 1; keep at least as many"),
        ("data: {stream: yes}", "steps is null, but data.stream is true; say how many steps"),
        ("model: {start: a, dim: 3}", "model.start is 'a', so it has its config, dim and layers; leave those out"),
        ("steps: 9\nschedule: {kind: wsd, warmup: 5, decay: 5}", "warmup 5 and decay 5 are more than the 9 steps"),
        (
            "data: {train: a.txt, validation: [b.txt, a.txt]}",
            "data.validation holds a.txt, which is trained on; name an",
        ),
        ("[1, 2]", r"recipe is \[1, 2\]; write fields such as `task: lm`"),
        ("batch.tokns: 3", "recipe.batch.tokns is not a field of Batches; did you mean 'tokens'?"),
        ("steps.many: 3", r"recipe.steps is {'many': 3}; expected int or null"),
        ("batch: 3\nbatch.block: 3", "recipe.batch is 3; expected Batches"),
        ("1: 2", "recipe.1 is not a field of Recipe"),
        ("a: [", "recipe.yaml is not YAML: while parsing"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=sentence) as raised:
        read(text, tmp_path)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.yaml cannot be read: No such file or directory; give a recipe"):
        read_recipe(tmp_path / "none.yaml")


def test_what_may_change_when_a_run_goes_on_is_not_fixed() -> None:
    names = set(fixed(Recipe()))
    assert {"seed", "steps", "batch.tokens", "optimizer.adamw", "task", "model.start"} <= names
    assert not {"device", "save.every", "data.train", "watch.prompts", "spread"} & names
    assert all(dataclasses.is_dataclass(part) for part in (Recipe().data, Recipe().save))
