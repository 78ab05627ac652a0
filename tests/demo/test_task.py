"""The demo's data: what each kind of model is fed and asked."""

import numpy as np
import pytest
import torch

from clearhead.demo.numbers import split
from clearhead.demo.task import BEGIN, END, IGNORED, NOISE, SIZE, Task

DRAWN = np.array([347, 21, 600_001])


def test_translation_labels_are_pieces_and_an_end() -> None:
    task = Task()
    batch = task.batch(DRAWN)
    assert set(batch) == {"input_ids", "attention_mask", "labels"}
    assert task.tokenizer.pieces(batch["labels"][0]) == ["drei", "hundert", "sieben", "und", "vierzig", "</s>"]
    assert batch["labels"][1].tolist()[-2:] == [IGNORED] * 2
    assert task.tokenizer.pieces(batch["input_ids"][1], target=False)[:3] == ["twenty", "one", "</s>"]


def test_training_feeds_wrong_pieces_but_asks_for_the_right_ones() -> None:
    task = Task()
    rng = np.random.default_rng(0)
    drawn = np.arange(1000, 3000)
    clean, noisy = task.batch(drawn), task.lesson(drawn, rng)
    assert torch.equal(clean["labels"], noisy["labels"])
    fed = noisy["decoder_input_ids"]
    assert bool((fed[:, 0] == BEGIN).all())
    right = torch.cat([torch.full_like(fed[:, :1], BEGIN), clean["labels"][:, :-1]], dim=1)
    real = right != IGNORED
    real[:, 0] = False
    changed = (fed != right)[real].float().mean().item()
    assert changed == pytest.approx(NOISE["pieces"], abs=0.02)


def test_a_language_model_is_fed_wrong_pieces_in_the_target_only() -> None:
    task = Task(kind="lm")
    drawn = np.arange(1000, 3000)
    clean, noisy = task.batch(drawn), task.lesson(drawn, np.random.default_rng(0))
    assert torch.equal(clean["labels"], noisy["labels"])
    target = clean["labels"] != IGNORED
    changed = clean["input_ids"] != noisy["input_ids"]
    assert not changed[~target].any()
    assert changed[target].float().mean().item() == pytest.approx(NOISE["pieces"], abs=0.02)


def test_letters_are_spelled_out() -> None:
    task = Task(units="letters")
    batch = task.batch(DRAWN)
    assert "".join(task.tokenizer.pieces(batch["labels"][0])[:-1]) == "dreihundertsiebenundvierzig"


@pytest.mark.parametrize("to", ["de", "fr"])
def test_a_language_model_is_asked_for_the_target_and_the_end_only(to) -> None:
    task = Task(kind="lm", to=to)
    batch = task.batch(DRAWN)
    row, labels = batch["input_ids"][0], batch["labels"][0]
    asked = labels != IGNORED
    assert torch.equal(labels[asked], row[asked])
    expected = {"de": "dreihundertsiebenundvierzig", "fr": "trois cent quarante-sept"}[to]
    assert task.tokenizer.decode(row[asked]) == expected
    assert row[asked][-1] == END
    assert task.tokenizer.decode(row) == f"three hundred and forty-seven = {expected}"


def test_an_encoder_sees_masks_where_it_is_asked() -> None:
    task = Task(kind="encoder")
    every = task.batch(DRAWN)
    asked = every["labels"] != IGNORED
    assert bool((every["input_ids"][asked] == task.tokenizer.mask).all())
    assert task.tokenizer.decode(every["labels"][0][asked[0]]) == "dreihundertsiebenundvierzig"
    some = task.lesson(np.full(400, 347), np.random.default_rng(0))
    shares = (some["labels"] != IGNORED).sum(1) / 5
    assert shares.mean().item() == pytest.approx(0.5, abs=0.05)
    assert shares.min() == 0.0
    assert shares.max() == 1.0


def test_the_stream_holds_training_numbers_only_in_batches_of_like_length() -> None:
    task = Task()
    stream = task.stream(seed=0)
    batches = [next(stream) for _ in range(8)]
    assert {len(b["labels"]) for b in batches} == {SIZE}
    written = [task.tokenizer.decode(row[row >= 0]) for b in batches for row in b["labels"]]
    from clearhead.demo.spell import spell

    train = {spell(int(n), "de") for n in np.flatnonzero(split(np.arange(1_000_000)) == "train")}
    assert set(written) <= train
    again = next(task.stream(seed=0))
    assert all(torch.equal(again[name], batches[0][name]) for name in again)
    padded = np.mean([(b["labels"] == IGNORED).float().mean().item() for b in batches])
    assert padded < 0.1


def test_configs_are_the_stated_sizes() -> None:
    from clearhead.model.transformer import Transformer

    sizes = {}
    for kind in ("translation", "lm", "encoder"):
        model = Transformer(Task(kind=kind).config())
        sizes[kind] = (model.encoder is not None, model.decoder is not None)
    assert sizes == {"translation": (True, True), "lm": (False, True), "encoder": (True, False)}
    model = Transformer(Task().config())
    assert sum(p.numel() for p in model.parameters()) == 124_131
    assert Task().config("none").encoder.positions is None
    assert Task().config("none").decoder.positions is not None


def test_letters_are_for_translation_only() -> None:
    with pytest.raises(ValueError, match="kind='lm' works on pieces; letters are for kind='translation'"):
        Task(kind="lm", units="letters")
