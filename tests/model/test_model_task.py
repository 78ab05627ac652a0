"""Heads for labels, answers and vectors: padding, addresses, losses, and what they refuse."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import clearhead
from clearhead.config import (
    AnswerSpan,
    AnyHead,
    Audio,
    Dense,
    Head,
    Stack,
    TextClassifier,
    TextEmbedding,
    TokenClassifier,
    TransformerConfig,
)
from clearhead.generation.generate import generate
from clearhead.model.cache import Cache
from clearhead.model.init import initialise
from clearhead.model.inputs import Text, again
from clearhead.model.transformer import Output, Transformer
from clearhead.tap import Tap, sites
from model.test_model_sites import Notes
from model.tiny import ALL, TRANSLATORS, build, close, text

DENSE = Dense(width=5, activation="tanh")
LABELS = ("no", "yes", "perhaps")
HEADS: dict[str, AnyHead] = {
    **{pool: TextClassifier(labels=LABELS, pool=pool, dense=DENSE) for pool in ("first", "last", "eos", "not_pad")},
    "mean": TextEmbedding(pool="mean", normalise=True),
    "max": TextEmbedding(pool="max", dense=replace(DENSE, norm=True)),
    "tokens": TokenClassifier(labels=LABELS, dense=DENSE),
    "span": AnswerSpan(),
}
KINDS = ["post_norm_translator", "learned_decoder", "learned_encoder", "rotary_encoder"]


def made(kind: str, head: AnyHead) -> TransformerConfig:
    return replace(ALL[kind](), head=head, pad=0, eos=(1, 2), start=2)


def found(out: Output) -> Tensor:
    value = out.embedding if out.logits is None else out.logits
    assert value is not None
    return value


def ended(batch: int, tokens: int) -> Tensor:
    ids = text(batch, tokens, vocab=31)
    ids[:, -2] = 1
    return ids


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", HEADS)
def test_a_padded_batch_answers_as_each_text_does_alone(kind: str, name: str) -> None:
    model, ids = build(made(kind, HEADS[name])), ended(1, 6)
    alone = found(model(ids))
    for before, after in ((0, 3), (3, 0), (2, 1)):
        padded, mask = F.pad(ids, (before, after)), F.pad(torch.ones_like(ids), (before, after))
        both = found(model(torch.cat([padded, ended(1, 9)]), torch.cat([mask, torch.ones(1, 9, dtype=torch.int64)])))
        one = both[:1] if both.dim() == 2 else both[:1, before : before + 6]
        close(one, alone)


def test_a_decoder_beside_an_encoder_reads_the_text_behind_its_start() -> None:
    head = HEADS["last"]
    model, ids = build(made("post_norm_translator", head)), text(2, 5)
    plain = build(made("post_norm_translator", Head()))
    fed = torch.cat([torch.full((2, 1), 2), ids[:, :-1]], dim=1)
    close(model(ids).hidden, plain(ids, decoder_input_ids=fed).hidden)


@pytest.mark.parametrize("name", HEADS)
def test_sites_are_the_addresses_of_a_forward_pass_in_order(name: str) -> None:
    model, notes = build(made("learned_encoder", HEADS[name])), Notes(opened=True)
    out = model(ended(2, 6), tap=notes)
    assert tuple(notes.seen) == sites(model.config)
    head = HEADS[name]
    last = "embedding" if isinstance(head, TextEmbedding) else "logits"
    assert notes.seen[last] is found(out)
    if isinstance(head, TextClassifier | TextEmbedding):
        assert notes.seen["pooled"].shape == (2, 12)
        changed = model(ended(2, 6), tap=Notes(changed="pooled"))
        assert not torch.allclose(found(changed), found(out))


def test_shapes_and_names_of_what_comes_out() -> None:
    shapes = {"first": (2, 3), "tokens": (2, 6, 3), "span": (2, 6, 2), "mean": (2, 12), "max": (2, 5)}
    for name, shape in shapes.items():
        out = build(made("learned_encoder", HEADS[name]))(ended(2, 6))
        assert found(out).shape == shape
        assert (out.start_logits is None) == (name != "span")
        assert (out.embedding is None) == (name not in ("mean", "max"))
    out = build(made("learned_encoder", AnswerSpan()))(ended(2, 6))
    assert torch.equal(torch.stack([out.start_logits, out.end_logits], -1), out.logits)
    vectors = build(made("learned_encoder", HEADS["mean"]))(ended(2, 6)).embedding
    close(vectors.norm(dim=-1), torch.ones(2, dtype=torch.float64))


def model_of(head: AnyHead, kind: str = "learned_encoder") -> Transformer:
    return build(made(kind, head))


def test_losses_of_texts() -> None:
    ids, labels = text(3, 6), torch.tensor([2, -100, 0])
    out = model_of(HEADS["first"])(ids, labels=labels)
    close(out.loss, F.cross_entropy(out.logits[[0, 2]], labels[[0, 2]]))
    numbers = torch.tensor([[0.5, 2.0, -1.0]] * 3)
    out = model_of(TextClassifier(labels=LABELS, pool="first", answer="number"))(ids, labels=numbers)
    close(out.loss, ((out.logits - numbers) ** 2).mean())
    any_of = torch.tensor([[0, 1, 1], [0, 0, 0], [1, 0, 0]])
    out = model_of(TextClassifier(labels=LABELS, pool="first", answer="any"))(ids, labels=any_of)
    p = out.logits.sigmoid()
    close(out.loss, -torch.where(any_of == 1, p, 1 - p).log().mean())
    one = TextClassifier(labels=("score",), pool="first", answer="number")
    close(model_of(one)(ids, labels=numbers[:, 0]).loss, model_of(one)(ids, labels=numbers[:, :1]).loss)


@pytest.mark.parametrize("kind", ["learned_encoder", "learned_decoder", "post_norm_translator"])
def test_labels_of_tokens_stand_where_their_tokens_do(kind: str) -> None:
    ids, labels = text(2, 6), torch.tensor([[0, 1, 2, -100, 0, 1], [-100, -100, 2, 2, 1, 0]])
    out = model_of(HEADS["tokens"], kind)(ids, labels=labels)
    close(out.loss, F.cross_entropy(out.logits[labels != -100], labels[labels != -100]))


def test_the_loss_of_an_answer_does_not_depend_on_padding() -> None:
    model, ids, ends = model_of(AnswerSpan()), text(1, 6), torch.tensor([[1, 4]])
    out = model(ids, labels=ends)
    close(out.loss, (F.cross_entropy(out.start_logits, ends[:, 0]) + F.cross_entropy(out.end_logits, ends[:, 1])) / 2)
    padded, mask = F.pad(ids, (0, 4)), F.pad(torch.ones_like(ids), (0, 4))
    close(model(padded, mask, labels=ends).loss, out.loss)
    close(model(ids, labels=torch.tensor([[1, -100]])).loss, F.cross_entropy(out.start_logits, ends[:, 0]))


IDS, THREE = text(2, 6), torch.zeros(2, 3)
TWICE = {"input_ids": IDS, "labels": torch.tensor([0, 3])}
BAD: dict[str, tuple[str, AnyHead, dict[str, Any], str]] = {
    "label": ("learned_encoder", HEADS["first"], TWICE, r"labels holds 3, but there are 3 \(0 to 2\)"),
    "labels of texts": (
        "learned_encoder", HEADS["first"], {"input_ids": IDS, "labels": IDS},
        r"labels is \[2, 6\], but there are 2 texts; give the number of one label for each",
    ),
    "numbers for one label": (
        "learned_encoder", HEADS["first"], {"input_ids": IDS, "labels": torch.zeros(2)}, "float32; .*set head.answer"
    ),
    "numbers of labels": (
        "learned_encoder", TextClassifier(labels=("a", "b"), pool="first", answer="any"),
        {"input_ids": IDS, "labels": THREE}, r"labels is \[2, 3\], but .* 2 texts and 2 labels; give numbers \[2, 2\]",
    ),
    "labels of tokens": (
        "learned_encoder", HEADS["tokens"], {"input_ids": IDS, "labels": IDS[:, :2]},
        r"labels is \[2, 2\], but the ids are \[2, 6\]",
    ),
    "answer": (
        "learned_encoder", AnswerSpan(), {"input_ids": IDS, "labels": torch.tensor([[0, 6], [1, 2]])},
        r"labels holds 6, but there are 6 \(0 to 5\)",
    ),
    "labels of a vector": (
        "learned_encoder", HEADS["mean"], {"input_ids": IDS, "labels": IDS}, "labels .*config.head is a TextEmbedding"
    ),
    "cache": ("learned_decoder", HEADS["last"], {"input_ids": IDS, "cache": Cache()}, "cache .*whole text at once"),
    "target": (
        "post_norm_translator", HEADS["last"], {"input_ids": IDS, "decoder_input_ids": IDS},
        "decoder_input_ids .*a TextClassifier, for which the decoder reads input_ids again",
    ),
    "no end": ("learned_encoder", HEADS["eos"], {"input_ids": IDS}, r"row 0 no token that ends it \(eos \(1, 2\)\)"),
    "only padding": ("learned_encoder", HEADS["not_pad"], {"input_ids": IDS * 0}, r"no token but padding \(pad 0"),
}  # fmt: skip


class Never(Tap):
    def __call__(self, site: str, value: Any) -> Any:
        raise AssertionError(f"{site} was computed")


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_before_compute(name: str) -> None:
    kind, head, given, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        build(made(kind, head))(**given, tap=Never())


def translator(**changes: Any) -> TransformerConfig:
    return replace(ALL["post_norm_translator"](), **changes)


def encoder(**changes: Any) -> TransformerConfig:
    return replace(ALL["learned_encoder"](), **changes)


def hearing(head: AnyHead) -> TransformerConfig:
    form = ALL["learned_encoder"]().encoder
    assert form is not None
    return encoder(encoder=Stack(layers=form.layers, vocab=0, audio=Audio(bins=4)), head=head, pad=None)


WRONG: dict[str, tuple[Callable[[], TransformerConfig], str]] = {
    "labels": (lambda: encoder(head=TokenClassifier(labels=())), "head.labels is empty"),
    "eos": (lambda: encoder(head=TextClassifier(labels=("a",), pool="eos")), "head.pool is 'eos', but eos is None"),
    "width": (
        lambda: encoder(head=TextEmbedding(pool="mean", dense=Dense(width=0))),
        "head.dense.width is 0; it must be at least 1",
    ),
    "sound": (lambda: hearing(TextEmbedding(pool="not_pad")), "'not_pad', a token, but the encoder hears sound"),
}


@pytest.mark.parametrize("name", WRONG)
def test_heads_that_do_not_fit_the_model_are_refused(name: str) -> None:
    make, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        make()


def test_a_text_read_again_begins_with_its_last_token_where_no_other_is_named() -> None:
    model = build(translator(head=AnswerSpan(), bos=None))
    ids, mask = torch.tensor([[5, 6, 7, 8], [5, 6, 7, 0]]), torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    assert again(Text("input_ids", ids, mask), None).ids[:, :3].tolist() == [[8, 5, 6], [7, 5, 6]]
    out = model(ids, mask)
    close(out.logits[1, :3], model(ids[1:, :3]).logits[0])
    named = build(replace(model.config, start=8))
    close(out.logits[0], named(ids[:1]).logits[0])


def test_sound_has_labels_too() -> None:
    model = build(hearing(TextClassifier(labels=LABELS, pool="mean")))
    out = model(input_features=torch.randn(2, 4, 10, dtype=torch.float64), labels=torch.tensor([0, 2]))
    assert out.logits.shape == (2, 3)
    close(out.loss, F.cross_entropy(out.logits, torch.tensor([0, 2])))


@pytest.mark.parametrize("name", HEADS)
def test_a_config_with_any_head_survives_json(name: str) -> None:
    config = made("learned_encoder", HEADS[name])
    assert TransformerConfig.from_dict(config.to_dict()) == config


def test_a_mistyped_field_is_named_in_the_head_that_was_meant() -> None:
    plain = made("learned_encoder", HEADS["first"]).to_dict()
    plain["head"]["pol"] = plain["head"].pop("pool")
    with pytest.raises(ValueError, match=r"config.head.pol is not a field of TextClassifier; did you mean 'pool'"):
        TransformerConfig.from_dict(plain)


def test_new_heads_start_with_small_logits_and_no_bias() -> None:
    torch.manual_seed(0)
    model = Transformer(made("learned_encoder", HEADS["first"]))
    assert not model.head.out.bias.any()
    assert model.head.out.weight.std() > 0.05
    before = model.head.out.weight.clone()
    initialise(model, model.config)
    assert not torch.equal(model.head.out.weight, before)


def test_dropout_is_in_the_head_while_training() -> None:
    head = TextClassifier(labels=LABELS, pool="first")
    model = build(replace(made("learned_encoder", head), dropout=0.5)).train()
    hidden = torch.ones(1, 2, 12, dtype=torch.float64)
    given = clearhead.model.inputs.Text("input_ids", torch.ones(1, 2, dtype=torch.int64))
    assert not torch.equal(model.head(hidden, given), model.head(hidden, given))


def test_no_text_is_generated_without_a_head_for_tokens() -> None:
    for head, name in ((HEADS["last"], "TextClassifier"), (None, "None")):
        with pytest.raises(ValueError, match=f"config.head is {name}, so the model gives no logits to choose"):
            generate(build(replace(ALL["learned_decoder"](), head=head, pad=0)), text(1, 3))


def test_describe_names_the_labels() -> None:
    said = clearhead.describe(build(made("learned_encoder", HEADS["first"])))
    assert "TextClassifier, 3 labels: no, yes, perhaps, pool first" in said


def test_every_kind_of_model_may_have_every_head() -> None:
    for kind in ALL:
        for name, head in HEADS.items():
            ids = ended(2, 6)
            assert found(build(made(kind, head))(ids)).isfinite().all(), (kind, name)
    assert set(TRANSLATORS) < set(ALL)
