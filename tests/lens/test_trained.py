"""What the questions say of a small translator that was trained to spell numbers."""

import pytest
import torch

from clearhead.demo.numbers import gold
from clearhead.demo.spell import spell
from clearhead.families.load import load
from clearhead.lens import alignment_error, saliency
from truth.trained import END, WORDS, trained, unseen

pytestmark = pytest.mark.slow


def test_it_has_a_head_that_aligns_and_rests_on_the_word_that_it_translates() -> None:
    model = load(trained("marian"))
    numbers = unseen(20).tolist()
    pairs = [tuple(torch.tensor([*WORDS.encode(spell(n, side)), END]) for side in ("en", "de")) for n in numbers]
    sure = [[(word + 1, t) for t, word in enumerate(gold(n, "de")) if word is not None] for n in numbers]  # after bos
    found = alignment_error(model, pairs, sure)
    assert found.values.min() < 0.2 < 0.6 < found.values.max()
    hits = total = 0
    for pair, links in zip(pairs, sure, strict=True):
        for source, target in links:
            lost = saliency(model, pair, int(pair[1][target + 1]), position=target, method="occlusion", progress=False)
            hits += int(lost.values[: len(pair[0])].argmax()) == source
            total += 1
    assert hits / total > 0.8
