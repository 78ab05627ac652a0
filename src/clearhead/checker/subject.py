"""The learner's file: loaded once, then called on probes by evaluating one expression."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import math
import sys
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from clearhead.checker.bundle import Bundle
from clearhead.checker.engine import Failed
from clearhead.checker.names import AnyConfig


class CannotRunError(Exception):
    """The file could not be judged; the message is one plain sentence for the learner."""


@dataclass
class Subject:
    """A loaded file. `defined` holds what it defines itself, not what it imports."""

    file: str
    text: str
    tree: ast.Module
    space: dict[str, Any]
    defined: dict[str, Any] = field(default_factory=dict)

    @property
    def torch(self) -> bool:
        """Whether the file imports torch."""
        modules = (value.__name__ for value in self.space.values() if isinstance(value, ModuleType))
        return "torch" in _imports(self.tree) or any(name.split(".")[0] == "torch" for name in modules)


def _imports(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def read(path: str) -> tuple[str, ast.Module]:
    """Text and tree of a file; raises CannotRunError with the line of a syntax error."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CannotRunError(f"there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise CannotRunError(f"{path} cannot be read: {error}") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return text, ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise CannotRunError(f"syntax error in line {line}: {getattr(error, 'msg', error)}") from None


def load(path: str) -> Subject:
    """Imports the file. Whatever its top level raises becomes one sentence."""
    text, tree = read(path)
    sys.path.insert(0, str(Path(path).resolve().parent))
    spec = importlib.util.spec_from_loader("learner", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = path
    sys.modules["learner"] = module
    try:
        exec(compile(tree, path, "exec"), module.__dict__)
    except BaseException as error:
        raise CannotRunError(f"importing the file failed: {words(error, path)}") from None
    return wrap(path, text, tree, module)


def wrap(file: str, text: str, tree: ast.Module, module: ModuleType) -> Subject:
    space = dict(module.__dict__)
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    names += [t.id for n in tree.body if isinstance(n, ast.Assign) for t in n.targets if isinstance(t, ast.Name)]
    defined = {name: space[name] for name in names if name in space}
    return Subject(file, text, tree, space, defined)


def words(error: BaseException, path: str = "") -> str:
    """One sentence for an exception, with the line of the learner's file where it arose."""
    if isinstance(error, SystemExit):
        return "the code called sys.exit"
    if isinstance(error, EOFError):
        return "the code asks for input(), and there is nobody to answer"
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    text = " ".join(str(error).split())[:300]
    if isinstance(error, ModuleNotFoundError):
        text = f"{text} (only what is installed here can be imported)"
    where = f" (line {line})" if line else ""
    return f"{type(error).__name__}: {text}{where}" if text else f"{type(error).__name__}{where}"


class Ready:
    """A module class whose instances come in eval mode, and in float64 unless `single`."""

    def __init__(self, cls: Any, single: bool) -> None:
        self._cls, self._single = cls, single

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self._cls(*args, **kwargs).eval()
        return made if self._single else made.double()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cls, name)


def to_lib(value: Any, lib: str, single: bool) -> Any:
    """A probe's array in the learner's library."""
    if not isinstance(value, np.ndarray):
        return value
    value = value.astype(np.float32) if single and value.dtype == np.float64 else value.copy()
    if lib == "torch":
        import torch

        return torch.from_numpy(np.ascontiguousarray(value))
    return value.tolist() if lib == "list" else value


def to_numpy(value: Any) -> Any:
    """A learner's result as an array, or None when it is none. Sequences of numbers count."""
    if hasattr(value, "detach"):
        value = value.detach()
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return value.cpu().numpy()
    if isinstance(value, np.ndarray | np.generic | float | int | bool):
        return np.asarray(value)
    if isinstance(value, list | tuple):
        with contextlib.suppress(ValueError, TypeError, RuntimeError):
            made = np.asarray([to_numpy(v) for v in value])
            return made if made.dtype != object else None
    return None


def base_names(lib: str) -> dict[str, Any]:
    """What every call may name."""
    names: dict[str, Any] = {"np": np, "math": math, "numpy": np}
    if "torch" in sys.modules or lib == "torch":
        import torch

        names |= {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
    return names


def environment(subject: Subject, names: dict[str, Any], lib: str, single: bool = False) -> dict[str, Any]:
    """The names of a call: libraries, the probe's, then the file's own (which win, unless they are mere data)."""
    given = {name: to_lib(value, lib, single) for name, value in names.items()}
    given.setdefault("config", AnyConfig(names))
    given.setdefault("bundle", Bundle)
    given.setdefault("dtype", sys.modules["torch"].get_default_dtype() if lib == "torch" else np.float64)
    env = {**subject.space, **base_names(lib), **given}
    for name, value in subject.defined.items():
        if callable(value) or isinstance(value, int | str) or name not in given:
            env[name] = Ready(value, single) if _is_module_class(value) else value
    return env


def _is_module_class(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, type) and issubclass(value, torch.nn.Module)


def evaluate(subject: Subject, call: str, env: dict[str, Any]) -> Any:
    """The value of the call, or Failed with one sentence."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return eval(compile(call, "<call>", "eval"), env)
    except (Exception, SystemExit) as error:
        return Failed(words(error, subject.file), type(error).__name__)
