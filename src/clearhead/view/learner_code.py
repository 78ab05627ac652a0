"""The lines of code beside the learner's numbers: cut out of the formulas themselves, so that they cannot drift."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from textwrap import dedent
from typing import Any


def block(function: Callable[..., Any], only: tuple[str, ...] = ()) -> dict[str, Any]:
    """A function without its docstring: {"name", "file", "head", "lines": [[name of the statement, code]]}.

    A statement is called after what it assigns, "return" or "mask" (an `if`); `only` keeps those of these names.
    """
    source = dedent(inspect.getsource(function))
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.FunctionDef)
    lines = source.splitlines()
    body = [statement for statement in definition.body if not _is_words(statement)]
    named = [(_name(s), "\n".join(lines[s.lineno - 1 : s.end_lineno])) for s in body]
    return {
        "name": function.__name__,
        "file": f"{function.__module__.replace('.', '/')}.py",
        "head": "\n".join(lines[: definition.body[0].lineno - 1]),
        "lines": [[name, code] for name, code in named if not only or name in only],
    }


def _is_words(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _name(statement: ast.stmt) -> str:
    if isinstance(statement, ast.Assign):
        return ast.unparse(statement.targets[0]).strip("()")
    if isinstance(statement, ast.FunctionDef):
        return statement.name
    return "mask" if isinstance(statement, ast.If) else "return"
