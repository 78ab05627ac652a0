"""A learned table: one row of numbers per id, position, segment or bucket."""

from torch import nn


class Table(nn.Embedding):
    """ids [...] -> rows [..., width]. Its numbers are drawn in init.py, not when it is made."""

    def reset_parameters(self) -> None:
        pass
