"""Questions that need the model: the logit lens, heads taken out, another text, one more token.

Whatever runs in a model is heard by its recorders, so only one question runs it at a time.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.config import Head
from clearhead.lens.edit import edit
from clearhead.lens.edits import ablate
from clearhead.lens.inputs import writes_beside
from clearhead.model.transformer import Transformer
from clearhead.view.pooling import block, step_of
from clearhead.view.reading import Part, Reading, run
from clearhead.view.spelling import spelled

LOCK = threading.Lock()
TOP = 5  # tokens that are named
ROWS = 128  # queries of which it is said how much a head's weights moved
HOW = ("zero", "mean")  # what a head that is taken out is replaced by


@dataclass(frozen=True)
class Out:
    """A head that is taken out."""

    stack: str  # "encoder", "decoder" or "cross"
    layer: int
    head: int
    how: str  # one of HOW

    @property
    def address(self) -> str:
        part = "cross" if self.stack == "cross" else "self"
        return f"{'decoder' if part == 'cross' else self.stack}.{self.layer}.{part}.heads"


@contextmanager
def alone(going: Callable[[], None]) -> Generator[None]:
    """Within the block nobody else runs the model; who waits can still be stopped."""
    while not LOCK.acquire(timeout=0.05):
        going()
    try:
        with torch.no_grad():
            yield
    finally:
        LOCK.release()


def abilities(model: Transformer | None) -> dict[str, Any]:
    """Which questions can be asked: stacks of the logit lens; ablation, another text, one more token."""
    if model is None:
        return {"lens": [], "ablate": False, "look": False, "step": False}
    names = isinstance(model.config.head, Head)
    hears = any(stack.audio is not None for stack in model.config.stacks.values())
    writes = names and (model.config.encoder is None or writes_beside(model))
    return {
        "lens": [last_of(model)] if names else [],
        "ablate": names,
        "look": model.tokenizer is not None and not hears,
        "step": writes,
    }


def last_of(model: Transformer) -> str:
    """The stack below the head."""
    return [*model.config.stacks][-1]


def lens(model: Transformer, reading: Reading, query: int) -> list[dict[str, Any]]:
    """What the model would say at a place if it ended after each layer (nostalgebraist 2020): its own final norm and
    head on every residual. Of the token that really follows, the rank (1 = likeliest) and the probability.
    """
    norm, follows, found = model.last.norm_out, reading.follows[query], list[dict[str, Any]]()
    for i, state in enumerate(reading.residuals):
        logits = _said(model, norm(state[query][None, None])[0])[0]
        rank = None if follows is None else int((logits > logits[follows]).sum()) + 1
        p = logits.softmax(-1)
        layer = "embed" if i == 0 else i - 1
        found.append({"layer": layer, "top": top_of(model, p, 3), "rank": rank, "p": _at(p, follows)})
    return found


def without(
    model: Transformer, reading: Reading, known: Tensor, heads: Sequence[Out], query: int, going: Callable[[], None]
) -> tuple[dict[str, Any], Tensor]:
    """What the model says without some heads, and by how much the log-probability of each token that really follows
    changes from those `known`, [T] (NaN where none does).
    """
    with ExitStack() as changes:
        for how in HOW:
            chosen = [head for head in heads if head.how == how]
            places = {out.address: [o.head for o in chosen if o.address == out.address] for out in chosen}
            if places:
                changes.enter_context(edit(model, {a: ablate(heads=some, to=how) for a, some in places.items()}))
        changed = run(model, reading.given, None, going) if heads else reading
    assert reading.hidden is not None
    assert changed.hidden is not None
    before, after = (
        _said(model, r[query][None])[0].cpu().double().log_softmax(-1) for r in (reading.hidden, changed.hidden)
    )
    kl = float((before.exp() * (before - after)).nan_to_num(0.0).sum()) / math.log(2)  # bits
    head = {"before": top_of(model, before.exp(), TOP), "after": top_of(model, after.exp(), TOP)}
    head |= {"kl": kl if math.isfinite(kl) else None, "moved": _moved(reading.parts, changed.parts, going)}
    head |= {"target": _target(model, reading.follows[query], before.exp(), after.exp())}
    return head, log_probabilities(model, changed, reading.follows, going) - known


def _target(model: Transformer, follows: int | None, before: Tensor, after: Tensor) -> dict[str, Any] | None:
    """The probability of the token that really follows."""
    if follows is None:
        return None
    (token,) = spelled(model, torch.tensor([follows]), last_of(model))
    return {"token": token, "id": follows, "before": float(before[follows]), "after": float(after[follows])}


def _moved(before: Sequence[Part], after: Sequence[Part], going: Callable[[], None]) -> dict[str, list[list[float]]]:
    """How far each head's weights moved: the total variation of a row, its mean over at most ROWS queries."""
    found: dict[str, list[list[float]]] = {}
    for was, now in zip(before, after, strict=True):
        rows = slice(None, None, step_of(len(was.queries), ROWS))
        layers: list[list[float]] = []
        for a, b in zip(was.layers, now.layers, strict=True):
            going()
            pairs = [(block(a, h, rows), block(b, h, rows)) for h in range(a.shape[1])] if a is not b else []
            layers.append([float((x - y).abs().sum(-1).mean() / 2) for x, y in pairs] or [0.0] * a.shape[1])
        found[was.name] = layers
    return found


def log_probabilities(
    model: Transformer, reading: Reading, follows: Sequence[int | None], going: Callable[[], None]
) -> Tensor:
    """[T] of the tokens that really follow, a few positions at a time: all logits would be T x V."""
    assert reading.hidden is not None
    ids = torch.tensor([-1 if i is None else i for i in follows], device=reading.hidden.device)
    found: list[Tensor] = []
    for some, states in zip(ids.split(ROWS), reading.hidden.split(ROWS), strict=True):
        going()
        p = _said(model, states).log_softmax(-1).gather(-1, some.clamp(min=0)[:, None])[:, 0]
        found.append(p.masked_fill(some < 0, torch.nan))
    return torch.cat(found).cpu()


def next_token(model: Transformer, reading: Reading) -> tuple[int, list[dict[str, Any]]]:
    """The likeliest next token, and the first few of them."""
    assert reading.hidden is not None
    p = _said(model, reading.hidden[-1:])[0].softmax(-1)
    return int(p.argmax()), top_of(model, p, TOP)


def longer(model: Transformer, reading: Reading, token: int, going: Callable[[], None]) -> Reading:
    """The reading of the same text with one more token."""
    given = dict(reading.given)
    which = "decoder_" if writes_beside(model) else ""
    ids, mask = f"{which}input_ids", f"{which}attention_mask"
    given[ids] = torch.nn.functional.pad(given[ids], (0, 1), value=token)
    if given.get(mask) is not None:
        given[mask] = torch.nn.functional.pad(given[mask], (0, 1), value=1)
    return run(model, given, None, going)


def top_of(model: Transformer, p: Tensor, count: int) -> list[dict[str, Any]]:
    """The likeliest tokens of probabilities [V]."""
    values, ids = p.topk(min(count, len(p)))
    tokens = spelled(model, ids, last_of(model))
    return [
        {"token": token, "id": i, "p": value}
        for token, i, value in zip(tokens, ids.tolist(), values.tolist(), strict=True)
    ]


def _said(model: Transformer, states: Tensor) -> Tensor:
    """Logits [T V] of last states [T D], in float32 or wider."""
    assert model.head is not None
    logits: Tensor = model.head(states[None], model.last.table)[0]
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _at(p: Tensor, i: int | None) -> float | None:
    return None if i is None else float(p[i])
