"""Texts to vectors."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.config import Pool, TextEmbedding
from clearhead.model.inputs import Text, check
from clearhead.model.task import check_candidates, pooled
from clearhead.model.transformer import Transformer


@torch.no_grad()
def embed(
    model: Transformer,
    texts: str | Sequence[str],
    *,
    pool: Pool | None = None,
    normalise: bool = False,
    batch_size: int = 32,
) -> Tensor:
    """One vector for each of B texts (one if a plain string), [B, D], in the type and on the device of the model.

    By the model's own head, as sentence encoders have one; or, where `pool` is given, from the last states of the
    encoder (of the decoder if there is none), pooled so (see config.TextClassifier). normalise: to length 1, which
    many heads do anyway. No text is cut: sentence-transformers cuts at its max_seq_length.

    Raises ValueError for a model without tokenizer, without such a head if no `pool` is given, and for a text that the
    model cannot read.
    """
    rows = [texts] if isinstance(texts, str) else list(texts)
    if model.tokenizer is None:
        raise ValueError("the model has no tokenizer to read texts with; load one, or call model(input_ids).embedding")
    if not rows or batch_size < 1:
        raise ValueError(f"there are {len(rows)} texts and batch_size is {batch_size}; both must be at least 1")
    if pool is None and not isinstance(model.config.head, TextEmbedding):
        raise ValueError("the model has no head that gives one vector; say how to pool its states, such as pool='mean'")
    device = next(model.parameters()).device
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))  # texts of like length waste little padding
    found: dict[int, Tensor] = {}
    for start in range(0, len(rows), batch_size):
        chunk = order[start : start + batch_size]
        batch = model.tokenizer([rows[i] for i in chunk])
        vectors = _vectors(model, batch["input_ids"].to(device), batch["attention_mask"].to(device), pool)
        found |= zip(chunk, F.normalize(vectors, dim=-1) if normalise else vectors, strict=True)
    return torch.stack([found[i] for i in range(len(rows))])


def _vectors(model: Transformer, ids: Tensor, mask: Tensor, kind: Pool | None) -> Tensor:
    if kind is None:
        found = model(ids, mask).embedding
        assert found is not None
        return found
    text = Text("input_ids", ids, mask)
    check(text, (model.encoder or model.last).form)
    check_candidates(text, kind, model.config)
    if model.encoder is not None:
        hidden = model.encode(ids, mask)
    else:  # not the whole model: a head for tokens would fill memory with logits that nobody reads
        hidden = model.last(text, tap=model.tap.text("decoder", ids, None).at("decoder"))
    return pooled(hidden, text, kind, model.config)
