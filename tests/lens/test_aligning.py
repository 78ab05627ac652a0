"""Alignment by cross-attention: one built by hand is read off it, and a worked example of the error rate."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from clearhead.config import Attention, FeedForward, Layer, Stack, TransformerConfig
from clearhead.demo.score import cross_weights
from clearhead.demo.spell import spell
from clearhead.demo.task import Task
from clearhead.lens import alignment, alignment_error, error_rate
from clearhead.lens.edit import edit
from clearhead.lens.edits import patch
from clearhead.lens.record import record
from clearhead.model.transformer import Transformer
from clearhead.text.build import bytes_tokenizer, word_tokenizer
from clearhead.text.pair import Pair
from lens.random_models import KINDS, PAIR, both, made

WORDS = {"the": "das", "old": "alte", "house": "haus", "is": "ist"}
SOURCE, TARGET = torch.tensor([3, 4, 5, 6]), torch.tensor([9, 10, 11])


@pytest.fixture
def translator() -> Transformer:
    """Head 1 of layer 1 looks from a target word at the next word's source, so that it stands where it is written."""
    look = Attention(heads=2, head_dim=16)
    reader = Layer(self_attention=look, feed_forward=FeedForward(dim=4))
    writer = replace(reader, self_attention=replace(look, causal=True), cross_attention=look)
    source = word_tokenizer([" ".join(WORDS)], eos=True)
    target = word_tokenizer([" ".join(WORDS.values())], bos=True, eos=True)
    size = max(len(source), len(target))
    config = TransformerConfig(
        dim=16,
        encoder=Stack(layers=(reader,) * 2, vocab=size),
        decoder=Stack(layers=(writer,) * 2, vocab=size),
        pad=0,
        bos=1,
        eos=2,
    )
    model = Transformer(config).eval()
    model.tokenizer = Pair(source, target)
    order = target.encode("das alte haus ist")  # bos das alte haus ist eos: each asks for what comes next
    asks = torch.zeros(16, 16)
    for now, coming in pairwise(order):
        asks[coming, now] = 30.0
    meant = torch.zeros(16, 16)
    for english, german in WORDS.items():
        meant[target.encode(german)[1], source.encode(english)[0]] = 1.0
    meant[target.eos, source.eos] = 1.0
    with torch.no_grad():
        for stack in (model.encoder, model.decoder):
            stack.embedding.weight.copy_(torch.eye(size, 16))
            for layer in stack.layers:
                layer.self_attention.o.weight.zero_()
                layer.feed_forward.down.weight.zero_()
        for layer in model.decoder.layers:
            layer.cross_attention.o.weight.zero_()
        cross = model.decoder.layers[1].cross_attention
        cross.q.weight[16:], cross.k.weight[16:] = asks, meant
    return model


def test_a_head_built_by_hand_gives_its_links(translator: Transformer) -> None:
    found = alignment(translator, "the old house is", "das alte haus ist", layer=1, head=1)
    assert found.axes["source"] == ["the", "old", "house", "is", "</s>"]
    assert found.axes["target"] == ["das", "alte", "haus", "ist", "</s>"]
    assert found.more["links"] == [(0, 0), (1, 1), (2, 2), (3, 3)]
    assert (found.values.diag() > 0.9).all()
    assert torch.allclose(found.values.sum(1), torch.ones(5))
    moved = alignment(translator, "old the is", "das alte haus", layer=1, head=1)
    assert moved.more["links"][:2] == [(1, 0), (0, 1)]


def test_the_best_head_is_found_by_its_error_rate(translator: Transformer) -> None:
    pairs = [("the old house is", "das alte haus ist"), ("old the house", "das alte haus")]
    gold = [[(0, 0), (1, 1), (2, 2), (3, 3)], [(1, 0), (0, 1), (2, 2)]]
    found = alignment_error(translator, pairs, gold)
    assert found.values.shape == (2, 2)
    assert found.more["best"] == [1, 1]
    assert float(found.values[1, 1]) == 0.0
    other = [alignment(translator, *pair, layer=0, head=1).more["links"] for pair in pairs]
    links, right = ([(n, *link) for n, one in enumerate(all_of) for link in one] for all_of in (other, gold))
    assert float(found.values[0, 1]) == pytest.approx(error_rate(links, right))
    with pytest.raises(ValueError, match="sure has 1 entries, but there are 2 pairs"):
        alignment_error(translator, pairs, gold[:1])


def test_the_mean_is_over_the_heads_of_a_layer_or_of_all() -> None:
    model = made(KINDS["t5"])
    with record(model, "*.cross.weights") as seen:
        model(SOURCE[None], decoder_input_ids=torch.tensor([[1, 9, 10]]))
    layers = [seen[f"decoder.{i}.cross.weights"].dense()[0].mean(0) for i in range(2)]
    assert torch.allclose(alignment(model, SOURCE, TARGET, layer=1).values, layers[1], atol=1e-6)
    assert torch.allclose(alignment(model, SOURCE, TARGET).values, sum(layers) / 2, atol=1e-6)
    one = seen["decoder.0.cross.weights"].dense()[0, 3]
    assert torch.allclose(alignment(model, SOURCE, TARGET, layer=0, head=3).values, one, atol=1e-6)


def test_row_t_is_the_query_that_writes_target_token_t() -> None:
    task = Task()
    size = max(len(task.tokenizer.source), len(task.tokenizer.target))
    model = made(both(vocab=size))
    model.tokenizer = task.tokenizer
    weights = cross_weights(model, task, np.array([47]))[0]  # [L*H Q K]
    for layer, head in ((0, 2), (1, 3)):
        found = alignment(model, spell(47, "en"), spell(47, "de"), layer=layer, head=head)
        assert torch.allclose(found.values, weights[4 * layer + head], atol=1e-6)


def test_words_gather_their_tokens() -> None:
    model = made(both(vocab=300))
    model.tokenizer = bytes_tokenizer(eos=True)
    source, target = "ab  c", "x yz"
    whole = alignment(model, source, target, layer=0, head=1).values
    found = alignment(model, source, target, layer=0, head=1, words=True)
    assert found.axes == {"target": ["x", "yz"], "source": ["ab", "c"]}
    assert whole.shape == (5, 6)
    columns = torch.stack([whole[:, 0] + whole[:, 1], whole[:, 4]], dim=1)
    assert torch.allclose(found.values, torch.stack([columns[0], (columns[2] + columns[3]) / 2]), atol=1e-6)
    assert found.more["links"] == [(int(row.argmax()), t) for t, row in enumerate(found.values)]
    rates = alignment_error(model, [(source, target)], [found.more["links"]], words=True)
    assert float(rates.values[0, 1]) == 0.0
    with pytest.raises(ValueError, match="words=True needs texts"):
        alignment(model, SOURCE, TARGET, words=True)


def test_ins_11_both_axes_carry_their_own_tokens_and_edits_show() -> None:
    model = made(both())
    pattern = torch.eye(4)[[2, 0, 3]]
    with edit(model, {"decoder.0.cross.weights": patch(pattern)}):
        found = alignment(model, SOURCE, TARGET, layer=0, head=2)
    assert found.axes["target"] == ["9", "10", "11"]
    assert found.axes["source"] == ["3", "4", "5", "6"]
    assert torch.equal(found.values, pattern)
    assert found.more["links"] == [(2, 0), (0, 1), (3, 2)]


def test_the_error_rate_of_a_worked_example() -> None:
    sure, possible = {(0, 0), (1, 1)}, {(1, 1), (2, 1), (2, 2)}
    assert error_rate([(0, 0), (1, 1)], sure, possible) == 0.0
    assert error_rate([(0, 0), (1, 1), (2, 2)], sure, possible) == 0.0
    # A = {(0,0), (2,1), (3,3)}: A and S = 1, A and P = 2, |A| + |S| = 5
    assert error_rate([(0, 0), (2, 1), (3, 3)], sure, possible) == pytest.approx(1 - 3 / 5)
    assert error_rate([], sure) == 1.0
    assert error_rate([(5, 0, 0), (5, 2, 1)], [(5, 0, 0), (6, 0, 0)]) == pytest.approx(1 - 2 / 4)
    with pytest.raises(ValueError, match="both empty"):
        error_rate([], [])


def test_what_is_not_there_is_refused() -> None:
    model = made(both())
    with pytest.raises(ValueError, match="only a decoder beside an encoder has"):
        alignment(made(KINDS["gpt2"]), SOURCE, TARGET)
    with pytest.raises(ValueError, match=r"layer=2, but there are 2 layers \(0 to 1\)"):
        alignment(model, SOURCE, TARGET, layer=2)
    with pytest.raises(ValueError, match=r"head=4, but decoder.1.cross has 4 heads \(0 to 3\)"):
        alignment(model, SOURCE, TARGET, layer=1, head=4)
    with pytest.raises(ValueError, match="head=1 is given without layer"):
        alignment(model, SOURCE, TARGET, head=1)
    with pytest.raises(ValueError, match="one sample at a time"):
        alignment(model, PAIR["input_ids"].expand(2, -1), TARGET)
