"""The loop: it learns, repeats itself, and stops at a gradient that is not finite."""

import math
from collections.abc import Iterator
from itertools import repeat

import pytest
import torch
from torch.optim import AdamW, Muon

from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT, Tap
from clearhead.train.drop_heads import DropHeads
from clearhead.train.loop import History, TrainingArguments, train
from clearhead.train.loss import Batch
from clearhead.train.optimizer import Rates, clip, optimizers, set_rates
from clearhead.train.progress import Progress
from clearhead.train.schedule import cosine
from train.test_loss import small


def copying(seed: int) -> Iterator[Batch]:
    chance = torch.Generator().manual_seed(seed)
    while True:
        ids = torch.randint(3, 11, (16, 4), generator=chance)
        yield {"input_ids": ids, "labels": ids}


def run(seed: int, **settings: object) -> tuple[Transformer, History]:
    torch.manual_seed(seed)
    model = small("both").float()
    args = TrainingArguments(steps=60, rates=Rates(adamw=0.01, muon=0.02), schedule=cosine(6, 60), **settings)
    return model, train(model, copying(seed), args)


def test_it_learns_and_counts() -> None:
    model, history = run(0)
    assert len(history.losses) == 60
    assert history.losses[-1] < 0.5 * history.losses[0]
    assert history.tokens == 60 * 16 * 4
    assert history.seconds > 0
    assert not model.training


def test_the_same_seed_gives_the_same_weights() -> None:
    a, b = run(3)[0], run(3)[0]
    c = run(4)[0]
    assert all(torch.equal(p, q) for p, q in zip(a.parameters(), b.parameters(), strict=True))
    assert not all(torch.equal(p, q) for p, q in zip(a.parameters(), c.parameters(), strict=True))


def test_evaluation_happens_when_asked_and_in_eval_mode() -> None:
    modes: list[bool] = []

    def score(model: Transformer) -> float:
        modes.append(model.training)
        return 0.25

    torch.manual_seed(0)
    args = TrainingArguments(steps=7, rates=Rates(), schedule=cosine(1, 7), evaluate_every=3)
    history = train(small("both").float(), copying(0), args, evaluate=score)
    assert history.scores == [(3, 0.25), (6, 0.25)]
    assert modes == [False, False]


def test_muon_moves_the_matrices_inside_layers_and_nothing_else() -> None:
    model = small("both")
    adamw, muon = optimizers(model, Rates(muon=0.02, decay=0.3))
    assert isinstance(adamw, AdamW)
    assert isinstance(muon, Muon)
    inside = {id(p) for g in muon.param_groups for p in g["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in inside}
    assert "encoder.layers.0.self_attention.q.weight" in names
    assert "decoder.layers.0.feed_forward.down.weight" in names
    assert not [name for name in names if "embedding" in name or "norm" in name or name.endswith("bias")]
    everything = [id(p) for mover in (adamw, muon) for g in mover.param_groups for p in g["params"]]
    assert sorted(everything) == sorted(id(p) for p in model.parameters())
    vectors = adamw.param_groups[1]
    assert vectors["weight_decay"] == 0.0
    assert all(p.dim() == 1 for p in vectors["params"])


def test_rates_are_shares_of_each_groups_peak() -> None:
    movers = optimizers(small("both"), Rates(adamw=0.1, muon=0.4))
    set_rates(movers, 0.5)
    assert [g["lr"] for m in movers for g in m.param_groups] == [0.05, 0.05, 0.2]


def test_a_gradient_that_is_not_finite_is_named_with_its_step() -> None:
    model = small("decoder")
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    assert clip(model, 1.0, step=3) == 0.0
    bad = model.get_parameter("decoder.layers.0.self_attention.v.weight")
    assert bad.grad is not None
    bad.grad[0, 0] = math.nan
    with pytest.raises(
        ValueError, match=r"step 3: the gradient is nan, first in decoder\.layers\.0\.self_attention\.v\.weight"
    ):
        clip(model, 1.0, step=3)


def test_clipping_scales_all_gradients_together() -> None:
    model = small("decoder")
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    before = clip(model, 1.0, step=1)
    assert before == pytest.approx(math.sqrt(sum(p.numel() for p in model.parameters())), rel=1e-6)
    after = math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters() if p.grad is not None))
    assert after == pytest.approx(1.0, rel=1e-5)


def test_progress_goes_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(3) as bar:
        for loss in (3.0, 2.0, 1.5):
            bar.show(loss, 1234.0)
    seen = capsys.readouterr()
    assert seen.out == ""
    assert "1.500" in seen.err
    assert "1,234 tokens/s" in seen.err


def test_accumulated_batches_make_one_step() -> None:
    torch.manual_seed(0)
    batch = next(copying(0))
    args = TrainingArguments(steps=2, rates=Rates(), schedule=cosine(1, 2), accumulate=3)
    history = train(small("both").float(), repeat(batch), args)
    assert len(history.losses) == 2
    assert history.tokens == 2 * 3 * 64


def test_drop_heads_zeroes_whole_heads_of_its_part_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    tap = DropHeads({"decoder.*.cross": 0.25})
    heads = torch.ones(500, 4, 3, 5)
    inside = tap.at("decoder").at("0").at("cross")
    dropped = inside("heads", heads)
    flat = dropped.flatten(2)
    assert flat.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert bool((flat == flat[..., :1]).all())
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.05)
    assert inside("q", heads) is heads
    assert tap.at("decoder").at("0").at("self")("heads", heads) is heads
    with pytest.raises(ValueError, match=r"share is 1\.0; it must be in \[0, 1\)"):
        DropHeads({"*": 1.0})


def test_the_tap_of_a_training_hears_the_training_and_nothing_stays_behind() -> None:
    class Silencer(Tap):
        def at(self, name: str) -> Tap:
            return self

        def __call__(self, site, value):
            return value * 0 if site == "logits" else value

    torch.manual_seed(0)
    model = small("both").float()
    args = TrainingArguments(steps=2, rates=Rates(), schedule=cosine(1, 2), tap=Silencer())
    history = train(model, copying(0), args)
    assert history.losses == pytest.approx([math.log(11)] * 2, rel=1e-5)
    assert model.tap is SILENT


def test_after_hears_of_each_step_and_can_end_the_training_which_is_saved() -> None:
    saved: list[int] = []
    args = TrainingArguments(steps=9, rates=Rates(), schedule=cosine(1, 9), save_every=2)
    model = small("both").float()
    history = train(
        model,
        copying(0),
        args,
        save=lambda reached: saved.append(reached.step),
        after=lambda reached, history: len(history.losses) == reached.step == 5,
    )
    assert len(history.losses) == 5
    assert saved == [2, 4, 5]
    assert not model.training
    train(model, copying(0), args, save=lambda reached: saved.append(reached.step))
    assert saved[3:] == [2, 4, 6, 8, 9]
