"""Who may attend to whom: boolean tensors, True = may attend, combined with `&`.

Everything derives from positions. A query sees a key if the key's position is at most its own (causal), less than
`window` away (window), and the key is there at all (padding). So no convention about offsets exists to get wrong:
with a cache, with chunks, with padding on the left, the same comparison holds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def causal_mask(q_positions: Int[Tensor, "*#B Q"], k_positions: Int[Tensor, "*#B K"]) -> Bool[Tensor, "*#B Q K"]:
    """A query sees the keys at positions up to its own."""
    return k_positions.unsqueeze(-2) <= q_positions.unsqueeze(-1)


def window_mask(
    q_positions: Int[Tensor, "*#B Q"], k_positions: Int[Tensor, "*#B K"], window: int
) -> Bool[Tensor, "*#B Q K"]:
    """A query sees the keys less than `window` positions away, itself included, on both sides."""
    return (k_positions.unsqueeze(-2) - q_positions.unsqueeze(-1)).abs() < window


def padding_mask(attention_mask: Tensor) -> Bool[Tensor, "B 1 1 K"]:
    """From Hugging Face's `attention_mask` [B, K] (1 = a token, 0 = padding) to keys that may be attended to.

    Raises ValueError unless it is 2-D and holds only 0 and 1.
    """
    if attention_mask.dim() != 2:
        raise ValueError(f"attention_mask has {attention_mask.dim()} dimensions; expected 2: [batch, tokens]")
    if attention_mask.dtype is not torch.bool and not torch.compiler.is_compiling():
        odd = attention_mask[(attention_mask != 0) & (attention_mask != 1)]
        if odd.numel():
            raise ValueError(
                f"attention_mask holds {odd[0].item()}; expected only 1 (a token) and 0 (padding). "
                "A mask of scores to add (0 and -inf) is another thing: pass `mask == 0`"
            )
    return (attention_mask != 0)[:, None, None, :]


def length_mask(lengths: Int[Tensor, "B"], keys: int) -> Bool[Tensor, "B 1 1 K"]:
    """The first `length` keys of each sample may be attended to."""
    return (torch.arange(keys, device=lengths.device) < lengths[:, None])[:, None, None, :]


def cross_mask(q_lengths: Int[Tensor, "B"], k_lengths: Int[Tensor, "B"], queries: int, keys: int) -> Tensor:
    """[B 1 Q K]: the first queries of the target see the first keys of the source; padded queries see nothing."""
    return length_mask(q_lengths, queries).mT & length_mask(k_lengths, keys)


def check_mask(mask: Tensor) -> Tensor:
    """The mask itself if it is boolean; else ValueError that says what was probably meant."""
    if mask.dtype is torch.bool:
        return mask
    if mask.numel() and bool(((mask == 0) | (mask == 1)).all()):
        raise ValueError(
            f"mask is {mask.dtype}, not boolean; it holds only 0 and 1, so you probably mean 1 = may attend: "
            "pass `mask.bool()`; if it came with nn.MultiheadAttention's meaning (1 = ignore), pass `mask == 0`"
        )
    raise ValueError(
        f"mask is {mask.dtype}, not boolean; numbers to add to the scores go to `bias=`; "
        "for a mask of 0 and -inf pass `mask == 0`"
    )


def from_torch_mha(mask: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """From `nn.MultiheadAttention`'s attn_mask or key_padding_mask, where True means "ignore"."""
    return ~check_mask(mask)


def to_torch_mha(mask: Bool[Tensor, "..."]) -> Bool[Tensor, "..."]:
    """To `nn.MultiheadAttention`'s meaning, where True means "ignore"."""
    return ~check_mask(mask)


def draw_mask(mask: Bool[Tensor, "Q K"], queries: Sequence[str], keys: Sequence[str]) -> str:
    """The mask as text on its tokens: one row per query, █ = may attend, · = hidden.

    Raises ValueError if the numbers of tokens are not the mask's.
    """
    check_mask(mask)
    if mask.shape != (len(queries), len(keys)):
        raise ValueError(
            f"mask is {list(mask.shape)}, but there are {len(queries)} queries and {len(keys)} keys to name; "
            "pick one sample and head first: mask[b, h]"
        )
    width = max((len(q) for q in queries), default=0)
    cell = max((len(k) for k in keys), default=1) + 1
    head = " " * width + "".join(f"{k:>{cell}}" for k in keys)
    rows = [
        f"{q:>{width}}" + "".join(f"{'█' if seen else '·':>{cell}}" for seen in row)
        for q, row in zip(queries, mask.tolist(), strict=True)
    ]
    return "\n".join([head, *rows])


@dataclass(frozen=True, eq=False)
class Visible:
    """Which keys each query may see, as a rule: any block of rows can be had without the n x n mask."""

    q_positions: Tensor  # [Q] or [B Q]
    k_positions: Tensor  # [K] or [B K]
    causal: bool = False
    window: int | None = None
    mask: Tensor | None = None  # boolean, broadcasts to [B H Q K]
    q_documents: Tensor | None = None  # [B Q] in a packed row, a token sees its own document only
    k_documents: Tensor | None = None  # [B K]
    aligned: bool = False  # the queries are exactly the last Q of K consecutive positions
    seeing: bool = False  # a look at the mask found some key for every query

    @classmethod
    def last(
        cls,
        queries: int,
        keys: int,
        *,
        causal: bool = False,
        window: int | None = None,
        mask: Tensor | None = None,
        device: torch.device | None = None,
    ) -> "Visible":
        """The usual case: the queries are the last ones of the keys."""
        k_positions = torch.arange(keys, device=device)
        q_positions = torch.arange(keys - queries, keys, device=device)
        return cls(q_positions, k_positions, causal, window, mask, aligned=True)

    @property
    def triangle(self) -> bool:
        """Nothing but a causal square: the fused kernels have a form of their own for it."""
        square = self.q_positions.shape[-1] == self.k_positions.shape[-1]
        return self._later and self.aligned and square and self.mask is None and not self._narrow

    @property
    def complete(self) -> bool:
        """Whether every query certainly sees some key."""
        itself = self.mask is None and self.aligned and self.q_positions.shape[-1] <= self.k_positions.shape[-1]
        return itself or self.seeing

    @property
    def _later(self) -> bool:
        """Whether causality can hide anything: a single last query sees all there is."""
        return self.causal and not (self.aligned and self.q_positions.shape[-1] == 1)

    @property
    def _narrow(self) -> bool:
        """Whether the window can hide anything."""
        farthest = max(self.q_positions.shape[-1], self.k_positions.shape[-1]) - 1
        return self.window is not None and not (self.aligned and self.window > farthest)

    def rows(self, rows: slice = slice(None), keys: slice = slice(None)) -> Tensor | None:
        """[B H rows keys] (or what broadcasts to it) for these queries and keys; None: every key is visible."""
        q, k = self.q_positions[..., rows], self.k_positions[..., keys]
        parts: list[Tensor] = []
        if self._later:
            parts.append(causal_mask(q, k))
        if self._narrow and self.window is not None:
            parts.append(window_mask(q, k, self.window))
        if self.q_documents is not None and self.k_documents is not None:
            parts.append(self.q_documents[..., rows].unsqueeze(-1) == self.k_documents[..., keys].unsqueeze(-2))
        parts = [p.unsqueeze(1) if p.dim() == 3 else p for p in parts]  # [B 1 rows keys] or [rows keys]
        if self.mask is not None:
            mask = self.mask if self.mask.shape[-1] == 1 else self.mask[..., keys]
            parts.append(mask if mask.shape[-2] == 1 else mask[..., rows, :])
        seen = None
        for part in parts:
            seen = part if seen is None else seen & part
        return seen

    def reach(self, rows: slice) -> tuple[int, int, int]:
        """Keys start to stop hold all that these queries can see, and every one of them sees those before `clear`.

        Told from positions that follow each other; else (0, K, 0), which is always true.
        """
        queries, keys = self.q_positions.shape[-1], self.k_positions.shape[-1]
        if not self.aligned or not self.causal:
            return 0, keys, 0
        first, last = (keys - queries + i for i in (rows.start, min(rows.stop, queries) - 1))
        start = 0 if self.window is None else max(0, first - self.window + 1)
        plain = self.mask is None and self.window is None and self.q_documents is None
        return start, last + 1, first + 1 if plain else start

    @property
    def entries(self) -> int:
        """How many numbers the mask has when it is written down: none, one per key, or one per query and key."""
        by_position = self._later or self._narrow or self.q_documents is not None
        if not by_position:
            return 0 if self.mask is None else self.mask.numel()
        batch, heads = (1, 1) if self.mask is None or self.mask.dim() < 4 else self.mask.shape[:2]
        batch = max(batch, self.q_positions.shape[0] if self.q_positions.dim() == 2 else 1)
        return batch * heads * self.q_positions.shape[-1] * self.k_positions.shape[-1]

    def settled(self, limit: int) -> "Visible":
        """The same with its mask worked out once, for many layers to share, if it has at most `limit` entries.

        On a CPU, outside a compiler, it is also looked at once whether every query sees some key.
        """
        if self.triangle or self.entries > limit:
            return self
        mask = self.rows()
        look = mask is not None and mask.device.type == "cpu" and not torch.compiler.is_compiling()
        seeing = mask is None or (look and bool(mask.any(-1).all()))
        return Visible(self.q_positions, self.k_positions, mask=mask, seeing=seeing)
