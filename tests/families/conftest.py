"""The fixture that all tests of foreign folders start from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from truth.homes import HOMES, randomised


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """make("llama", **save): the folder of a tiny random model."""

    def folder(name: str, **save: Any) -> Path:
        randomised(HOMES[name]()).save_pretrained(tmp_path / "m", **save)
        return tmp_path / "m"

    return folder
