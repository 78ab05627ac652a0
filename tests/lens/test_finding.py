"""Heads made by hand are found, each for what it does, and no other."""

import pytest
import torch

from clearhead.lens import find_heads
from clearhead.lens.record import record
from clearhead.text.build import char_tokenizer
from lens.kinds import KINDS, example, handmade
from model.test_model_audio import listener, sound
from model.tiny import build, learned_decoder, post_norm_translator, text

MADE = {
    "previous": [("0.self", 0)],
    "induction": [("1.self", 0)],
    "duplicate": [("2.self", 0)],
    "sink": [("1.self", 1)],
    "self": [("0.self", 1)],
}


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_heads_made_by_hand_are_found_and_nothing_else(side: str) -> None:
    table = find_heads(handmade(side), length=20)
    found = {kind: [head[:2] for head in heads] for kind, heads in table.more["found"].items()}
    assert found == {kind: [(f"{side}.{place}", head) for place, head in heads] for kind, heads in MADE.items()} | {
        "alignment": []
    }
    assert table.values[..., 5].isnan().all()  # nothing to align


def test_an_induction_head_looks_back_with_all_its_weight() -> None:
    table = find_heads(handmade("decoder"), length=20)
    scores = table.values[..., list(table.axes["kind"]).index("induction")]
    assert scores[1, 0] > 0.99
    scores[1, 0] = 0
    assert scores.max() < 0.1


def test_heads_that_align_are_found_across() -> None:
    table = find_heads(handmade("both"), length=12)
    found = [head[:2] for head in table.more["found"]["alignment"]]
    assert found == [(f"decoder.{layer}.cross", 0) for layer in range(3)]
    across = [place.endswith("cross") for place in table.axes["attention"]]
    assert table.values[across][..., 0].isnan().all()  # there is no token before, across
    assert not table.values[across][..., 5].isnan().any()
    first = [head[:2] for head in table.more["found"]["previous"]]
    assert first == [("encoder.0.self", 0), ("decoder.0.self", 0)]


@pytest.mark.parametrize("name", KINDS)
def test_scores_are_the_means_of_dense_weights(name: str) -> None:
    model, given = example(name)
    given.pop("labels", None)
    given["input_ids"] = torch.tensor([[5, 6, 7, 5, 6, 9, 5], [8, 8, 4, 8, 4, 0, 0]])
    table = find_heads(model, given)
    with record(model, "*.weights") as seen, torch.no_grad():
        model(**given)
    for place, scores in zip(table.axes["attention"], table.values, strict=True):
        w = seen[f"{place}.weights"].dense()
        stack = place.split(".")[0]
        ids = seen.texts[-1][stack]
        mask = given["attention_mask"] if ids.shape == (2, 7) else torch.ones_like(ids)
        if place.endswith("self"):
            want = by_hand(w, ids, mask)
            assert torch.allclose(scores[: w.shape[1], :5], want, atol=1e-9, equal_nan=True)
        else:
            first = torch.stack([w[b, :, i, 0] for b, i in mask.nonzero().tolist()])
            assert torch.allclose(scores[: w.shape[1], 3], first.mean(0), atol=1e-9)


def by_hand(w: torch.Tensor, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Previous, induction, duplicate, sink and self of each head, [H 5], with loops over all."""
    totals, counts = torch.zeros(w.shape[1], 5, dtype=w.dtype), torch.zeros(5)
    for b in range(len(w)):
        for i in range(1, int(mask[b].sum())):
            before = [j for j in range(i) if ids[b, j] == ids[b, i]]
            looked = [w[b, :, i, i - 1], None, None, w[b, :, i, 0], w[b, :, i, i]]
            if before:
                looked[1] = sum(w[b, :, i, j + 1] for j in before if j + 1 < i)
                looked[2] = sum(w[b, :, i, j] for j in before)
            for kind, value in enumerate(looked):
                if value is not None:
                    totals[:, kind] += value
                    counts[kind] += 1
    return totals / counts


def test_the_probe_repeats_and_holds_no_special_token() -> None:
    model = build(post_norm_translator())
    model.tokenizer = char_tokenizer(["abcdefghijklmnop"])  # fewer than the table has rows
    with record(model, "*.weights") as seen:
        find_heads(model, length=9, samples=3)
    read = seen.texts[-1]
    source, target = read["encoder"], read["decoder"]
    assert source.shape == (3, 19)
    assert torch.equal(source[:, :9], source[:, 9:18])
    assert (source[:, 18] == 2).all()  # what ends a source
    assert torch.equal(target[:, 1:], source[:, :17])
    assert (target[:, 0] == 1).all()
    assert all(model.tokenizer.decode([i]) for i in source[:, :18].flatten().tolist())
    assert all(len(set(row[:9])) == 9 for row in source.tolist())


@pytest.mark.parametrize("name", KINDS)
def test_a_probe_can_be_drawn_for_every_kind_of_model(name: str) -> None:
    model = build(KINDS[name](), torch.bfloat16)
    table = find_heads(model, length=7, samples=2)
    known = table.values[~table.values.isnan()]
    assert known.min() >= 0
    assert known.max() <= 1.01
    for place, kinds in zip(table.axes["attention"], (~table.values[:, 0].isnan()).tolist(), strict=True):
        across = place.endswith("cross")
        assert kinds == [not across, not across, not across, True, not across, across]


def test_the_same_seed_draws_the_same_probe() -> None:
    model = build(learned_decoder())
    a, b, c = (find_heads(model, length=8, seed=seed).values for seed in (0, 0, 1))
    assert torch.equal(a.nan_to_num(), b.nan_to_num())
    assert not torch.equal(a.nan_to_num(), c.nan_to_num())


def test_padding_counts_nothing() -> None:
    model = build(learned_decoder())
    ids = text(1, 8)
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.int64), ids], dim=1)
    mask = torch.tensor([[0] * 3 + [1] * 8])
    alone, beside = find_heads(model, ids), find_heads(model, {"input_ids": padded, "attention_mask": mask})
    assert torch.allclose(alone.values, beside.values, atol=1e-9, equal_nan=True)


def test_the_padding_of_a_target_counts_nothing_either() -> None:
    model = build(post_norm_translator())
    model.tokenizer = char_tokenizer(["abcdefgh"])
    both, long, short = (
        find_heads(model, (["abc"] * len(t), t)).values for t in (["abcdef", "gh"], ["abcdef"], ["gh"])
    )
    previous = long[2, :, 0] * 5 / 6 + short[2, :, 0] / 6  # of decoder.0.self; the first query has none before it
    assert torch.allclose(both[2, :, 0], previous)


def test_texts_that_are_too_long_or_odd_raise() -> None:
    with pytest.raises(ValueError, match="the text has 100 tokens, but the position table has 48 rows"):
        find_heads(build(learned_decoder()), length=50)
    with pytest.raises(ValueError, match="length is 1 and samples 4"):
        find_heads(build(learned_decoder()), length=1)


def test_a_model_that_hears_needs_a_sound() -> None:
    model = build(listener())
    with pytest.raises(ValueError, match="this model hears sound, for which no probe can be drawn"):
        find_heads(model)
    table = find_heads(model, {"input_features": sound(), "decoder_input_ids": text(2, 6)})
    reader = table.values[0, 0].isnan().tolist()
    assert reader == [False, True, True, False, False, True]  # sound has no tokens that could come again
