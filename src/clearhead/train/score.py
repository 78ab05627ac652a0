"""How well a model predicts, or translates, data that it was not trained on."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from clearhead.generation.text import ROOM, translate
from clearhead.model.transformer import Transformer
from clearhead.train.data.batches import Data
from clearhead.train.data.rows import Row
from clearhead.train.loss import IGNORED, moved, smoothed_loss, teach

TOGETHER = 32  # sentences that are translated at once
BEAMS = 4


class Score(NamedTuple):
    """A loss in nats per target token, the number of these, and the share of them that the model thinks likeliest."""

    loss: float
    tokens: int
    accuracy: float

    @property
    def perplexity(self) -> float:
        """Infinite where it is beyond a float."""
        return math.exp(self.loss) if self.loss < 700 else math.inf

    def bits_per_byte(self, text_bytes: int) -> float:
        """The same for every tokenizer: what the tokens cost, over the bytes of UTF-8 that they spell."""
        return self.loss * self.tokens / math.log(2) / text_bytes


def evaluate(model: Transformer, data: Data) -> Score:
    """The loss without smoothing of every target token, each once. The model must be in eval mode."""
    device, total, tokens, right = model.last.table.device, 0.0, 0, 0
    with torch.no_grad():
        for batch in data.whole():
            fed, targets = teach(model.config, moved(batch, device))
            logits = model(**fed).logits
            assert logits is not None, "teach has looked at the head"
            total += float(smoothed_loss(logits, targets))
            tokens += int((targets != IGNORED).sum())
            right += int((logits.argmax(-1) == targets).sum())
    if not tokens:
        raise ValueError("there is no token to predict; give a longer text")
    return Score(total / tokens, tokens, right / tokens)


def translation_scores(
    model: Transformer,
    rows: Iterable[Row],
    most: int | None,
    beams: int = BEAMS,
    languages: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """sacreBLEU (Post 2018) and chrF (Popović 2015) of the model's translations, with the signatures.

    rows: sources and targets; the first `most` of them whose source is not empty are translated, with `beams`
    hypotheses each. languages: options of `translate`. Text is compared as people read it. Raises ValueError for no
    such row, and for texts in pieces of words such as "l@@ i@@ ke", whose score would say nothing.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    chosen = list(islice((row.texts for row in rows if row.texts[0].strip()), most))
    if not chosen:
        raise ValueError("there is no sentence to translate; give some")
    references = [target for _, target in chosen]
    refuse_pieces(references)
    order = sorted(range(len(chosen)), key=lambda i: len(chosen[i][0]))
    written = [""] * len(chosen)
    for i in range(0, len(order), TOGETHER):
        group = order[i : i + TOGETHER]
        room = _room(model, [chosen[j][0] for j in group])
        options: dict[str, Any] = {"num_beams": beams, "max_new_tokens": room, **languages}
        for j, text in zip(group, translate(model, [chosen[j][0] for j in group], **options), strict=True):
            written[j] = text
    refuse_pieces(written)
    bleu, chrf = BLEU(), CHRF()
    found = {"bleu": bleu.corpus_score(written, [references]).score}
    found |= {"chrf": chrf.corpus_score(written, [references]).score}
    signatures = {"bleu_signature": str(bleu.get_signature()), "chrf_signature": str(chrf.get_signature())}
    same = max(Counter(written).values()) / len(written)  # of all sentences, those with the commonest translation
    return {**found, **signatures, "sentences": len(chosen), "num_beams": beams, "identical": same}


def refuse_pieces(texts: list[str]) -> None:
    """ValueError if these are pieces of words, which a scorer would take for words."""
    for number, text in enumerate(texts, 1):
        if re.search(r"\S@@( |$)", text):
            raise ValueError(f"sentence {number} is in pieces of words ({text[:40]!r}); join them before scoring")


def _room(model: Transformer, texts: list[str]) -> int:
    """New tokens: twice the longest source and some, no more than the model has positions for."""
    assert model.tokenizer is not None, "who translates has looked"
    assert model.decoder is not None, "who translates has looked"
    table = model.decoder.form.positions
    limit = ROOM if table is None or table.count is None else min(ROOM, table.count - 1)
    return min(2 * max(len(ids) for ids in model.tokenizer.encode_batch(texts)) + 20, limit)
