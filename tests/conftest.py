"""What every test runs under: shapes checked, hypothesis repeatable, few threads."""

import os

import pytest
import torch
from hypothesis import settings
from jaxtyping import install_import_hook

# The hook rewrites functions at import, which a fullgraph compile cannot follow: tests/compiled run without it.
if os.environ.get("CLEARHEAD_SHAPE_CHECKS") != "off":
    install_import_hook("clearhead.formulas", "beartype.beartype")

settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50)
settings.load_profile("repeatable")


torch.set_num_threads(1)  # tiny tensors: a second thread only waits, on a busy machine for very long


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
