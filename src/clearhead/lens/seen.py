"""What a recorder brings home."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from clearhead.lens.aliases import as_theirs
from clearhead.lens.rows import Scores

Recorded = Tensor | Scores


class Seen(Mapping[str, Any]):
    """What was recorded, by full address: the last call's. `calls[t]` holds those of call t.

    An attention's `weights` and `scores` are views (see rows.py), everything else are tensors. By the names of
    TransformerLens (see aliases.py) they can be read too, all as tensors of its shapes. `grads`: gradients by address,
    of what was last run backward, if they were asked for. `bytes`: what all of it holds in memory.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        """names: addresses by other names that they may be read by."""
        self.names = names
        self.calls: list[dict[str, Recorded]] = []
        self.texts: list[dict[str, Tensor]] = []  # of each call: all token ids that a stack had read by then [B, T]
        self.grads: dict[str, Recorded] = {}
        self.bytes = 0

    def keep(self, address: str, value: Recorded, texts: Mapping[str, Tensor]) -> None:
        """Store; an address that comes round again begins a new call."""
        if not self.calls or address in self.calls[-1]:
            self.calls.append({})
            self.texts.append({})
        self.calls[-1][address] = value
        self.texts[-1].update(texts)

    def __getitem__(self, address: str) -> Any:
        if address in self.names:
            return as_theirs(self[self.names[address]])
        for call in reversed(self.calls):
            if address in call:
                return call[address]
        raise KeyError(f"{address} was not recorded; recorded are {', '.join(self) or 'none: run the model first'}")

    def __contains__(self, address: object) -> bool:
        return any(self.names.get(str(address), address) in call for call in self.calls)

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(address for call in self.calls for address in call))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def follow(self, ids: Tensor, stack: str = "decoder", sample: int = 0, samples: int = 1) -> dict[str, Tensor]:
        """What was recorded in a stack on the way to one text, put together over the calls of a generation.

        ids [N]: the text that came out, prompt included. In each call the row is taken that had read its first tokens,
        so that a beam's hypothesis is followed through every reordering. sample: which of `samples` texts that were
        generated together. Tensors come back as [1, ..., N', ...] for the N' tokens that were read, weights and scores
        as [1, H, N', K]. Raises ValueError if no row of a call had read these tokens.
        """
        parts: dict[str, list[Tensor]] = {}
        for call, texts in zip(self.calls, self.texts, strict=True):
            if stack not in texts or texts[stack].shape[1] > len(ids):
                continue
            row = _row(texts[stack], ids, sample, samples)
            for address, value in call.items():
                if address.startswith(f"{stack}.") or address == "logits":
                    one = value.only(slice(row, row + 1)).dense() if isinstance(value, Scores) else value[row : row + 1]
                    parts.setdefault(address, []).append(one)
        return {address: _joined(address, steps) for address, steps in parts.items()}


def _row(texts: Tensor, ids: Tensor, sample: int, samples: int) -> int:
    each = len(texts) // samples
    mine = texts[sample * each : (sample + 1) * each]
    found = (mine == ids[: texts.shape[1]].to(mine.device)).all(1).nonzero()
    if not len(found):
        raise ValueError(
            f"no row of the call with {texts.shape[1]} tokens had read {ids[: texts.shape[1]].tolist()}; "
            "give prompt and output together, and which sample of how many it is"
        )
    return sample * each + int(found[0])


def _joined(address: str, steps: list[Tensor]) -> Tensor:
    """Steps one below the other; what concerns the source only (the keys of cross-attention) stands in the first."""
    site = address.rsplit(".", 1)[-1]
    if site in ("weights", "scores"):
        keys = max(step.shape[-1] for step in steps)
        blank = 0.0 if site == "weights" else -torch.inf
        steps = [torch.nn.functional.pad(step, (0, keys - step.shape[-1]), value=blank) for step in steps]
    return torch.cat(steps, dim=-2)
