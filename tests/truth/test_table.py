"""The page about families says what the code does."""

import re
from statistics import median

from clearhead.families import known
from truth.table import PAGE, with_table


def test_the_table_is_todays() -> None:
    """If not: python tests/truth/table.py"""
    page = PAGE.read_text("utf-8")
    assert with_table(page) == page


def test_the_page_names_every_family() -> None:
    page = PAGE.read_text("utf-8")
    assert all(f"`{name}`" in page for name in known.FAMILIES)


def test_a_family_is_a_short_file() -> None:
    folder = PAGE.parents[1] / "src" / "clearhead" / "families"
    files = re.findall(r"\b(\w+)\.FAMILY", (folder / "known.py").read_text())
    lengths = [len((folder / f"{name}.py").read_text().splitlines()) for name in files]
    assert len(lengths) == len(known.FAMILIES)
    assert median(lengths) < 80
    assert max(lengths) < 100
