"""film.html: heads as they form over training, one page made of a run's snapshots and its log; nothing is fetched."""

from __future__ import annotations

import base64
import math
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from clearhead.families.store import read_json, read_tensors
from clearhead.train.folder import read_log
from clearhead.train.page import fewer
from clearhead.train.snapshot import SHORT, SNAPSHOTS, address
from clearhead.view.heads import floats
from clearhead.view.html import MAX_MB
from clearhead.view.overview import PATTERNS
from clearhead.view.page import FILM, alone
from clearhead.view.pooling import codes

VERSION = 1  # of what the page is given
FILE = "film.html"
BEGIN = 'startFilm(document.querySelector("#clearhead"));\n'
Said = dict[str, Any]


def write(run: Path, path: Path | None = None, max_mb: float = MAX_MB) -> Path:
    """Write the film of a run, by default into its folder.

    It holds exact weights if `max_mb` (10^6 bytes) has room for them, else weights rounded to one byte, and says so.
    Raises ValueError for a folder without snapshots of sentences of at most 64 tokens, for films that do not fit, and
    for a place that is not there.
    """
    places = sorted((run / SNAPSHOTS).glob("[0-9]*"))
    if not places:
        raise ValueError(f"{run} has no {SNAPSHOTS}; give its recipe watch.probes and watch.probe_steps")
    path = run / FILE if path is None else path
    if not path.resolve().parent.is_dir():
        raise ValueError(f"{path.parent} is no folder; make it first")
    shots = [_read(place) for place in places]
    title, log = f"Heads of {run.resolve().name} over training", read_log(run)
    for exact in (True, False):
        page = alone(title, "film", FILM, BEGIN, given(title, shots, log, exact))
        if len(page.encode()) <= max_mb * 1e6:
            fresh = path.with_name(f".{path.name}.new")
            fresh.write_text(page, encoding="utf-8")
            os.replace(fresh, path)
            return path
    raise ValueError(f"the film takes {len(page.encode()) / 1e6:.1f} MB, max_mb is {max_mb:g}; give more")


def _read(place: Path) -> tuple[Said, dict[str, Tensor]]:
    said = read_json(place / "texts.json")
    if not all("statistics" in text for text in said["texts"]):
        raise ValueError(f"{place} was written by an older version, without statistics; it makes no film")
    return said, read_tensors(place / "heads.safetensors")


def given(title: str, shots: list[tuple[Said, dict[str, Tensor]]], log: list[Said], exact: bool) -> dict[str, Any]:
    """What the page is given: steps, losses, and of each sentence at each step tokens, statistics and weights."""
    held, texts = bytearray(), list[Said]()
    for number, text in enumerate(shots[-1][0]["texts"]):
        frames = [_frame(said["texts"][number], tensors, number, exact, held) for said, tensors in shots]
        if all(frame is not None for frame in frames):
            texts.append({"text": text["text"], "frames": frames})
    if not texts:
        raise ValueError(f"all probes have more than {SHORT} tokens; a film shows shorter ones")
    press = zlib.compressobj(wbits=-15)
    return {
        "version": VERSION,
        "title": title,
        "exact": exact,
        "steps": [said["step"] for said, _ in shots],
        "loss": fewer(_curve(log, "loss")),
        "validation": _curve(log, "validation_loss"),
        "patterns": [*PATTERNS.items()],
        "texts": texts,
        "data": base64.b64encode(press.compress(bytes(held)) + press.flush()).decode(),
    }


def _curve(log: list[Said], name: str) -> list[tuple[float, float]]:
    return [(line["step"], line[name]) for line in log if name in line and math.isfinite(line[name])]


def _frame(said: Said, tensors: Mapping[str, Tensor], number: int, exact: bool, held: bytearray) -> Said | None:
    """One sentence at one step, its weights appended to `held`; None if they were not kept."""
    parts: dict[str, Said] = {}
    for name, patterns in said["patterns"].items():
        weights = [tensors.get(f"{number}.{address(name, layer)}.weights") for layer in range(len(patterns))]
        kept = [one for one in weights if one is not None]
        if len(kept) < len(weights):
            return None
        queries, keys = (said["tokens"][stack] for stack in (("decoder", "encoder") if name == "cross" else [name] * 2))
        parts[name] = {"queries": queries, "keys": keys, "start": len(held), "patterns": patterns}
        parts[name]["statistics"] = said["statistics"][name]
        for one in kept:
            held += floats(one) if exact else codes(one).numpy().tobytes()
    return {"parts": parts}
