"""Optional real data beside the project; tests that need it skip with a reason where it is absent."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CLEARHEAD_SHARED", Path(__file__).parents[2] / "shared"))


def path(name: str) -> Path:
    """`name` inside the shared folder; skips the test if it is not there."""
    found = FOLDER / name
    if not found.exists():
        pytest.skip(f"{name} is not in {FOLDER}; set CLEARHEAD_SHARED to a folder that has it")
    return found
