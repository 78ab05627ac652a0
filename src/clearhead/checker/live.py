"""Checking what is alive in Python: a function, a class or a module, not a file."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import tempfile
import textwrap
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from clearhead.checker.report import Report, check_paths, reports, validated
from clearhead.checker.setup import Flags

PLAIN = (int, float, str, bool, type(None), tuple)


def check(
    function_or_path: Any, task: str | None = None, call: str | None = None, mask: str | None = None,
    returns: str | None = None, lib: str | None = None, make: str | None = None, step: str | None = None,
) -> Report:  # fmt: skip
    """Checks an attempt at attention, masks, positions, the shift or a cache, and names the mistake.

    Args:
        function_or_path: a file, a function, an nn.Module class or an instance.
        task: what it attempts; None infers it. The other arguments are those of `clearhead check`.

    Returns:
        A Report with `.passed` (None: could not run), `.mistakes` (ids, most certain first) and `.evidence`.
        Files and functions whose source stands alone run in a separate process with limits; anything else runs in
        this process, and the report says so.

    Raises:
        ValueError: a flag has an unknown value.
    """
    flags = validated(Flags(task, call, mask, returns, lib, make, step))
    if isinstance(function_or_path, str | Path):
        return check_paths([str(function_or_path)], flags)[0]
    text = standalone(function_or_path)
    name = getattr(function_or_path, "__name__", type(function_or_path).__name__)
    if text is None:
        return here(function_or_path, name, flags)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        report = check_paths([str(path)], flags)[0]
    report.file = name
    return report


def standalone(thing: Any) -> str | None:
    """Source that defines `thing` and all it needs, or None when some of it is not in any source."""
    lines: list[str] = []
    try:
        _collect(thing, lines, set())
    except (OSError, TypeError, LookupError, SyntaxError):
        return None
    return "\n\n".join(lines) + "\n"


def _collect(thing: Any, lines: list[str], seen: set[str]) -> None:
    """Appends the definition of a function or class after those that it names. Raises LookupError if one is missing."""
    if not isinstance(thing, FunctionType | type) or getattr(thing, "__closure__", None):
        raise LookupError("not a plain function or class")
    source = textwrap.dedent(inspect.getsource(thing))
    tree = ast.parse(source)
    space = thing.__globals__ if isinstance(thing, FunctionType) else vars(inspect.getmodule(thing))
    seen.add(thing.__name__)
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - bound - seen
    for name in sorted(names - set(dir(builtins))):
        if name not in space:
            continue
        value = space[name]
        seen.add(name)
        if isinstance(value, ModuleType):
            lines.append(f"import {value.__name__} as {name}")
        elif isinstance(value, PLAIN):
            lines.append(f"{name} = {value!r}")
        elif getattr(value, "__module__", "") in ("__main__", getattr(thing, "__module__", None)):
            _collect(value, lines, seen)
        elif hasattr(value, "__module__") and hasattr(value, "__name__"):
            lines.append(f"from {value.__module__} import {value.__name__} as {name}")
        else:
            raise LookupError(name)
    lines.append(source)


def here(thing: Any, name: str, flags: Flags) -> Report:
    """Runs in this process, without limits."""
    from clearhead.checker import flow, subject

    definition = thing if isinstance(thing, FunctionType | type) else type(thing)
    source = stub_source(definition, name)
    tree = ast.parse(source)
    space = dict(vars(inspect.getmodule(definition) or builtins))
    space.update(getattr(definition, "__globals__", {}))
    if "torch" in sys.modules:  # a function without source may use it from within
        space.setdefault("torch", sys.modules["torch"])
    defined = {
        definition.__name__: thing if isinstance(thing, FunctionType | type) else (lambda *_, **__: copied(thing))
    }
    loaded = subject.Subject(name, source, tree, {**space, **defined}, defined)
    try:
        found = [vars(v) for v in flow.check_subject(loaded, flags)]
    except subject.CannotRunError as error:
        found = [{"error": str(error)}]
    report = reports(name, found)[0]
    report.inferred["where"] = "this process, without limits of time or memory"
    return report


def copied(module: Any) -> Any:
    """A copy in eval mode, so that the user's own weights stay."""
    import copy

    made = copy.deepcopy(module)
    return made.eval().double() if hasattr(made, "eval") else made


def stub_source(definition: Any, name: str) -> str:
    """The source, or a definition with the right parameters where there is none."""
    try:
        return textwrap.dedent(inspect.getsource(definition))
    except (OSError, TypeError):
        return f"def {definition.__name__}{inspect.signature(definition)}:\n    ...\n"
