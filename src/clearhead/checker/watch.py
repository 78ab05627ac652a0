"""Check again whenever a file is saved."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from clearhead.checker.report import files_of


def stamps(paths: Sequence[str]) -> dict[str, int]:
    """When each file was last written, in nanoseconds; 0 for one that is not there (editors replace files)."""
    return {file: Path(file).stat().st_mtime_ns if Path(file).exists() else 0 for file in files_of(paths)}


def saved(paths: Sequence[str], sleep: Callable[[float], None] = time.sleep) -> Iterator[list[str]]:
    """All files at first, then those that were saved since, without end; a look every half second."""
    seen = stamps(paths)
    yield list(seen)
    while True:
        sleep(0.5)
        now = stamps(paths)
        changed = [file for file, stamp in now.items() if stamp and stamp != seen.get(file)]
        seen = now
        if changed:
            yield changed
