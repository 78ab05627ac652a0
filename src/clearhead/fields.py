"""Plain data (from JSON) to frozen dataclasses, strictly: every field known, present and of its type."""

import dataclasses
import difflib
import types
from collections.abc import Iterator
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
MOST = 10_000  # equal parts in a row: nobody means more, and a damaged file shall not fill the memory


def build(cls: type[T], plain: object, place: str) -> T:
    """An instance of dataclass `cls` from nested dicts and lists. `place` names the spot in error messages.

    Raises ValueError naming the field, what was given and what is expected.
    """
    if not isinstance(plain, dict):
        raise ValueError(f"{place} must be an object with the fields of {cls.__name__}, not {plain!r}")
    given = cast(dict[str, object], plain)
    known = {f.name: f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
            raise ValueError(f"{place}.{name} is not a field of {cls.__name__}{hint}")
    for name in known:
        if name in _needed(cls) and name not in given:
            raise ValueError(f"{place}.{name} is missing; {cls.__name__} needs it")
    hints = get_type_hints(cls)
    return cls(**{name: _value(hints[name], value, f"{place}.{name}") for name, value in given.items()})


def unfolded(runs: list[Any], place: str, name: str) -> Iterator[Any]:
    """Each `name` of [{"times": 6, name: {...}}, ...] as many times as it says; ValueError if it does not say so."""
    for i, run in enumerate(runs):
        if not isinstance(run, dict) or set(cast(Any, run)) != {"times", name} or not _is_a(run["times"], int):
            raise ValueError(f'{place}[{i}] is {run!r}; expected {{"times": a whole number, "{name}": {{...}}}}')
        if run["times"] > MOST:
            raise ValueError(f"{place}[{i}].times is {run['times']}; at most {MOST}")
        yield from [run[name]] * run["times"]


def out_of_bounds(form: Any, at_least: dict[str, int], positive: set[str], place: str = "") -> Iterator[str]:
    """One sentence for each number below its bound, by the name of its field, in this dataclass and those inside."""
    for f in dataclasses.fields(form):
        value, here = getattr(form, f.name), f"{place}.{f.name}".removeprefix(".")
        if isinstance(value, tuple):
            for i, item in enumerate(cast(tuple[object, ...], value)):
                if dataclasses.is_dataclass(item):
                    yield from out_of_bounds(item, at_least, positive, f"{here}[{i}]")
        elif dataclasses.is_dataclass(value):
            yield from out_of_bounds(value, at_least, positive, here)
        elif value is not None and f.name in at_least and not value >= at_least[f.name]:
            yield f"{here} is {value}; it must be at least {at_least[f.name]}"
        elif value is not None and f.name in positive and not value > 0:
            yield f"{here} is {value}; it must be above 0"


def _value(hint: Any, value: object, place: str) -> object:
    """`value` as the type `hint` says. Of several dataclasses, the one whose fields fit."""
    options = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    if value is None and type(None) in options:
        return None
    if isinstance(value, dict):
        classes = [o for o in options if dataclasses.is_dataclass(o)]
        keys = set(cast(dict[str, object], value))
        fitting = [c for c in classes if _needed(c) <= keys <= {f.name for f in dataclasses.fields(c)}]
        if classes:
            nearest = max(classes, key=lambda c: len(keys & {f.name for f in dataclasses.fields(c)}))
            exact = [c for c in fitting if keys == {f.name for f in dataclasses.fields(c)}]
            return build(cast(Any, next(iter(exact + fitting), nearest)), cast(object, value), place)
    for option in options:
        if get_origin(option) is tuple and isinstance(value, list):
            inner = get_args(option)[0]
            return tuple(_value(inner, v, f"{place}[{i}]") for i, v in enumerate(cast(list[object], value)))
        if get_origin(option) is Literal and value in get_args(option):
            return value
        if isinstance(option, type) and _is_a(value, option):
            return float(value) if isinstance(value, int) and option is float else value
    raise ValueError(f"{place} is {value!r}; expected {_readable(options)}")


def _needed(cls: Any) -> set[str]:
    """Fields without a default."""
    missing = dataclasses.MISSING
    return {f.name for f in dataclasses.fields(cls) if f.default is missing and f.default_factory is missing}


def _is_a(value: object, kind: type) -> bool:
    if isinstance(value, bool) or kind is bool:
        return isinstance(value, bool) and kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _readable(options: tuple[Any, ...]) -> str:
    words: list[str] = []
    for option in options:
        literal = get_origin(option) is Literal
        words += [repr(v) for v in get_args(option)] if literal else [getattr(option, "__name__", str(option))]
    return " or ".join(words).replace("NoneType", "null")
