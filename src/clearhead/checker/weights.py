"""Putting the reference's weights into a learner's module, by submodule names given or found."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from clearhead.checker.names import role as named_size

PARTS = ("q", "k", "v")


class ResizeError(Exception):
    """The module has other sizes than the probe: `sizes` says which."""

    def __init__(self, **sizes: int) -> None:
        super().__init__(f"the module wants other sizes: {sizes}")
        self.sizes = sizes


class SharedError(Exception):
    """A projection is only one head wide."""


def loader(names: dict[str, Any], notes: dict[str, Any], single: bool = False) -> Callable[..., Any]:
    """The `load` of a call: puts the matrices of this probe (`Wq` [D H*E] ..., used as x @ W) into a module."""

    def load(module: Any, **paths: str) -> Any:
        if hasattr(module, "named_parameters"):
            module = (module.float() if single else module.double()).eval()
        for name, parameter in parameters(module):
            if parameter.ndim == 1 and re.search(r"bias|(^|\.)b", name):
                parameter[...] = 0
        notes["loaded"] = sorted(paths)
        for part, path in paths.items():
            put(module, path, matrix(names, part), names, part)
        return module

    return load


def matrix(names: dict[str, Any], part: str) -> np.ndarray:
    """The matrix for `q`, `kv`, `qkv`, `o`, or one head's `q0`; [in out]."""
    wide = {"q": "Wq", "k": "Wk", "v": "Wv", "o": "Wo"}
    if part in wide:
        return names[wide[part]]
    single = re.fullmatch(r"([qkvo])(\d+)", part)
    if single:
        letter, index = single[1], int(single[2])
        size = names["dk"]
        whole = names[wide[letter]]
        block = slice(index * size, (index + 1) * size)
        return whole[block] if letter == "o" else whole[:, block]
    if part in ("qkv", "kv"):
        return np.concatenate([names[wide[p]] for p in part], axis=1)
    raise ValueError(f"load: unknown part {part!r}; use q, k, v, o, qkv, kv, or q0, q1 ... for single heads")


def put(module: Any, path: str, weight: np.ndarray, names: dict[str, Any], part: str) -> None:
    """Copies `weight` [in out] to `path`; nn.Linear and plain parameters hold its transpose, unless it ends in .T."""
    import torch

    straight = path.endswith(".T")
    target = walk(module, path.removesuffix(".T"))
    if isinstance(target, np.ndarray):
        wanted = fit(weight if straight else weight.T, weight, target.shape, names, part)
        replace_array(module, path.removesuffix(".T"), wanted)
        return
    if not isinstance(target, torch.Tensor):
        if not hasattr(target, "weight"):
            raise ValueError(f"load: {path} has no weight")
        target = target.weight
    wanted = fit(weight if straight else weight.T, weight, tuple(target.shape), names, part)
    with torch.no_grad():
        target.copy_(torch.from_numpy(np.ascontiguousarray(wanted)))


def replace_array(module: Any, path: str, value: np.ndarray) -> None:
    """A float64 array in place of a plain object's, whatever type that had."""
    *before, last = path.split(".")
    owner = walk(module, ".".join(before)) if before else module
    if isinstance(owner, dict):
        owner[last] = value.copy()
    elif isinstance(owner, list):
        owner[int(last)] = value.copy()
    else:
        setattr(owner, last, value.copy())


def walk(module: Any, path: str) -> Any:
    for step in path.split("."):
        if isinstance(module, dict):
            module = module[step]
        elif step.isdigit() and not hasattr(module, step):
            module = module[int(step)]
        else:
            module = getattr(module, step)
    return module


def parameters(module: Any) -> list[tuple[str, Any]]:
    """(path, tensor or array) of everything that a module, or a plain object, may have learned."""
    if hasattr(module, "named_parameters"):
        return [(name, parameter.data) for name, parameter in module.named_parameters()]
    found: list[tuple[str, Any]] = []
    for name, value in vars(module).items() if hasattr(module, "__dict__") else ():
        if hasattr(value, "ndim") and getattr(value, "ndim", 0) and hasattr(value, "shape"):
            found.append((name, value))
        elif isinstance(value, dict | list):
            items = value.items() if isinstance(value, dict) else enumerate(value)
            found += [(f"{name}.{key}", item) for key, item in items if getattr(item, "ndim", 0)]
        elif hasattr(value, "named_parameters"):
            found += [(f"{name}.{inner}", parameter) for inner, parameter in parameters(value)]
    return found


def fit(wanted: np.ndarray, weight: np.ndarray, shape: tuple[int, ...], names: dict[str, Any], part: str) -> np.ndarray:
    """The matrix in the parameter's shape: two axes, one of (H, D, E) kind, or a width-1 convolution's."""
    if wanted.shape == shape:
        return wanted
    if len(shape) == 3 and shape[-1] == 1 and shape[:2] == weight.T.shape:
        return weight.T[..., None]
    size, heads = names["dk"], weight.size // (names["D"] * names["dk"])
    shaped = {
        (heads, names["D"], size): lambda: weight.reshape(-1, heads, size).transpose(1, 0, 2),
        (names["D"], heads, size): lambda: weight.reshape(-1, heads, size),
        (heads, size, names["D"]): lambda: weight.reshape(heads, size, -1),
    }
    if shape in shaped and len(shape) == 3:
        return shaped[shape]()
    if len(shape) == 2 and part in PARTS and shape == (size, size) != wanted.shape:
        return wanted[:size, :size]
    if part == "o" and shape == (names["D"], size):
        return wanted[:, :size]
    inside = shape[1] if len(shape) == 2 else shape[-1]
    raise ResizeError(D=int(inside))


# --- finding the parts by name ---------------------------------------------------------------------------------------

WORD = {
    "qkv": r"qkv|c_attn|in_proj|to_qkv|attn_proj",
    "kv": r"(^|_)kv|kv($|_)|to_kv",
    "q": r"(^|_|w|to)q($|_|\d)|quer|^q",
    "k": r"(^|_|w|to)k($|_|\d)|key|^k",
    "v": r"(^|_|w|to)v($|_|\d)|val|^v",
    "o": r"(^|_|w)o($|_)|out|c_proj|proj$|final|unify|dense|merge|combine|head_mix|mix|concat|fc|linear",
}


def slots(module: Any) -> list[tuple[str, tuple[int, ...], bool]]:
    """(path, shape, is a layer) of everything that may hold a projection, in order of definition."""
    import torch

    found: list[tuple[str, tuple[int, ...], bool]] = []
    if not hasattr(module, "named_modules"):
        return [plain(name, tuple(value.shape)) for name, value in parameters(module) if value.ndim >= 2]
    layers = [(n, m) for n, m in module.named_modules() if isinstance(getattr(m, "weight", None), torch.Tensor)]
    inside = {f"{n}.weight" for n, _ in layers} | {f"{n}.bias" for n, _ in layers}
    for name, layer in layers:
        if layer.weight.ndim >= 2:
            found.append((name, tuple(layer.weight.shape), True))
    for name, parameter in module.named_parameters():
        if name not in inside and parameter.ndim >= 2:
            found.append((name, tuple(parameter.shape), False))
    return found


def plain(name: str, shape: tuple[int, ...]) -> tuple[str, tuple[int, ...], bool]:
    """A slot of an object that is no module: its layers' weights, else arrays."""
    return name.removesuffix(".weight"), shape, name.endswith(".weight")


def role(path: str) -> str | None:
    """Which projection a path names: the last part of it that says anything."""
    for step in reversed(path.lower().split(".")):
        if step.isdigit():
            continue
        for name, pattern in WORD.items():
            if re.search(pattern, step):
                return name
    return None


def marked(path: str, shape: tuple[int, ...], layer: bool, code: str) -> str:
    """The path, with .T where a plain parameter is used as x @ W."""
    name = re.escape(path.split(".")[-1])
    as_layer = layer or (len(shape) == 2 and shape[0] == 3 * shape[1])
    turned = re.search(rf"linear\([^)]*\.{name}\b|\.{name}\.(T\b|mT\b|t\(|transpose)", code)
    return path if as_layer or turned else f"{path}.T"


def find(module: Any, code: str = "") -> dict[str, str]:
    """The paths for `load`, found by names, else by order (q, k, v, o). Raises ValueError when they do not fit."""
    found = slots(module)
    if not found:
        raise ValueError("the module has no projections")
    roles: dict[str, list[str]] = {}
    for path, shape, layer in found:
        name = role(path)
        if name is not None:
            roles.setdefault(name, []).append(marked(path, shape, layer, code))
    several = {name: paths for name, paths in roles.items() if len(paths) > 1}
    if "q" in several and all(_numbered(paths) for paths in several.values()):
        single = {name: paths[0] for name, paths in roles.items() if len(paths) == 1}
        return {**single, **{f"{n}{i}": p for n, paths in several.items() for i, p in enumerate(paths)}}
    plain = {name: paths[0] for name, paths in roles.items()}
    if {"q", "k", "v"} <= plain.keys() or "qkv" in plain or {"q", "kv"} <= plain.keys():
        return plain
    if len(found) in (3, 4):
        return dict(zip("qkvo", (marked(*slot, code) for slot in found), strict=False))
    if len(found) <= 2 and found[0][1][0] % 3 == 0:
        return dict(zip(("qkv", "o"), (marked(*slot, code) for slot in found), strict=False))
    raise ValueError(f"cannot tell which of {[p for p, _, _ in found]} are q, k, v and o")


def _numbered(paths: list[str]) -> bool:
    return all(re.search(r"\.\d+(\.|$)|_?\d+(\.T)?$", path) for path in paths)


def sizes(module: Any, paths: dict[str, str]) -> dict[str, int]:
    """D (and heads, where an attribute says so) of a module."""
    import torch

    first = next(iter(paths.values()))
    target = walk(module, first.removesuffix(".T"))
    shape = tuple((target if isinstance(target, torch.Tensor | np.ndarray) else target.weight).shape)
    known = {"D": int(shape[0] if first.endswith(".T") and len(shape) == 2 else shape[1])}
    for name, value in numbers(module):
        found = named_size(name.strip("_"), frozenset(("H", "Hkv")))
        if found:
            known[found] = value
    if "q0" in paths:
        known["H"] = sum(1 for p in paths if re.fullmatch(r"q\d+", p))
    share = key_share(module, paths)
    if "H" in known and share is not None and share < 1:
        known["Hkv"] = max(1, round(known["H"] * share))
    return known


def key_share(module: Any, paths: dict[str, str]) -> float | None:
    """How wide the keys are as a share of the queries, where both have a projection: less than 1 for groups."""
    wide = {part: width(module, path) for part, path in paths.items() if part in ("q", "k", "kv")}
    if "q" not in wide or len(wide) < 2 or not wide["q"]:
        return None
    return (wide["k"] if "k" in wide else wide["kv"] / 2) / wide["q"]


def width(module: Any, path: str) -> int:
    """The number of features that a projection makes."""
    target = walk(module, path.removesuffix(".T"))
    weight = getattr(target, "weight", target)
    return int(weight.shape[-1] if path.endswith(".T") else weight.shape[0])


def numbers(module: Any, depth: int = 2) -> list[tuple[str, int]]:
    """(name, whole number) of the attributes of a module, of its configuration and of its parts."""
    found: list[tuple[str, int]] = []
    inner = vars(module) if hasattr(module, "__dict__") else module if isinstance(module, dict) else {}
    for name, value in {**inner.get("_modules", {}), **inner}.items():
        if isinstance(value, int) and not isinstance(value, bool):
            found.append((str(name), value))
        elif depth and not name.startswith("_") and (hasattr(value, "__dict__") or isinstance(value, dict)):
            found = numbers(value, depth - 1) + found
    return found
