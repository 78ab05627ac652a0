"""The probes of attention: sizes that differ, sizes that agree, large numbers, masks of every kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from clearhead.checker.engine import Case
from clearhead.checker.setup import Setup
from clearhead.checker.tasks.attend import spread

MASKS = frozenset(("mask", "src_mask", "tgt_mask"))
HUGE = 11.0
BASE = {"B": 3, "H": 2, "Hkv": 2, "T": 7, "S": 7, "dk": 6, "dv": 6}
#          name            sizes that differ                                  needed
SDPA = (
    ("T_q = T_k", {}, True),
    ("T_q < T_k", {"T": 4}, False),
    ("d_v != d_k", {"T": 4, "dv": 5}, False),
    ("another d_k", {"T": 5, "S": 5, "dk": 12, "dv": 12}, False),
    ("T = d_k", {"T": 6, "S": 6}, True),
    ("B = T", {"B": 4, "T": 4, "S": 4, "H": 3}, True),
    ("B = H", {"B": 3, "H": 3, "T": 5, "S": 5}, True),
    ("all equal", {"B": 4, "H": 4, "T": 4, "S": 4, "dk": 4, "dv": 4}, True),
    ("T_q > T_k", {"T": 8, "S": 5}, False),
    ("one sample", {"B": 1}, True),
)
MULTI = (
    ("T_q = T_k", {}, True),
    ("T_q < T_k", {"T": 5}, False),
    ("another width", {"dk": 10, "H": 3, "Hkv": 3}, False),
    ("T = E", {"T": 6, "S": 6}, False),
    ("B = T", {"B": 5, "T": 5, "S": 5}, False),
    ("B = H", {"B": 4}, False),
    ("T = H", {"T": 4, "S": 4}, False),
    ("one sample", {"B": 1}, False),
    ("T_q > T_k", {"T": 8, "S": 5}, False),
    ("all equal", {"B": 4, "T": 4, "S": 4, "dk": 4}, False),
)
MULTI_BASE = {"B": 3, "H": 4, "Hkv": 4, "T": 7, "S": 7, "dk": 6}


def grouped(setup: Setup) -> bool:
    return "Hkv" in setup.uses or setup.variant == "grouped"


def size_table(setup: Setup) -> list[tuple[str, dict[str, int], bool]]:
    """(name, sizes, needed) of the plain probes; sizes fixed by the file stand in all of them."""
    multi = setup.task != "sdpa"
    base = {**MULTI_BASE, **({"Hkv": 2} if grouped(setup) else {})} if multi else BASE
    fixed = dict(setup.sizes)
    rows = []
    for name, change, needed in MULTI if multi else SDPA:
        size = {**base, **change}
        if grouped(setup):
            size |= {"H": 6, "Hkv": 3} if name.startswith("another") else {"H": 4, "Hkv": 2}
        if not grouped(setup):
            size["Hkv"] = size["H"]
        if multi and "H" in fixed:
            size["H"] = fixed["H"]
            size["Hkv"] = fixed.get("Hkv", size["Hkv"] if grouped(setup) else size["H"])
        if multi and "D" in fixed:
            size["dk"] = fixed["D"] // size["H"]
        size |= {k: v for k, v in fixed.items() if k in size}
        size["D"] = fixed.get("D", size["H"] * size["dk"])
        size.setdefault("dv", size["dk"])
        rows.append((name, size, needed))
    return rows


def unequal_needed(setup: Setup) -> bool:
    """Whether different numbers of queries and keys are part of the task."""
    return setup.unequal or (setup.task != "sdpa" and bool(setup.uses & {"mem", "K"}) and not setup.causal)


def self_only(setup: Setup) -> bool:
    """Whether the call has one source, so that queries and keys are equally long: attend(x), attend(Q, Q, Q)."""
    if setup.task == "sdpa":
        return bool(setup.uses & {"Q", "q"}) and not setup.uses & {"K", "k"}
    return not setup.uses & {"mem", "K"}


def probes(setup: Setup) -> list[Case]:
    """All probes for one way of calling: plain sizes, then the hard numbers."""
    cases: list[Case] = []
    both = bool(setup.uses & MASKS) and "causal" in setup.uses and setup.mask != "none"
    for seed, (name, size, needed) in enumerate(size_table(setup)):
        if size["T"] != size["S"] and self_only(setup):
            continue
        needed = needed or (name == "T_q < T_k" and unequal_needed(setup))
        masked, causal = not both or seed % 2 == 0, not both or seed % 2 == 1
        cases.append(build(setup, name, size, seed, needed=needed, causal=causal, masked=masked))
        if both and seed < 3:  # code may refuse both at once
            cases.append(build(setup, f"{name}, masked and causal", size, seed, needed=False, causal=True, masked=True))
    size = size_table(setup)[0][1]
    if setup.uses & {"mask", "src_mask", "tgt_mask"} and setup.mask != "none":
        if setup.optional:
            cases.append(build(setup, "no mask", size, 20, needed=False, causal=True, masked=False))
        cases.append(build(setup, "huge scores, masked", size, 21, masked=True, causal=not both, scale=HUGE))
        if "causal" in setup.uses:
            cases.append(build(setup, "mask, not causal", size, 22, masked=True, causal=False))
    elif "lengths" in setup.uses or setup.causal or "causal" in setup.uses:
        cases.append(build(setup, "huge scores, masked", size, 21, masked=True, causal=True, scale=HUGE))
    if "lengths" in setup.uses and "causal" in setup.uses and setup.optional:
        cases.append(without_lengths(build(setup, "no lengths", size, 27, needed=False, causal=True)))
    if "causal" in setup.uses:
        cases.append(build(setup, "not causal", size, 23, needed=False, masked=False, causal=False))
    cases.append(build(setup, "very large scores", size, 24, needed=False, masked=False, causal=True, scale=45.0))
    if setup.task == "sdpa":
        cases.append(
            build(setup, "long", {**size, "B": 2, "T": 150, "S": 150}, 25, needed=False, masked=False, causal=True)
        )
    return cases


def without_lengths(case: Case) -> Case:
    """The same probe with None for the lengths."""
    case.names["lengths"] = case.context["lengths"] = None
    return case


def draw_mask(rng: Draw, form: str, size: dict[str, int]) -> Any:
    """A random boolean mask of these axes; key 0 is always visible, and something is always hidden.

    Padding masks hide the end of each sample, by different lengths.
    """
    letters = {"b": size["B"], "h": size["H"], "q": size["T"], "k": size["S"], "1": 1}
    shape = tuple(letters[letter] for letter in form)
    if "q" not in form:
        lengths = draw_lengths(size)
        kept = np.arange(size["S"]) < lengths[:, None]
        return kept.reshape(shape) if "b" in form else kept[0].reshape(shape)
    keep = rng.random(shape) < 0.55
    keep[..., 0] = True
    hidden = rng.integers(1, max(2, size["S"]), shape[:-1])
    if size["S"] > 1:
        np.put_along_axis(keep, hidden[..., None], False, axis=-1)
    return keep


def draw_lengths(size: dict[str, int]) -> Any:
    """Different lengths, the longest one full, the shortest at least 1: 3 of 7, 7 of 7, 5 of 7 ..."""
    steps = np.array([max(1, size["S"] // 2), size["S"], max(1, size["S"] - 2), max(1, size["S"] - 1)])
    return np.resize(steps, size["B"]).astype(np.int64)


def as_given(keep: Any, setup: Setup) -> Any:
    """A keep mask in the learner's convention and type."""
    if keep is None:
        return None
    if setup.mask == "add":
        return np.where(keep, 0.0, -np.inf)
    value = ~keep if setup.mask == "hide" else keep
    return value.astype({"bool": np.bool_, "float": np.float64, "int": np.int64}[setup.kind])


class Draw:
    """Random numbers, rounded where people are to read them."""

    def __init__(self, seed: int, digits: int | None = None) -> None:
        self.rng, self.digits = np.random.default_rng(seed), digits
        self.random, self.integers = self.rng.random, self.rng.integers

    def standard_normal(self, shape: tuple[int, ...]) -> Any:
        drawn = self.rng.standard_normal(shape)
        return drawn if self.digits is None else np.round(drawn, self.digits)


def build(
    setup: Setup, name: str, size: dict[str, int], seed: int, needed: bool = True, masked: bool = True,
    causal: bool = False, scale: float = 1.0, bias: bool = False, digits: int | None = None,
) -> Case:  # fmt: skip
    """One probe: the names of the call and the context of the reference."""
    rng = Draw(1000 + seed, digits)
    names: dict[str, Any] = {**size, "d": size["dk"], "n": size["T"]}
    uses = setup.uses
    lead = {2: (), 3: (size["B"],), 4: (size["B"], size["H"])}[setup.rank if setup.task == "sdpa" else 3]
    context: dict[str, Any] = {"sizes": size, "given": None, "form": setup.form, "causal": False, "lengths": None}
    context |= {"window": None, "bias": None, "style": "nan", "other": None, "other_form": setup.form, "whole": False}
    if setup.task == "sdpa":
        tensors(rng, names, context, size, lead, scale, setup)
    else:
        sources(rng, names, context, size, scale, setup)
    mask_names = uses & {"mask", "src_mask", "tgt_mask"}
    if mask_names and setup.mask == "lengths":
        names |= dict.fromkeys(mask_names, draw_lengths(size))
        context["lengths"] = draw_lengths(size)
    elif mask_names and setup.mask != "none":
        give_masks(rng, names, context, size, setup, mask_names, masked, bias)
    if "lengths" in uses:
        names["lengths"] = context["lengths"] = draw_lengths(size)
    if "window" in uses:
        names["window"] = context["window"] = 3
    if "causal" in uses:
        names["causal"] = causal
    context["causal"] = bool(setup.causal or "window" in uses or ("causal" in uses and causal))
    return Case(name, names, context, needed)


def tensors(rng: Any, names: Any, context: Any, size: Any, lead: Any, scale: Any, setup: Any) -> None:
    groups = (size["B"], size["Hkv"]) if setup.rank == 4 and grouped(setup) else lead
    q, k = rng.standard_normal((*lead, size["T"], size["dk"])), rng.standard_normal((*groups, size["S"], size["dk"]))
    v = rng.standard_normal((*groups, size["S"], size["dv"]))
    q, k = q * scale, k * scale
    if scale == HUGE:  # visible scores far below zero in some rows, far above in others
        q[..., 0] = 60.0 * (-1.0) ** np.arange(size["T"])
        k[..., 0] = 5.0 * np.sqrt(size["dk"])
    if scale > 20 and size["T"] > 1:
        q[..., 0, :] *= 1e-7
    names |= {"Q": q, "K": k, "V": v, "q": q, "k": k, "v": v}
    k = q if self_only(setup) else k
    v = v if setup.uses & {"V", "v"} or setup.variant == "weights" else k
    context |= {"q": q, "k": k, "v": v, "x": q}
    if "x" in setup.uses and "Q" not in setup.uses:
        names["x"] = q
        context |= {"q": q, "k": q, "v": q}


def shared_part(rng: Draw, names: dict[str, Any], size: dict[str, int]) -> Any:
    """A vector [D] that, added to every token, moves a head's scores by about 300, in some head downwards."""
    for _ in range(50):
        u = rng.standard_normal((size["D"],))
        q = (u @ names["Wq"]).reshape(size["H"], -1)
        k = np.repeat((u @ names["Wk"]).reshape(size["Hkv"], -1), size["H"] // size["Hkv"], 0)
        offsets = (q * k).sum(-1) / np.sqrt(size["dk"])
        if offsets.min() < -0.5 * np.abs(offsets).max():
            return u * np.sqrt(300.0 / np.abs(offsets).max())
    return np.zeros(size["D"])


def sources(rng: Any, names: Any, context: Any, size: Any, scale: Any, setup: Any) -> None:
    batch, wide = size["B"], size["D"]
    x, mem = rng.standard_normal((batch, size["T"], wide)), rng.standard_normal((batch, size["S"], wide))
    other = rng.standard_normal((batch, size["S"], wide))
    shrink = 1.3 / np.sqrt(wide)
    inner, small = size["H"] * size["dk"], size["Hkv"] * size["dk"]
    for name, shape in (("Wq", (wide, inner)), ("Wk", (wide, small)), ("Wv", (wide, small)), ("Wo", (inner, wide))):
        names[name] = rng.standard_normal(shape) * shrink
    if scale == HUGE:
        common = shared_part(rng, names, size)
        x, mem = 3.0 * x + common, 3.0 * mem + common
    elif scale != 1.0:
        x, mem = x * scale, mem * scale
    names |= {"x": x, "mem": mem, "Q": x, "K": mem, "V": other, "d": wide}
    names["Wqkv"] = np.concatenate([names["Wq"], names["Wk"], names["Wv"]], axis=1)
    uses = setup.uses
    keys = mem if uses & {"mem", "K"} else x
    queries_used = "x" in uses or "Q" in uses
    context |= {"x": x if queries_used else mem, "y_k": keys, "y_v": other if "V" in uses else keys}
    context |= {"wq": names["Wq"], "wk": names["Wk"], "wv": names["Wv"], "wo": names["Wo"]}
    context |= {"heads": size["H"], "groups": size["Hkv"]}
    if setup.variant == "no weights":  # the call has none: heads are split and joined only
        same = np.eye(wide)
        context |= {"wq": same, "wk": same, "wv": same, "wo": None}


def give_masks(
    rng: Any, names: Any, context: Any, size: Any, setup: Any, mask_names: Any, masked: Any, bias: Any
) -> None:
    """The mask of the keys as `mask` or `src_mask`, that of the target as the other one."""
    drawn = draw_mask(rng, setup.form, size)
    keep = drawn if masked else None if setup.optional else np.ones_like(drawn)
    main = "src_mask" if "src_mask" in mask_names else ("mask" if "mask" in mask_names else "tgt_mask")
    context["given"] = keep
    for name in mask_names:
        names[name] = as_given(keep, setup)
    target = {**size, "S": size["T"]}
    if "tgt_mask" in mask_names and main != "tgt_mask":
        turned = draw_mask(rng, setup.form, target)
        turned = turned[::-1].copy() if masked else None if setup.optional else np.ones_like(turned)
        names["tgt_mask"], context["other"] = as_given(turned, setup), turned
    if bias and keep is not None:
        extra = rng.standard_normal(keep.shape)
        names[main] = names[main] + extra
        context["bias"] = spread(extra, setup.form, setup.rank if setup.task == "sdpa" else 4)
