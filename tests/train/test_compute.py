"""How a step is computed does not change what it computes."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from clearhead.lens.record import record
from clearhead.model.transformer import Transformer
from clearhead.tap import Tap
from clearhead.train.compute import check_compiler, layers_as
from clearhead.train.loop import TrainingArguments, aside, backward, train
from clearhead.train.loss import IGNORED, Batch
from clearhead.train.optimizer import Rates
from clearhead.train.schedule import cosine
from train.test_loop import copying
from train.test_loss import small


def batch(rows: int = 4, tokens: int = 7) -> Batch:
    ids = torch.randint(3, 11, (2, rows, tokens))
    keep = torch.arange(tokens) < torch.randint(2, tokens + 1, (2, rows, 1))
    labels = ids[1].masked_fill(~keep[1], IGNORED)
    return {"input_ids": ids[0].masked_fill(~keep[0], 0), "attention_mask": keep[0].long(), "labels": labels}


def gradients(model: Transformer, batches: list[Batch]) -> dict[str, Tensor]:
    model.zero_grad()
    backward(model, batches, smoothing=0.1)
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def furthest(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    assert a.keys() == b.keys()
    return max(float((a[name] - b[name]).abs().max()) for name in a)


def test_layers_computed_again_give_the_same_gradients_also_with_dropout() -> None:
    model, given = small("both").train(), batch()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.3
    torch.manual_seed(5)
    kept = gradients(model, [given])
    torch.manual_seed(5)
    with layers_as(model, compiled=False, again=True):
        again = gradients(model, [given])
    assert furthest(kept, again) == 0.0
    torch.manual_seed(6)
    assert furthest(kept, gradients(model, [given])) > 0.0


def test_num_08_any_padding_or_split_gives_the_same_gradients() -> None:
    model, given = small("both"), batch(rows=6)
    whole = gradients(model, [given])
    wider = {
        "input_ids": torch.nn.functional.pad(given["input_ids"], (0, 3)),
        "attention_mask": torch.nn.functional.pad(given["attention_mask"], (0, 3)),
        "labels": torch.nn.functional.pad(given["labels"], (0, 5), value=IGNORED),
    }
    assert furthest(whole, gradients(model, [wider])) < 1e-13
    for cuts in ([1, 5], [2, 2, 2], [1] * 6):
        parts = {name: value.split(cuts) for name, value in given.items()}
        split = [{name: value[i] for name, value in parts.items()} for i in range(len(cuts))]
        assert furthest(whole, gradients(model, split)) < 1e-13


def test_the_head_sees_only_the_places_where_something_is_asked() -> None:
    shapes: list[tuple[int, ...]] = []

    class Shapes(Tap):
        def __call__(self, site, value):
            shapes.append(tuple(value.shape))
            return value

    model, given = small("both"), batch()
    backward(model, [given], tap=Shapes())
    assert shapes[-1] == (int((given["labels"] != IGNORED).sum()), 11)


def test_a_recorder_hears_a_training_step() -> None:
    model, given = small("both"), batch()
    expected = model(**given).hidden
    with record(model, ["decoder.final", "decoder.0.cross.weights"]) as seen:
        backward(model, [given])
    assert expected is not None
    assert torch.equal(seen["decoder.final"], expected)
    assert seen["decoder.0.cross.weights"].dense().shape == (4, 2, 7, 7)


def test_bf16_keeps_weights_and_gradients_in_float32_and_learns_as_well() -> None:
    losses: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        torch.manual_seed(0)
        model = small("both").float()
        args = TrainingArguments(steps=60, rates=Rates(adamw=0.01, muon=0.02), schedule=cosine(6, 60), dtype=dtype)
        losses[dtype] = train(model, copying(0), args).losses[-1]
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert losses["bfloat16"] != losses["float32"]
    assert losses["bfloat16"] == pytest.approx(losses["float32"], abs=0.1)


def test_without_a_compiler_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(ValueError, match=r"there is no C\+\+ compiler; install g\+\+ or clang\+\+, or set compile"):
        check_compiler("cpu")


def test_patience_ends_the_training_after_so_many_worse_scores() -> None:
    scores: Iterator[float] = iter([3.0, 2.0, 2.5, 2.0, 1.0])
    saved: list[int] = []
    args = TrainingArguments(steps=20, rates=Rates(), schedule=cosine(2, 20), evaluate_every=2, patience=2)
    history = train(
        small("both").float(),
        copying(0),
        args,
        evaluate=lambda model: next(scores),
        save=lambda reached: saved.append(reached.step),
    )
    assert history.scores == [(2, 3.0), (4, 2.0), (6, 2.5), (8, 2.0)]
    assert len(history.losses) == 8
    assert saved == [8]


def test_evaluation_leaves_no_trace_in_the_random_numbers() -> None:
    def run(every: int) -> list[float]:
        torch.manual_seed(0)
        model = small("both").float()
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.3
        args = TrainingArguments(steps=6, rates=Rates(), schedule=cosine(2, 6), evaluate_every=every)
        return train(model, copying(0), args, evaluate=lambda model: float(torch.rand(()))).losses

    assert run(2) == run(0)


def test_a_look_sees_the_layers_as_they_are_written() -> None:
    model = small("both")
    layer = model.decoder.layers[0]
    with layers_as(model, compiled=False, again=True):
        held = layer.forward
        with aside(model) as complete:
            assert complete is model
            assert "forward" not in vars(layer)
            assert not model.training
        assert layer.forward is held
        assert model.training
    assert "forward" not in vars(layer)
