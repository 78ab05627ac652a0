"""Reads the corpus: files of right code, each followed by the edits that people's mistakes make of it.

A file is right code (any style). Below it, comment lines describe variants:

    #@ scale-missing            the id expected ("right" for other right code); several ids: any of them may be named
    #! --mask keep              flags for this variant (a file's own flags stand in its first line, after "# flags:")
    #- / math.sqrt(d_k)         text to replace (all occurrences); a second "#-" starts the next replacement
    #+ ...                      its replacement (none: deleted); lines of one block are joined with newlines

A file named ..._whole.txt holds whole files instead, each after a line "#= id flags".
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


@dataclass
class Item:
    """One implementation, right or wrong."""

    name: str
    expected: tuple[str, ...]  # empty: right
    text: str
    flags: dict[str, str] = field(default_factory=dict)

    @property
    def task(self) -> str:
        return self.flags.get("kind", "")


def flags_of(line: str) -> dict[str, str]:
    words = shlex.split(line)
    return {words[i].lstrip("-"): words[i + 1] for i in range(0, len(words), 2)}


def blocks(lines: list[str]) -> list[list[str]]:
    """The comment lines of each variant, the id line first."""
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("#@"):
            found.append([line])
        elif found:
            found[-1].append(line)
    return found


def edits(lines: list[str]) -> list[tuple[str, str]]:
    """(old, new) of each replacement of a variant."""
    found: list[tuple[list[str], list[str]]] = []
    last = ""
    for line in lines:
        if line.startswith("#-"):
            if last != "-":
                found.append(([], []))
            found[-1][0].append(line[3:])
        elif line.startswith("#+"):
            found[-1][1].append(line[3:])
        last = line[1:2]
    return [("\n".join(old), "\n".join(new)) for old, new in found]


def wholes(path: Path, text: str) -> list[Item]:
    """The files of a "whole" collection."""
    found: list[Item] = []
    for part in text.split("\n#= "):
        head, _, body = part.removeprefix("#= ").partition("\n")
        expected, _, flags = head.partition(" ")
        name = f"{path.stem}-{expected}-{len(found)}"
        kind = {**flags_of(flags), "kind": path.stem.split("_")[0]}
        found.append(Item(name, () if expected == "right" else tuple(expected.split(",")), body + "\n", kind))
    return found


def read(path: Path) -> list[Item]:
    """The base and its variants, or the whole files."""
    text = path.read_text()
    if path.stem.endswith("_whole"):
        return wholes(path, text)
    base, _, rest = text.partition("\n#@")
    lines = ("#@" + rest).splitlines() if rest else []
    first = base.splitlines()[0]
    common = flags_of(first.split("flags:")[1]) if "flags:" in first else {}
    task = path.stem.split("_")[0]
    items = [Item(path.stem, (), base + "\n", {**common, "kind": task})] if "# not judged" not in first else []
    counts: dict[str, int] = {}
    for block in blocks(lines):
        ids = tuple(block[0][2:].split())
        changed = base
        for old, new in edits(block[1:]):
            if old not in changed:
                raise ValueError(f"{path.name}, {ids}: no text {old!r}")
            changed = changed.replace(old, new)
        own = [flags_of(line[2:]) for line in block if line.startswith("#!")]
        counts[ids[0]] = counts.get(ids[0], 0) + 1
        name = f"{path.stem}-{ids[0]}-{counts[ids[0]]}"
        expected = () if ids == ("right",) else ids
        items.append(Item(name, expected, changed + "\n", {**common, **(own[0] if own else {}), "kind": task}))
    return items


def everything() -> list[Item]:
    return [item for path in sorted(FOLDER.glob("*.txt")) for item in read(path)]
