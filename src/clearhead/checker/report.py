"""The report of a check: plain words for people, plain data for programs, one exit code."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from clearhead.checker.client import Worker
from clearhead.checker.setup import TASKS, Flags


@dataclass(repr=False)
class Report:
    """What was found out about one task of one file. `passed` is None when the code could not be run."""

    file: str
    task: str | None
    passed: bool | None
    mistakes: list[str] = field(default_factory=list)
    certainty: str = ""
    evidence: list[str] = field(default_factory=list)
    inferred: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def __repr__(self) -> str:
        return self.words()

    def words(self) -> str:
        """The report as text: the verdict, the meaning and the fix, the evidence, what was inferred."""
        lines = [f"{self.file}: {verdict(self)}"]
        if self.passed is False:
            lines += [line for name in self.mistakes[:1] for line in meaning(name)]
            if len(self.mistakes) > 1:
                joined = "together with" if "two" in self.certainty else "the same numbers are also given by"
                lines.append(f"  {joined}: {', '.join(self.mistakes[1:])}")
            lines.append(f"  how it is known: {self.certainty}")
            lines += [f"  {line}" for line in self.evidence]
        lines += [f"  inferred {name}: {value}" for name, value in self.inferred.items()]
        return "\n".join(lines)


def verdict(report: Report) -> str:
    if report.passed is None:
        return f"could not run: {report.error}"
    where = f" ({report.task})" if report.task else ""
    return f"right{where}" if report.passed else f"{report.mistakes[0]}{where}"


def meaning(name: str) -> list[str]:
    """What a mistake means, and its fix; the bank is read only here, since it needs NumPy."""
    from clearhead.checker.bank import known

    entry = known().get(name)
    if entry is None:
        return ["  The numbers are wrong, but no known mistake gives them."]
    return [f"  {entry.says}", f"  fix: {entry.fix}"]


def files_of(paths: Sequence[str]) -> list[str]:
    """Files, and the .py files of folders, in order."""
    found: list[str] = []
    for path in paths:
        folder = Path(path)
        found += sorted(str(p) for p in folder.glob("*.py")) if folder.is_dir() else [path]
    return found


def check_paths(
    paths: Sequence[str], flags: Flags | None = None, every: bool = False, seconds: float = 10.0
) -> list[Report]:
    """Checks files and folders in a worker process; with `every`, every task that a file attempts.

    Raises ValueError for an unknown task, mask convention or the like, before anything runs.
    """
    flags = validated(flags or Flags())
    with Worker(seconds) as worker:
        return [
            r for file in files_of(paths) for r in reports(file, worker.ask(file, flags.given(), every), flags.task)
        ]


def reports(file: str, answers: list[dict[str, Any]], task: str | None = None) -> list[Report]:
    empty: dict[str, Any] = {"task": task, "passed": None}
    return [Report(file, **{**empty, **answer}) for answer in answers]


CHOICES = {
    "task": TASKS,
    "mask": ("keep", "hide", "add", "none", "lengths"),
    "returns": ("out", "out,weights", "weights,out"),
    "lib": ("torch", "numpy", "list"),
}


def validated(flags: Flags) -> Flags:
    """The flags; raises ValueError naming the flag, the value and the choices."""
    for name, choices in CHOICES.items():
        value = getattr(flags, name)
        if value is not None and value not in choices:
            raise ValueError(f"--{name} is {value!r}; choose one of {', '.join(choices)}")
    for name in ("call", "make", "step"):
        try:
            compile(getattr(flags, name) or "0", f"--{name}", "eval")
        except SyntaxError as error:
            raise ValueError(f"--{name} is no expression: {error.msg}") from None
    return flags


def to_json(found: Sequence[Report], single: bool) -> str:
    """One object for one file, a list for several."""
    data = [asdict(report) for report in found]
    return json.dumps(data[0] if single and len(data) == 1 else data, indent=2)


def to_csv(found: Sequence[Report]) -> str:
    """A line for each task of each file, for a class's spreadsheet."""
    made = io.StringIO()
    table = csv.writer(made, lineterminator="\n")
    table.writerow(["file", "task", "verdict", "mistakes", "certainty", "error"])
    for report in found:
        verdict = {True: "right", False: "mistake", None: "could not run"}[report.passed]
        row = (report.file, report.task, verdict, " ".join(report.mistakes), report.certainty, report.error)
        table.writerow([harmless(cell or "") for cell in row])
    return made.getvalue().rstrip("\n")


def harmless(cell: str) -> str:
    """A spreadsheet would take such a cell for a formula."""
    return f"'{cell}" if cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def to_text(found: Sequence[Report], single: bool) -> str:
    """The full report of one file; a table for several."""
    if single:
        return "\n\n".join(report.words() for report in found)
    wide = max((len(report.file) for report in found), default=4)
    rows = [f"{report.file:<{wide}}  {report.task or '-':<20}  {verdict_cell(report)}" for report in found]
    right = sum(report.passed is True for report in found)
    wrong = sum(report.passed is False for report in found)
    return "\n".join([*rows, f"{right} right, {wrong} with a mistake, {len(found) - right - wrong} could not run"])


def verdict_cell(report: Report) -> str:
    if report.passed is None:
        return f"could not run: {report.error}"
    return "right" if report.passed else ", ".join(report.mistakes)


def exit_code(found: Sequence[Report]) -> int:
    """0 all right, 1 a mistake somewhere, 2 something could not be run."""
    if any(report.passed is None for report in found) or not found:
        return 2
    return int(any(report.passed is False for report in found))


class Printed(NamedTuple):
    """The reports in every form that the command line prints, and its exit status."""

    text: str
    json: str
    csv: str
    status: int


def run(paths: Sequence[str], flags: Flags | None = None, every: bool = False, seconds: float = 10.0) -> Printed:
    """Files or folders checked, for the command line. Raises ValueError for a wrong flag."""
    found = check_paths(paths, flags, every, seconds)
    single = len(paths) == 1 and not Path(paths[0]).is_dir()
    return Printed(to_text(found, single), to_json(found, single), to_csv(found), exit_code(found))
