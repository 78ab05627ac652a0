"""A cell magic for notebooks: `%load_ext clearhead.checker.magic`, then `%%check` above an attempt."""

from __future__ import annotations

import shlex
import tempfile
from pathlib import Path
from typing import Any

from clearhead.checker.report import Report, check_paths, validated
from clearhead.checker.setup import Flags


def check_cell(line: str, cell: str) -> Report:
    """The report on a cell that stands alone, imports included. line: flags as on the command line.

    Raises ValueError for a flag that does not exist.
    """
    words = shlex.split(line)
    names, values = words[::2], words[1::2]
    known = [f"--{name}" for name in Flags.__dataclass_fields__]
    for name in names:
        if name not in known or len(names) != len(values):
            raise ValueError(f"%%check {line}: write flags and values in pairs; the flags are {', '.join(known)}")
    flags = validated(Flags(**{name[2:]: value for name, value in zip(names, values, strict=True)}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cell.py"
        path.write_text(cell, encoding="utf-8")
        report = check_paths([str(path)], flags)[0]
    report.file = "this cell"
    return report


def load_ipython_extension(ipython: Any) -> None:
    """What `%load_ext` calls. The cell is run in the notebook too, so that what it defines is there."""

    def magic(line: str, cell: str) -> Report:
        ipython.run_cell(cell)
        return check_cell(line, cell)

    ipython.register_magic_function(magic, "cell", "check")
