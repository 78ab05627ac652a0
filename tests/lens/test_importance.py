"""What a model loses with each head: as single ablations say, whatever is computed at once."""

import pytest
import torch
from torch import Tensor

from clearhead.config import Head
from clearhead.lens import ablate, head_importance
from clearhead.lens.edit import edit
from clearhead.lens.record import record
from clearhead.model.transformer import Transformer
from clearhead.tap import SILENT
from clearhead.text.build import char_tokenizer
from lens.kinds import KINDS, example, spread
from model.test_model_audio import listener, sound
from model.tiny import build, learned_decoder, learned_encoder, post_norm_translator, relative_translator, text


def loop(model: Transformer, given: dict[str, Tensor], place: str, head: int, to: str) -> float:
    """One ablation, the long way."""

    def measured() -> float:
        out = model(**given)
        return float(spread(out) if out.loss is None else out.loss)

    with torch.no_grad():
        plain = measured()
        with edit(model, {f"{place}.heads": ablate([head], to=to)}):
            return measured() - plain


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("to", ["zero", "mean", "resample"])
def test_all_heads_at_once_are_what_each_ablation_gives(name: str, to: str) -> None:
    model, given = example(name)
    metric = spread if model.config.head is None else None
    table = head_importance(model, given, metric=metric, to=to, batch=5)
    attentions, heads = table.axes.values()
    for place, row in zip(attentions, table.values, strict=True):
        there = row[~row.isnan()]
        stack, layer, part = place.split(".")
        form = model.config.stacks[stack].layers[int(layer)]
        look = form.self_attention if part == "self" else form.cross_attention
        assert look is not None
        assert len(there) == look.heads
        wanted = [loop(model, given, place, head, to) for head in range(len(there))]
        assert torch.allclose(there, torch.tensor(wanted, dtype=torch.float64), atol=1e-10)
    assert len(heads) == table.values.shape[1]
    assert table.values.nan_to_num(0).abs().max() > 1e-4


@pytest.mark.parametrize("name", KINDS)
def test_no_trace_is_left(name: str) -> None:
    model, given = example(name)
    model.train()
    modules, before = list(model.modules()), spread(model(**given))
    head_importance(model, given, metric=spread)
    head_importance(model, given, metric=spread, method="gradient")
    assert list(model.modules()) == modules
    assert model.tap is SILENT
    assert all(module.training for module in modules)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(spread(model(**given)), before)


def test_a_head_with_zero_output_weights_has_no_importance() -> None:
    model, given = example("rotary_decoder")
    assert model.decoder is not None
    attention = model.decoder.layers[1].self_attention
    attention.o.weight.data[:, 6:12] = 0  # type: ignore[union-attr]  # head 1, of width 6
    table = head_importance(model, given)
    assert table.values[1, 1].abs() < 1e-12
    assert (table.values[1, [0, 2, 3]].abs() > 1e-5).all()


def test_cross_attention_whose_heads_are_all_that_reads_the_source() -> None:
    model, given = example("relative_translator")
    table = head_importance(model, given, parts=["decoder.*.cross"])
    assert list(table.axes["attention"]) == ["decoder.0.cross", "decoder.1.cross"]
    assert table.values.shape == (2, 6)


def test_layers_before_the_ablated_one_are_not_computed_again() -> None:
    model, given = example("window_decoder")
    with record(model, "*.self.q") as seen:
        head_importance(model, given)
    times = {i: sum(f"decoder.{i}.self.q" in call for call in seen.calls) for i in range(3)}
    assert times == {0: 2, 1: 3, 2: 4}  # the plain run, and one for each layer from its own on


def test_the_encoder_is_not_run_again_for_the_decoder() -> None:
    model, given = example("post_norm_translator")
    with record(model, ["encoder.final", "decoder.final"]) as seen:
        head_importance(model, given)
    counts = [sum(address in call for call in seen.calls) for address in ("encoder.final", "decoder.final")]
    assert counts == [3, 7]


def test_inside_an_edit_it_is_the_edited_models_heads_that_count() -> None:
    model, given = example("window_decoder")
    plain = head_importance(model, given).values
    with edit(model, {"decoder.0.feed_forward.out": ablate()}):
        table = head_importance(model, given)
        assert table.values[1, 2].item() == pytest.approx(loop(model, given, "decoder.1.self", 2, "zero"), abs=1e-10)
    assert (table.values - plain).abs().max() > 1e-3
    assert torch.equal(head_importance(model, given).values, plain)


def test_packed_documents_and_given_encoder_states() -> None:
    model = build(learned_decoder())
    packed = {"input_ids": text(2, 7), "positions": torch.tensor([0, 1, 2, 0, 1, 2, 3])}
    value = head_importance(model, packed, batch=4).values[1, 2].item()
    assert value == pytest.approx(loop(model, {**packed, "labels": packed["input_ids"]}, "decoder.1.self", 2, "zero"))
    model, given = example("post_norm_translator")
    whole = head_importance(model, given, parts="decoder.*")
    with torch.no_grad():
        states = model.encode(given.pop("input_ids"), given["attention_mask"])
    beside = head_importance(model, {**given, "encoder_hidden": states})
    assert beside.axes == whole.axes
    assert torch.allclose(beside.values, whole.values, atol=1e-12)
    with pytest.raises(ValueError, match=r"encoder\.0\.self\.heads is not computed: encoder_hidden is given"):
        head_importance(model, {**given, "encoder_hidden": states}, parts="encoder.*")


def test_without_labels_a_decoder_predicts_its_own_text() -> None:
    model = build(learned_decoder())
    ids = text(2, 9)
    assert torch.equal(
        head_importance(model, ids).values, head_importance(model, {"input_ids": ids, "labels": ids}).values
    )


def test_a_pair_of_ids_is_a_source_and_its_target() -> None:
    model = build(relative_translator())
    source, target = text(2, 7, 31), text(2, 6)
    by_hand = {"input_ids": source, "labels": target}
    pair, wanted = head_importance(model, (source, target)).values, head_importance(model, by_hand).values
    assert torch.allclose(pair, wanted, equal_nan=True)


def test_texts_are_read_by_the_models_tokenizer_and_padding_costs_nothing() -> None:
    model = build(post_norm_translator())
    model.tokenizer = char_tokenizer(["abcdefgh"])
    pair = head_importance(model, (["abc", "fedcba"], ["ab", "gh"]))
    assert pair.values.shape == (6, 3)
    alone = head_importance(model, ("abc", "ab"))
    labels = {**model.tokenizer("abc"), "labels": model.tokenizer("ab")["input_ids"]}
    assert torch.allclose(alone.values, head_importance(model, labels).values)


def test_the_gradient_is_the_effect_where_the_way_to_the_metric_is_straight() -> None:
    model, given = example("sinusoidal_decoder")  # without a final norm
    assert model.decoder is not None
    model.decoder.layers[1].feed_forward.down.weight.data.zero_()  # type: ignore[union-attr]

    def logit(out):
        return out.logits[0, -1, 5] - out.logits[1, 3, 7]

    last = {"parts": "decoder.1.self", "metric": logit}
    exact = head_importance(model, given, **last)
    assert torch.allclose(head_importance(model, given, method="gradient", **last).values, exact.values, atol=1e-10)
    assert exact.values.abs().min() > 1e-3
    frozen = model.requires_grad_(False)
    assert torch.allclose(head_importance(frozen, given, method="gradient", **last).values, exact.values, atol=1e-10)


def test_the_table_is_plain_and_says_what_it_holds() -> None:
    model, given = example("learned_decoder")
    said = head_importance(model, given).to_dict()
    assert said["axes"] == {"attention": ["decoder.0.self", "decoder.1.self"], "head": ["0", "1", "2"]}
    assert said["loss"] == pytest.approx(model(**given).loss.item())
    assert "loss with the head ablated minus loss as it is" in said["note"]


def test_bad_input_is_a_plain_error() -> None:
    model, given = example("learned_encoder")
    with pytest.raises(ValueError, match="without a metric the loss is measured, which needs labels"):
        head_importance(build(learned_encoder()), text(1, 5))
    with pytest.raises(ValueError, match=r"the metric gave \[2, 7, 41\]; it must give one number"):
        head_importance(model, given, metric=lambda out: out.logits)  # type: ignore[arg-type,return-value]
    with pytest.raises(ValueError, match=r"no address matches '\*\.cross\.heads'"):
        head_importance(model, given, parts="*.cross")
    with pytest.raises(ValueError, match="to='nothing'; there are zero"):
        head_importance(model, given, to="nothing")
    with pytest.raises(ValueError, match="a number without a gradient"):
        head_importance(model, given, metric=lambda out: 1.0, method="gradient")
    with pytest.raises(ValueError, match="batch is 0"):
        head_importance(model, given, batch=0)
    assert isinstance(model.config.head, Head)


def test_a_model_that_hears() -> None:
    model = build(listener())
    given = {"input_features": sound(), "decoder_input_ids": text(2, 6), "labels": text(2, 6, seed=2)}
    table = head_importance(model, given)
    assert table.values.shape == (6, 3)
    for row, place in ((0, "encoder.0.self"), (5, "decoder.1.cross")):
        wanted = [loop(model, given, place, head, "zero") for head in range(3)]
        assert table.values[row].tolist() == pytest.approx(wanted, abs=1e-10)


def test_nothing_is_written_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    model, given = example("window_decoder")
    head_importance(model, given, progress=False)
    assert capsys.readouterr() == ("", "")
    head_importance(model, given)
    assert capsys.readouterr().out == ""
