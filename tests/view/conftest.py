"""One browser for all pages that are tested."""

from collections.abc import Iterator
from typing import Any

import pytest

from view.browser import launched


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    with launched() as found:
        yield found
