"""What attention refuses: the argument, the numbers and the fix, before any compute."""

from typing import Any

import pytest
import torch
from torch import Tensor

from formulas.ways import unchecked, unchecked_weights


def zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape)


BAD: dict[str, tuple[tuple[Tensor, Tensor, Tensor], dict[str, Any], str]] = {
    "matrix": ((zeros(3, 4), zeros(3, 4), zeros(3, 4)), {}, r"\[3, 4\].*q\[None, None\]"),
    "batch": ((zeros(2, 1, 3, 4), zeros(3, 1, 3, 4), zeros(3, 1, 3, 4)), {}, r"\[2, 1, 3, 4\].*\[3, 1, 3, 4\].*batch"),
    "width": ((zeros(1, 1, 3, 4), zeros(1, 1, 3, 5), zeros(1, 1, 3, 5)), {}, r"4\].*5\].*width"),
    "heads": ((zeros(1, 4, 3, 4), zeros(1, 3, 3, 4), zeros(1, 3, 3, 4)), {}, "4 heads.* 3;.*multiple"),
    "no heads": ((zeros(1, 4, 3, 4), zeros(1, 0, 3, 4), zeros(1, 0, 3, 4)), {}, "4 heads.* 0;"),
    "values": (
        (zeros(1, 1, 3, 4), zeros(1, 1, 3, 4), zeros(1, 1, 2, 4)),
        {},
        r"v is \[1, 1, 2, 4\].*k is \[1, 1, 3, 4\]",
    ),
    "window": ((zeros(1, 1, 3, 4),) * 3, {"window": 0}, "window is 0.*1 or more"),
    "softcap": ((zeros(1, 1, 3, 4),) * 3, {"softcap": 0.0}, r"softcap is 0\.0.*positive"),
    "dropout": ((zeros(1, 1, 3, 4),) * 3, {"dropout": 1.0}, r"dropout is 1\.0.*\[0, 1\)"),
    "mask of 3": ((zeros(2, 2, 3, 4),) * 3, {"mask": zeros(2, 3, 3).bool()}, r"mask is \[2, 3, 3\].*mask\[:, None\]"),
    "mask size": ((zeros(2, 2, 3, 4),) * 3, {"mask": zeros(4, 3).bool()}, r"mask is \[4, 3\].*\[2, 2, 3, 3\]"),
    "mask scalar": ((zeros(2, 2, 3, 4),) * 3, {"mask": torch.tensor(True)}, r"mask is \[\].*\[2, 2, 3, 3\]"),
    "bias size": ((zeros(2, 2, 3, 4),) * 3, {"bias": zeros(1, 3, 3, 3)}, r"bias is \[1, 3, 3, 3\].*\[2, 2, 3, 3\]"),
    "bias mask": ((zeros(2, 2, 3, 4),) * 3, {"bias": zeros(3, 3).bool()}, "bias is torch.bool.*mask="),
    "positions": (
        (zeros(2, 2, 3, 4),) * 3,
        {"q_positions": torch.arange(4)},
        r"q_positions is \[4\].*\[3\] or \[2, 3\]",
    ),
    "positions of": (
        (zeros(2, 2, 3, 4),) * 3,
        {"k_positions": torch.arange(9).view(3, 3)},
        r"k_positions is \[3, 3\].*\[2, 3\]",
    ),
    "one position": ((zeros(2, 2, 3, 4),) * 3, {"q_positions": torch.tensor(1)}, r"q_positions is \[\].*\[3\]"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_names_the_argument_and_both_numbers(name: str) -> None:
    (q, k, v), options, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        unchecked(q, k, v, **options)
    if name not in ("values", "dropout"):
        with pytest.raises(ValueError, match=message):
            unchecked_weights(q, k, **options)
