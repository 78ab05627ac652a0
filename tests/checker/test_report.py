"""Reports, exit codes, flags, live functions."""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import clearhead.checker as checker
from clearhead import Transformer
from clearhead.checker import Report, exercise
from clearhead.checker.bank import every, known
from clearhead.checker.magic import load_ipython_extension
from clearhead.checker.pipeline import Context, work
from clearhead.checker.report import to_csv
from clearhead.checker.setup import Flags
from clearhead.checker.tasks.attend import CORE
from clearhead.checker.testing import assert_attention, assert_laws
from clearhead.checker.watch import saved
from clearhead.families.presets import small_lm

RIGHT = "def attention(Q, K, V):\n    return (Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5).softmax(-1) @ V\n"
WRONG = RIGHT.replace(" / Q.shape[-1] ** 0.5", "")
HEAD = "import torch\n"


def write(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(HEAD + text)
    return str(path)


def scaled_by_two(Q, K, V):
    return F.softmax(Q @ K.transpose(-2, -1) / 2, dim=-1) @ V


class Plain(torch.nn.Module):
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def test_one_file_right(tmp_path: Path) -> None:
    text, data, _, code = checker.run([write(tmp_path, "a.py", RIGHT)])
    assert code == 0
    assert "right" in text
    assert json.loads(data)["passed"] is True


def test_one_file_wrong_says_what_how_and_where(tmp_path: Path) -> None:
    text, data, _, code = checker.run([write(tmp_path, "a.py", WRONG)])
    found = json.loads(data)
    assert code == 1
    assert found["mistakes"][0] == "scale-missing"
    assert set(found) == {"file", "task", "passed", "mistakes", "certainty", "evidence", "inferred", "error"}
    assert "sqrt(d_k)" in text
    assert any("expected" in line for line in found["evidence"])
    assert any("got" in line for line in found["evidence"])


def test_a_table_for_a_spreadsheet_holds_no_formula(tmp_path: Path) -> None:
    write(tmp_path, "a.py", RIGHT)
    write(tmp_path, "b.py", WRONG)
    lines = list(csv.DictReader(checker.run([str(tmp_path)]).csv.splitlines()))
    assert [line["verdict"] for line in lines] == ["right", "mistake"]
    assert lines[1]["mistakes"].split()[0] == "scale-missing"
    made = to_csv([Report("=HYPERLINK(1).py", None, None, error="-1, and more\n")])
    assert next(csv.DictReader(io.StringIO(made)))["file"] == "'=HYPERLINK(1).py"


def test_watching_checks_everything_once_and_then_what_is_saved(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.py", RIGHT), write(tmp_path, "b.py", WRONG)
    new = str(tmp_path / "c.py")
    doings = [
        lambda: None,
        lambda: os.utime(second, ns=(1, 1)),
        lambda: write(tmp_path, "c.py", RIGHT),
        lambda: os.remove(first),  # nothing to check
        lambda: os.utime(new, ns=(2, 2)),
    ]
    looks = saved([str(tmp_path)], sleep=lambda seconds: doings.pop(0)())
    assert [next(looks) for _ in range(4)] == [[first, second], [second], [new], [new]]


def test_an_assertion_for_test_suites() -> None:
    assert_attention(Plain)
    with pytest.raises(AssertionError, match="scale-hardcoded"):
        assert_attention(scaled_by_two)
    assert_laws(Transformer(small_lm(vocab=11, dim=64)))


def test_a_cell_of_a_notebook_is_run_and_checked() -> None:
    shell = Shell()
    load_ipython_extension(shell)
    report = shell.magics["check"]("--task sdpa", HEAD + WRONG)
    assert report.mistakes[0] == "scale-missing"
    assert shell.cells == [HEAD + WRONG]
    with pytest.raises(ValueError, match="--task"):
        shell.magics["check"]("--tsk sdpa", HEAD + WRONG)


class Shell:
    """What the extension uses of a notebook's shell."""

    def __init__(self) -> None:
        self.cells: list[str] = []
        self.magics: dict[str, Callable[[str, str], Report]] = {}

    def run_cell(self, cell: str) -> None:
        self.cells.append(cell)

    def register_magic_function(self, magic: Callable[[str, str], Report], kind: str, name: str) -> None:
        assert kind == "cell"
        self.magics[name] = magic


def test_a_folder_is_a_table_and_the_worst_code_wins(tmp_path: Path) -> None:
    write(tmp_path, "a.py", RIGHT)
    write(tmp_path, "b.py", WRONG)
    text, data, _, code = checker.run([str(tmp_path)])
    assert code == 1
    assert [entry["passed"] for entry in json.loads(data)] == [True, False]
    assert "1 right, 1 with a mistake, 0 could not run" in text
    write(tmp_path, "c.py", "x = 1 / 0\n")
    assert checker.run([str(tmp_path)]).status == 2


def test_every_task_of_a_file(tmp_path: Path) -> None:
    mask = "def causal_mask(T):\n    return torch.tril(torch.ones(T, T)).bool()\n"
    found = checker.check_paths([write(tmp_path, "a.py", WRONG + mask)], every=True)
    assert {(r.task, r.passed) for r in found} == {("sdpa", False), ("causal_mask", True)}


@pytest.mark.parametrize(
    "flag", [{"task": "attention"}, {"mask": "yes"}, {"returns": "w"}, {"lib": "jax"}, {"call": "f("}]
)
def test_a_wrong_flag_names_itself(flag: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"--{next(iter(flag))}"):
        checker.run([write(tmp_path, "a.py", RIGHT)], Flags(**flag))


def test_a_live_function_that_stands_alone() -> None:
    report = checker.check(scaled_by_two)
    assert report.mistakes == ["scale-hardcoded"]
    assert "scale-hardcoded" in repr(report)
    assert "where" not in report.inferred


def test_a_live_function_that_does_not_stand_alone_says_so() -> None:
    factor = np.sqrt(2.0) * np.ones(1)

    def attention(Q, K, V):
        return torch.softmax(Q @ K.transpose(-2, -1) / float(factor[0]), dim=-1) @ V

    report = checker.check(attention)
    assert report.passed is False
    assert "this process" in str(report.inferred["where"])


def test_a_module_class_and_an_instance() -> None:
    assert checker.check(Plain).passed is True
    assert checker.check(Plain()).passed is True


def test_num_01_scaled_by_the_model_width(tmp_path: Path) -> None:
    """Raw scores 8 and 0, width 64, 4 heads: softmax of 8/sqrt(16) and 0, not of 8/sqrt(64) and 0."""
    given = dict.fromkeys(("given", "lengths", "window", "bias"))
    heads = Context(q=np.eye(1, 16) * 8, k=np.eye(2, 16)[[0, 1]], v=np.eye(2), form="qk", causal=False, style="nan")
    vars(heads).update(given, sizes={"D": 64, "H": 4})
    entry = known()["scale-d-model"]
    np.testing.assert_allclose(work(CORE, heads).result, [[0.8808, 0.1192]], atol=1e-4)
    np.testing.assert_allclose(work(CORE, heads, entry.ways[0]).result, [[0.7311, 0.2689]], atol=1e-4)
    text = (
        "def multi_head_attention(x, Wq, Wk, Wv, Wo, n_heads):\n"
        "    q, k, v = (\n"
        "        (x @ w).unflatten(-1, (n_heads, -1)).transpose(1, 2) for w in (Wq, Wk, Wv)\n"
        "    )\n"
        "    w = torch.softmax(q @ k.transpose(2, 3) / x.shape[-1] ** 0.5, -1)\n"
        "    return (w @ v).transpose(1, 2).flatten(2) @ Wo\n"
    )
    report = checker.check_paths([write(tmp_path, "a.py", text)])[0]
    assert report.mistakes[0] == "scale-d-model"
    assert "too small by sqrt(heads)" in repr(report)


def test_what_only_the_source_tells_is_marked(tmp_path: Path) -> None:
    text = RIGHT.replace(" / Q.shape[-1] ** 0.5", " * Q.shape[-1] ** -0.5 * K.shape[-1] ** -0.5")
    report = checker.check_paths([write(tmp_path, "a.py", text)])[0]
    assert report.mistakes[:2] == ["scale-double", "scale-dk-not-sqrt"]
    assert report.evidence[0] == "read from the source: running alone cannot tell it from scale-dk-not-sqrt"


def test_what_running_tells_is_not_marked(tmp_path: Path) -> None:
    report = checker.check_paths([write(tmp_path, "a.py", WRONG)])[0]
    assert not any("read from the source" in line for line in report.evidence)


def test_msk_08_zeroing_after_the_softmax_is_named(tmp_path: Path) -> None:
    text = (
        "def attention(Q, K, V, mask):\n"
        "    w = (Q @ K.transpose(-2, -1) / Q.shape[-1] ** 0.5).softmax(-1)\n"
        "    return w.masked_fill(~mask, 0.0) @ V\n"
    )
    report = checker.check_paths([write(tmp_path, "a.py", text)])[0]
    assert report.mistakes[0] == "mask-after-softmax"
    assert any("rows of weights sum to" in line for line in report.evidence)


def test_num_02_the_wrong_axis_is_named(tmp_path: Path) -> None:
    report = checker.check_paths([write(tmp_path, "a.py", RIGHT.replace("softmax(-1)", "softmax(-2)"))])[0]
    assert report.mistakes[0] == "softmax-dim-query"


def test_every_entry_has_words_and_a_fix() -> None:
    for mistake in every():
        assert len(mistake.says) > 20
        assert len(mistake.fix) > 5
        assert set(mistake.tasks) <= set(checker.TASKS)


@pytest.mark.parametrize("task", checker.TASKS)
def test_a_stub_is_written_once_and_is_not_a_solution(task: str, tmp_path: Path) -> None:
    path = exercise.write(task, str(tmp_path))
    compile(path.read_text(), str(path), "exec")
    with pytest.raises(ValueError, match="stays as it is"):
        exercise.write(task, str(tmp_path))
    assert checker.check_paths([str(path)])[0].passed is None


def test_an_unknown_exercise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no exercise"):
        exercise.write("rope", str(tmp_path))


def test_a_function_without_source_that_imports_torch_within_is_tried_with_torch() -> None:
    space: dict[str, object] = {}
    exec(
        "def sdpa(Q, K, V):\n    import torch\n    return torch.softmax(Q @ K.transpose(-1, -2), dim=-1) @ V\n",
        space,
    )
    report = checker.check(space["sdpa"])
    assert report.mistakes[:1] == ["scale-missing"]
