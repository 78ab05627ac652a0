"""How many cores a page may use."""

from collections.abc import Generator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Generator[None]:
    """Torch on one core, and as before afterwards.

    A lesson's matrices are so small that handing parts of them to other threads takes longer than the sums: on a busy
    machine 1.8 seconds instead of 0.01 for the topic `order`.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
