"""Rotary positions and windows as config.json states them, in the new form (rope_parameters) and the old ones."""

from typing import Any

from clearhead.config import Bands, Linear, LongRope, Rotary, Yarn
from clearhead.families.family import Settings
from clearhead.formulas.position import longrope_factor

LOCAL, FULL = "sliding_attention", "full_attention"
OLD_THETA = {FULL: "rope_theta", LOCAL: "rope_local_base_freq"}  # keys, where layers of the two kinds differ


def rotary(
    settings: Settings, theta: float = 10000.0, fraction: float = 1.0, kind: str = FULL, trained: int | None = None
) -> Rotary:
    """The rotary part of the layers of this kind.

    theta, fraction: the family's defaults. trained: how many positions there were before the scaling, where that
    stands elsewhere than in the scaling. Raises ValueError for a scaling without a formula.
    """
    new: dict[str, Any] = settings.get("rope_parameters", {})
    given: dict[str, Any] = new.get(kind, new)
    old_theta, old_scaling = settings.get(OLD_THETA[kind], theta), settings.get("rope_scaling", {})
    most = settings.get("max_position_embeddings", 2048)
    return Rotary(
        theta=given.get("rope_theta", old_theta),
        fraction=given.get("partial_rotary_factor", fraction),
        scaling=_scaling(given or (old_scaling if kind == FULL else {}), most, trained),
    )


def _scaling(s: dict[str, Any], most: int, trained: int | None) -> Linear | Bands | Yarn | LongRope | None:
    """`most`: positions that may be used; `trained`: see above."""
    name = s.get("rope_type", s.get("type", "default"))
    length = trained or s.get("original_max_position_embeddings") or most
    if name == "default":
        return None
    if name == "linear":
        return Linear(factor=s["factor"])
    if name == "llama3":
        return Bands(factor=s["factor"], low=s["low_freq_factor"], high=s["high_freq_factor"], length=length)
    if "short_factor" in s:  # longrope, which older files call su or yarn
        stretch = longrope_factor(s.get("factor") or most / length, length)
        return LongRope(
            short=tuple(s["short_factor"]),
            long=tuple(s["long_factor"]),
            length=length,
            attention_factor=s.get("attention_factor") or stretch,
        )
    if name == "yarn" and not {"mscale", "mscale_all_dim"} & {key for key, value in s.items() if value}:
        return Yarn(
            factor=s["factor"],
            length=length,
            fast=s.get("beta_fast") or 32.0,
            slow=s.get("beta_slow") or 1.0,
            attention_factor=s.get("attention_factor"),
            truncate=s.get("truncate", True),
        )
    raise ValueError(
        f"config.json scales rotary positions by {s}; known are default, linear, llama3, yarn and longrope"
    )


def windows(settings: Settings, count: int, default: list[str]) -> list[int | None]:
    """The window of each of `count` layers, None where a layer sees everything; `default`: the kinds of layers.

    Raises ValueError for another kind of layer.
    """
    window = settings.optional("sliding_window", 4096)
    return [window if kind == LOCAL else None for kind in layer_kinds(settings, count, default)]


def layer_kinds(settings: Settings, count: int, default: list[str]) -> list[str]:
    """LOCAL or FULL for each of `count` layers. Raises ValueError for another kind, or another number of them."""
    kinds: list[str] = settings.get("layer_types", default)
    if len(kinds) != count or not set(kinds) <= {LOCAL, FULL}:
        raise ValueError(f"config.json has layer_types {kinds}; expected {count} of {LOCAL}, {FULL}")
    return kinds
