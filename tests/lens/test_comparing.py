"""Heads of two models side by side."""

import pytest
import torch

from clearhead.lens import compare_heads
from clearhead.lens.record import record
from clearhead.model.transformer import Transformer
from clearhead.text.build import char_tokenizer
from lens.kinds import KINDS, example
from model.test_model_audio import listener, sound
from model.tiny import build, learned_decoder, learned_encoder, rotary_decoder, text


@pytest.mark.parametrize("name", KINDS)
def test_a_model_agrees_with_itself(name: str) -> None:
    model, given = example(name)
    table = compare_heads(model, model, given)
    assert torch.allclose(table.values.diag(), torch.ones(len(table.values), dtype=torch.float64))
    assert torch.allclose(table.values, table.values.T, equal_nan=True)
    assert table.values.nan_to_num(0).min() >= 0
    assert table.more["match"] == {label: label for label in table.axes["a"]}


def test_agreement_is_one_minus_total_variation_over_the_tokens_that_are_there() -> None:
    a, given = example("learned_decoder")
    b = build(rotary_decoder())
    table = compare_heads(a, b, given)
    with record(a, "*.weights") as ours, record(b, "*.weights") as theirs, torch.no_grad():
        a(**given)
        b(**given)
    x, y = ours["decoder.1.self.weights"].dense()[:, 2], theirs["decoder.0.self.weights"].dense()[:, 3]
    variation = (x - y).abs().sum(-1) / 2
    want = 1 - variation[given["attention_mask"] == 1].mean()
    place = [*table.axes["a"]].index("decoder.1.self head 2"), [*table.axes["b"]].index("decoder.0.self head 3")
    assert float(table.values[place]) == pytest.approx(float(want), abs=1e-10)


def test_blocks_of_rows_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = example("window_decoder")
    whole = compare_heads(model, model, given).values
    monkeypatch.setattr("clearhead.lens.comparing.ROOM", 1)
    assert torch.allclose(compare_heads(model, model, given).values, whole, atol=1e-12)


def permuted(order: list[int]) -> tuple[Transformer, Transformer]:
    """A model, and the same with its heads in layer 1 in another order."""
    pair = build(learned_decoder()), build(learned_decoder())
    assert pair[1].decoder is not None
    attention = pair[1].decoder.layers[1].self_attention
    for matrix in (attention.q, attention.k, attention.v):  # type: ignore[union-attr]
        for value in (matrix.weight, matrix.bias):
            value.data = value.data.unflatten(0, (3, -1))[order].flatten(0, 1)
    weight = attention.o.weight  # type: ignore[union-attr]
    weight.data = weight.data.unflatten(1, (3, -1))[:, order].flatten(1)
    return pair


def test_heads_that_changed_places_are_found() -> None:
    a, b = permuted([2, 0, 1])
    ids = text(2, 12)
    with torch.no_grad():
        assert torch.allclose(a(ids).logits, b(ids).logits)
    match = compare_heads(a, b, ids).more["match"]
    assert [match[f"decoder.1.self head {head}"] for head in range(3)] == [
        f"decoder.1.self head {place}" for place in (1, 2, 0)
    ]
    assert match["decoder.0.self head 2"] == "decoder.0.self head 2"


def test_models_of_one_stack_are_compared_whichever_it_is() -> None:
    table = compare_heads(build(learned_encoder()), build(learned_decoder()), text(2, 6))
    assert table.axes["a"][0] == "encoder.0.self head 0"
    assert table.axes["b"][0] == "decoder.0.self head 0"
    assert not table.values.isnan().any()


def test_self_is_not_compared_with_cross_nor_reader_with_writer() -> None:
    model, given = example("relative_translator")
    table = compare_heads(model, model, given)
    kinds = [(label.split(".")[0], label.split(".")[2].split()[0]) for label in table.axes["a"]]
    for i, a in enumerate(kinds):
        for j, b in enumerate(kinds):
            assert bool(table.values[i, j].isnan()) == (a != b)
    across = compare_heads(model, model, given, parts="*.cross")
    assert across.values.shape == (12, 12)


def test_texts_that_the_models_read_as_unlike_numbers_of_tokens_raise() -> None:
    a, b = build(learned_encoder()), build(learned_decoder())
    a.tokenizer, b.tokenizer = char_tokenizer(["abcdef"], eos=True), char_tokenizer(["abcdef"])
    with pytest.raises(
        ValueError, match=r"encoder\.self \[1, 5, 5\] against decoder\.self \[1, 4, 4\]; give both the same"
    ):
        compare_heads(a, b, "abcd")


def test_models_that_hear() -> None:
    given = {"input_features": sound(), "decoder_input_ids": text(2, 6)}
    table = compare_heads(build(listener()), build(listener()), given)
    assert torch.allclose(table.values.diag(), torch.ones(18, dtype=torch.float64))
