"""Which token comes next: small pure functions on logits [B, V].

They apply in this order, which is Hugging Face's: repetition penalty, forbidden tokens, and then, only to draw a token,
temperature, top-k, top-p, min-p. What a filter drops becomes -inf; every filter leaves at least the best token.
"""

import torch
from torch import Tensor

from clearhead.generation.options import Options
from clearhead.generation.stop import Stop

NEVER = -float("inf")


def repetition_penalty(logits: Tensor, seen: Tensor, penalty: float) -> Tensor:
    """Divide positive and multiply negative logits of the tokens `seen` [B, V] (boolean), once per distinct token.

    Keskar et al. 2019, CTRL, section 4.1; the sign rule is Hugging Face's: a penalty above 1 always lowers.
    """
    return torch.where(seen, torch.where(logits < 0, logits * penalty, logits / penalty), logits)


def seen_tokens(ids: Tensor, keep: Tensor | None, vocab: int) -> Tensor:
    """[B, V] boolean: which tokens stand in ids [B, T]. Where keep [B, T] is False there is padding: not counted."""
    counted = ids if keep is None else ids.masked_fill(~keep, vocab)
    seen = torch.zeros(len(ids), vocab + 1, dtype=torch.bool, device=ids.device)
    return seen.scatter(1, counted, True)[:, :vocab]


def temperature(logits: Tensor, t: float) -> Tensor:
    """Logits / t, t > 0, moved so that the best is 0 (which changes no probability): finite for the smallest t."""
    smallest = torch.finfo(logits.dtype).tiny
    return (logits - logits.amax(-1, keepdim=True)) / max(t, smallest)


def top_k(logits: Tensor, k: int | None) -> Tensor:
    """Keep the k best tokens, and those equal to the last of them. Off for None, k <= 0 and k >= V."""
    if k is None or not 0 < k < logits.shape[-1]:
        return logits
    worst = logits.topk(k).values[..., -1:]
    return logits.masked_fill(logits < worst, NEVER)


def top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest best tokens whose probabilities add up to at least p (Holtzman et al. 2020). Off for p = 1."""
    if p >= 1:
        return logits
    ordered, order = logits.sort(descending=True, stable=True)
    probabilities = ordered.softmax(-1)
    drop = probabilities.cumsum(-1) - probabilities >= p  # the better ones already add up to p
    drop[..., 0] = False
    return logits.masked_fill(drop.scatter(-1, order, drop), NEVER)


def min_p(logits: Tensor, p: float | None) -> Tensor:
    """Keep the tokens at least p times as probable as the best one (Nguyen et al. 2024). Off for None and 0."""
    if not p:
        return logits
    probabilities = logits.softmax(-1)
    return logits.masked_fill(probabilities < p * probabilities.amax(-1, keepdim=True), NEVER)


def adjust(logits: Tensor, options: Options, ids: Tensor, keep: Tensor | None, stop: Stop, written: int) -> Tensor:
    """What greedy choice, sampling and beam search all apply. ids [B, T], keep [B, T]: the texts so far, of which
    `written` tokens are new.
    """
    if stop.forced is not None and not written:
        return torch.full_like(logits, NEVER).index_fill(-1, torch.tensor(stop.forced, device=logits.device), 0.0)
    if options.repetition_penalty != 1:
        seen = seen_tokens(ids, keep, logits.shape[-1])
        logits = repetition_penalty(logits, seen, options.repetition_penalty)
    forbidden = torch.tensor(stop.forbidden(written), dtype=torch.int64, device=logits.device)
    return logits.index_fill(-1, forbidden, NEVER)


def pick(logits: Tensor, options: Options) -> Tensor:
    """One token per row, [B]: the best (the first of equals), or one drawn from what the filters leave."""
    if not options.samples:
        return logits.argmax(-1)
    logits = temperature(logits, options.temperature)
    logits = min_p(top_p(top_k(logits, options.top_k), options.top_p), options.min_p)
    return logits.softmax(-1).multinomial(1, generator=options.generator).squeeze(-1)
