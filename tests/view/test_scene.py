"""The scene: every question against the weights themselves, and one sentence for what cannot be answered."""

import json
import struct
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.config import TextClassifier
from clearhead.formulas.attention import Scoring
from clearhead.formulas.mask import Visible
from clearhead.generation.generate import generate
from clearhead.lens.edit import edit
from clearhead.lens.edits import ablate
from clearhead.lens.projection import logit_lens
from clearhead.lens.record import record
from clearhead.lens.rows import Weights
from clearhead.view.reading import Part, Reading, run
from clearhead.view.scene import QUESTIONS, VERSION, Scene
from model.tiny import learned_encoder, post_norm_translator
from view.scenes import TEXT, floats, random_model, reader, recording, scene_of, translator, weights, writer


def test_what_there_is() -> None:
    scene = scene_of(translator(), to="what it says")
    head = scene.ask("meta").head
    assert head["version"] == VERSION
    assert head["live"]
    encoder, decoder, cross = head["stacks"]
    assert (encoder["id"], encoder["layers"], encoder["causal"]) == ("encoder", [3, 3], False)
    assert (decoder["id"], decoder["causal"], cross["causal"]) == ("decoder", True, False)
    assert (cross["query_tokens"], cross["key_tokens"]) == ("decoder", "encoder")
    assert cross["queries"] == len(head["tokens"]["decoder"]) == decoder["keys"]
    assert cross["keys"] == len(head["tokens"]["encoder"]) == len(TEXT) + 2
    assert "".join(head["tokens"]["encoder"]) == f"<s>{TEXT}</s>"
    assert head["can"] == {"lens": ["decoder"], "ablate": True, "look": True, "step": True}
    assert head["statistics"].keys() == {"encoder", "decoder", "cross"}
    json.dumps(head, allow_nan=False)


def test_an_absent_part_says_why() -> None:
    head = scene_of(writer()).ask("meta").head
    assert [stack.get("missing") for stack in head["stacks"]] == [
        *("this model has no encoder", None, "this model has no cross-attention"),
    ]
    head = recording(5).ask("meta").head
    assert head["stacks"][0]["missing"] == "the recording has no encoder"
    assert not head["live"]
    assert not any(head["can"].values())


@pytest.mark.parametrize("stack", ["encoder", "decoder", "cross"])
def test_rows_tiles_and_pairs_are_the_weights(stack: str) -> None:
    scene = scene_of(translator(), to="what it says")
    part = next(part for part in scene.shown.reading.parts if part.name == stack)
    queries, keys = len(part.queries), len(part.keys)
    dense = torch.stack([view.dense()[0] for view in part.layers]).numpy()
    hidden = np.triu(np.ones((queries, keys), dtype=bool), 1) if stack == "decoder" else np.zeros((queries, keys), bool)
    for query, key in ((0, 0), (queries - 1, keys - 1), (queries // 2, 3)):
        for layer, head in ((0, 0), (1, 2)):
            right = np.where(hidden, -1, dense[layer, head])
            where = {"stack": stack, "layer": layer, "head": head, "query": query}
            answer = scene.ask("row", where)
            np.testing.assert_allclose(floats(answer.data), right[query], rtol=1e-5, atol=1e-7)
            p = right[query][right[query] > 0].astype(np.float64)
            assert answer.head["sum"] == pytest.approx(1, abs=1e-6)
            assert answer.head["entropy"] == pytest.approx(-(p * np.log2(p)).sum(), abs=1e-6)
            assert answer.head["effective_keys"] == pytest.approx(2 ** answer.head["entropy"])
            tile = scene.ask("tile", {**where, "key": key})
            top, left, rows, columns = (tile.head[name] for name in ("query", "key", "rows", "columns"))
            assert top <= query < top + rows
            assert left <= key < left + columns
            assert (rows, columns) == (min(11, queries), min(11, keys))
            found = floats(tile.data).view(rows, columns)
            np.testing.assert_allclose(found, right[top : top + rows, left : left + columns], rtol=1e-5, atol=1e-7)
        pair = scene.ask("pair", {"stack": stack, "query": query, "key": key})
        assert pair.head["heads"] == [3, 3]
        right = np.where(hidden[query, key], -1, dense[:, :, query, key])
        np.testing.assert_allclose(floats(pair.data).view(2, 3), right, rtol=1e-5, atol=1e-7)


def test_a_picture_says_what_a_cell_stands_for() -> None:
    where = {"stack": "decoder", "layer": 0, "head": 1}
    head = recording(7).ask("image", where).head
    assert (head["rows"], head["row_of"], head["text"]) == (7, "exact", "every query row")
    scene = recording(1500, layers=1)
    head = scene.ask("image", where).head
    assert head["text"] == "500 of 1,500 query rows, each exact; columns show the highest of every 3 keys"
    assert (head["row_step"], head["row_of"], head["column_of"]) == (3, "first of 3", "max of 3")
    head = scene.ask("image", {**where, "pooled": True}).head
    assert head["text"] == "rows show the highest of every 3 queries; columns show the highest of every 3 keys", (
        "nothing was left out"
    )


def test_an_answer_as_bytes() -> None:
    scene = recording(6)
    packed = scene.ask("row", {"stack": "decoder", "layer": 0, "head": 0, "query": 2}).packed()
    (length,) = struct.unpack("<I", packed[:4])
    assert json.loads(packed[4 : 4 + length])["query"] == 2
    assert len(packed) == 4 + length + 6 * 4


def test_a_query_that_sees_nothing() -> None:
    view = weights(4, 4, mask=torch.zeros(1, 1, 4, 4, dtype=torch.bool))
    words = list("abcd")
    scene = Scene(Reading.of([Part("decoder", words, words, [view])]))
    answer = scene.ask("row", {"stack": "decoder", "layer": 0, "head": 0, "query": 1})
    assert answer.head == {"query": 1, "sum": 0.0, "entropy": 0.0, "effective_keys": 0.0}
    assert floats(answer.data).tolist() == [-1] * 4
    answer.packed()
    scene.ask("overview", {"stack": "decoder"}).packed()


@pytest.mark.parametrize("make", [writer, translator])
def test_the_logit_lens_is_that_of_the_lens(make: object) -> None:
    model = make()  # type: ignore[operator]
    scene = scene_of(model, TEXT, "what it" if make is translator else None)
    table = logit_lens(model, (TEXT, "what it") if make is translator else TEXT, top=3)
    for query in (0, 3):
        found = scene.ask("lens", {"stack": "decoder", "query": query}).head["layers"]
        assert [layer["layer"] for layer in found] == ["embed", 0, 1]
        for i, layer in enumerate(found):
            assert [top["id"] for top in layer["top"]] == table.more["ids"][i][query]
            right = table.values[i, query].tolist()
            assert [top["p"] for top in layer["top"]] == pytest.approx(right, rel=1e-4)
            follows = scene.shown.reading.follows[query]
            right = logit_lens(model, (TEXT, "what it") if make is translator else TEXT, top=1, target=follows)
            assert layer["rank"] == right.more["target_rank"][i][query]
            assert layer["p"] == pytest.approx(right.more["target_probability"][i][query], rel=1e-4)


def test_what_follows() -> None:
    scene = scene_of(translator(), "abc", "xyz")
    pieces = scene.shown.reading.tokens["decoder"]
    ids = [i for i in scene.shown.reading.follows if i is not None]
    model = scene.model
    assert model is not None
    assert model.tokenizer is not None
    assert pieces[1:] == list("xyz")
    assert model.tokenizer.pieces(ids) == [*"xyz", "</s>"]
    assert scene_of(translator(), "abc", "").shown.reading.tokens["decoder"] == pieces[:1]
    own = scene_of(writer(), "abcd").shown.reading
    assert list(own.follows[:-1]) == own.given["input_ids"][0, 1:].tolist()
    assert own.follows[-1] is None
    there = scene_of(reader(learned_encoder()), "abc").shown.reading
    assert list(there.follows) == there.given["input_ids"][0].tolist()


def test_heads_that_are_taken_out() -> None:
    model = translator()
    scene = scene_of(model, TEXT, "what it")
    heads = [
        {"stack": "cross", "layer": 0, "head": 1, "how": "zero"},
        {"stack": "cross", "layer": 0, "head": 2, "how": "zero"},
        {"stack": "encoder", "layer": 1, "head": 0, "how": "mean"},
    ]
    answer = scene.ask("ablate", {"heads": heads, "query": 2})
    given, follows = scene.shown.reading.given, scene.shown.reading.follows
    with torch.no_grad(), record(model, "*.weights") as was:
        before = model(**given).logits[0].double().log_softmax(-1)
    changes = {"decoder.0.cross.heads": ablate([1, 2]), "encoder.1.self.heads": ablate([0], to="mean")}
    with torch.no_grad(), edit(model, changes), record(model, "*.weights") as now:
        after = model(**given).logits[0].double().log_softmax(-1)
    for name, right in (("before", before), ("after", after)):
        p, ids = right[2].exp().topk(5)
        assert [top["id"] for top in answer.head[name]] == ids.tolist()
        assert [top["p"] for top in answer.head[name]] == pytest.approx(p.tolist(), rel=1e-4)
    kl = float((before[2].exp() * (before[2] - after[2])).sum()) / np.log(2)
    assert answer.head["kl"] == pytest.approx(kl, rel=1e-3)
    target = follows[2]
    assert target is not None
    assert answer.head["target"]["id"] == target
    assert answer.head["target"]["after"] == pytest.approx(float(after[2, target].exp()), rel=1e-4)
    right = [float(after[t, i] - before[t, i]) for t, i in enumerate(follows) if i is not None]
    assert floats(answer.data).tolist() == pytest.approx(right, rel=1e-3, abs=1e-5)
    moved = (was["decoder.1.self.weights"].dense() - now["decoder.1.self.weights"].dense()).abs().sum(-1).mean(-1)[0]
    assert answer.head["moved"]["decoder"][1] == pytest.approx((moved / 2).tolist(), rel=1e-4)
    assert answer.head["moved"]["encoder"] == [[0.0] * 3] * 2
    assert model.tap is not None
    again = scene.ask("ablate", {"heads": [], "query": 2})
    assert again.head["before"] == again.head["after"] == answer.head["before"]
    assert not floats(again.data).any()


def test_another_text_is_this_scenes_own() -> None:
    scene = scene_of(writer(), "abc")
    other = scene.copy()
    head = other.ask("look", {"text": "what <b>"}).head
    assert "".join(head["tokens"]["decoder"]) == "what <b>"
    assert scene.ask("meta").head["tokens"]["decoder"] == list("abc")
    assert other.ask("overview", {"stack": "decoder"}).head["rows"] == 8
    assert scene.ask("overview", {"stack": "decoder"}).head["rows"] == 3


@pytest.mark.parametrize("make", [writer, translator])
def test_steps_are_those_of_greedy_generation(make: object) -> None:
    model = make()  # type: ignore[operator]
    scene = scene_of(model, "abc", "" if make is translator else None)
    given = scene.shown.reading.given
    right = generate(model, given["input_ids"], max_new_tokens=5)
    assert isinstance(right, torch.Tensor)
    before = 1 if make is translator else 3
    found = [scene.ask("step", {}).head, scene.ask("step", {"count": 4}).head]
    ids = scene.shown.reading.given["decoder_input_ids" if make is translator else "input_ids"][0].tolist()
    wanted = [i for i in right[0].tolist() if i not in model.config.eos_ids]
    assert ids == wanted[: len(ids)]
    assert found[0]["id"] == wanted[before]
    assert found[0]["top"][0]["id"] == found[0]["id"]
    assert found[1]["done"] == (len(ids) < before + 5)
    assert len(scene.ask("meta").head["tokens"]["decoder"]) == len(ids)


BAD = {
    "another question": ("film", {}, "question is 'film'; there are meta"),
    "another stack": ("overview", {"stack": "cross"}, "stack is 'cross'; there are decoder"),
    "no stack": ("overview", {}, "stack is None"),
    "another layer": (
        "image",
        {"stack": "decoder", "layer": 2, "head": 0},
        "layer is 2, but there are 2 layers, 0 to 1",
    ),
    "another head": (
        "image",
        {"stack": "decoder", "layer": 1, "head": -1},
        "head is -1, but there are 2 heads in layer 1",
    ),
    "no whole number": ("image", {"stack": "decoder", "layer": 0.0, "head": 0}, r"layer is 0\.0; give a whole number"),
    "a truth value": ("image", {"stack": "decoder", "layer": True, "head": 0}, "layer is True"),
    "another query": (
        *("row", {"stack": "decoder", "layer": 0, "head": 0, "query": 6}),
        "query is 6, but there are 6 queries, 0 to 5",
    ),
    "another argument": ("meta", {"__proto__": 1}, "'__proto__' is no argument of this question; it has none"),
    "too large a tile": (
        *("tile", {"stack": "decoder", "layer": 0, "head": 0, "query": 0, "key": 0, "rows": 500}),
        "rows is 500",
    ),
    "a long name": ("row", {"x" * 10**6: 1}, "'xxx"),
    "pooled in words": ("image", {"stack": "decoder", "layer": 0, "head": 0, "pooled": "no"}, "pooled is 'no'"),
    "no model": ("lens", {"stack": "decoder", "query": 0}, "lens needs the model, and this is a recording"),
    "no model to look": ("look", {"text": "a"}, "look needs the model"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_questions_are_one_sentence(name: str) -> None:
    op, args, words = BAD[name]
    with pytest.raises(ValueError, match=words) as caught:
        recording(6).ask(op, args)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 300


LIVE = {
    "an empty text": ("look", {"text": "  "}, "the text is empty"),
    "no text": ("look", {}, "the text is empty"),
    "a long text": ("look", {"text": "a" * 20001}, "text has 20,001 characters, the limit is 20,000"),
    "a target": ("look", {"text": "a", "to": "b"}, "this model has one stack only"),
    "a number": ("look", {"text": 3}, "text is 3; give a text"),
    "the lens of another stack": ("lens", {"stack": "encoder", "query": 0}, "stack is 'encoder'; there are decoder"),
    "heads in a word": ("ablate", {"heads": "all", "query": 0}, "heads: give a list of at most 64"),
    "another way": (
        *("ablate", {"heads": [{"stack": "decoder", "layer": 0, "head": 0, "how": "noise"}], "query": 0}),
        "how is 'noise'; there are zero, mean",
    ),
    "steps": ("step", {"count": 17}, "count is 17"),
}


@pytest.mark.parametrize("name", LIVE)
def test_bad_questions_to_a_model_are_one_sentence(name: str) -> None:
    op, args, words = LIVE[name]
    scene = scene_of(writer(), "abc")
    with pytest.raises(ValueError, match=words):
        scene.ask(op, args)  # type: ignore[arg-type]
    assert scene.ask("meta").head["tokens"]["decoder"] == list("abc")


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
ANY = st.recursive(
    PLAIN, lambda kids: st.lists(kids, max_size=3) | st.dictionaries(st.text(max_size=5), kids, max_size=3)
)
NAMES = ("stack", "layer", "head", "query", "key", "rows", "columns", "pooled", "heads", "how", "text", "to", "count")
KNOWN = st.sampled_from(["decoder", 0, 1, 2, -1, 11, "abc", "zero", True]) | ANY


@cache
def short() -> Scene:
    return scene_of(writer(), "abc")


@given(st.sampled_from(QUESTIONS) | st.text(max_size=5), st.dictionaries(st.sampled_from(NAMES), KNOWN) | ANY)
@settings(max_examples=300)
def test_whatever_is_asked_is_answered_or_refused_in_a_sentence(op: str, args: object) -> None:
    scene = short().copy()
    try:
        scene.ask(op, args).packed()
    except ValueError as error:
        assert 0 < len(str(error)) < 400  # noqa: PT017


def test_a_text_over_the_models_limit_names_both_numbers() -> None:
    scene = scene_of(reader(learned_encoder()), "abc")
    with pytest.raises(ValueError, match="the text has 61 tokens, but the position table has 48 rows"):
        scene.ask("look", {"text": "a" * 60})


def test_a_model_that_only_reads_says_so() -> None:
    with pytest.raises(ValueError, match="this model writes no text"):
        scene_of(reader(learned_encoder()), "abc").ask("step", {})


def test_who_stops_leaves_the_model_as_it_was() -> None:
    model, calls = writer(), []
    scene = scene_of(model, "abc")

    def going() -> None:
        calls.append(1)
        if len(calls) > 4:
            raise InterruptedError

    tap = model.tap
    with pytest.raises(InterruptedError):
        scene.ask("look", {"text": "abcdef"}, going)
    assert model.tap is tap
    assert scene.ask("meta").head["tokens"]["decoder"] == list("abc")
    assert scene.ask("look", {"text": "abcdef"}).head["tokens"]["decoder"] == list("abcdef")


def test_names_and_weights_must_be_equally_many() -> None:
    with pytest.raises(ValueError, match=r"3 queries and 4 keys are named, but the weights are \[1, 2, 4, 4\]"):
        Reading.of([Part("decoder", list("abc"), list("abcd"), [weights(4, 4)])])


def test_vis_06_of_a_batch_one_text_is_to_be_chosen() -> None:
    batch = Weights(torch.randn(16, 2, 5, 4), torch.randn(16, 2, 5, 4), Scoring(Visible.last(5, 5), 0.5))
    words = list("abcde")
    with pytest.raises(ValueError, match=r"the weights are \[16, 2, 5, 5\], of 16 texts, and a scene shows one"):
        Reading.of([Part("encoder", words, words, [batch])])
    one = batch.only(slice(3, 4))
    assert isinstance(one, Weights)
    scene = Scene(Reading.of([Part("encoder", words, words, [one])]))
    row = floats(scene.ask("row", {"stack": "encoder", "layer": 0, "head": 1, "query": 2}).data)
    assert row.numpy() == pytest.approx(batch[3, 1, 2].numpy(), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_a_model_of_another_type(dtype: torch.dtype) -> None:
    model = writer()
    right = scene_of(model, TEXT)
    scene = scene_of(writer().to(dtype), TEXT)
    for op, args in (
        ("overview", {"stack": "decoder"}),
        ("image", {"stack": "decoder", "layer": 1, "head": 0}),
        ("lens", {"stack": "decoder", "query": 3}),
        ("ablate", {"query": 3, "heads": [{"stack": "decoder", "layer": 0, "head": 0, "how": "mean"}]}),
    ):
        scene.ask(op, args).packed()
    where = {"stack": "decoder", "layer": 0, "head": 1, "query": 20}
    found = floats(scene.ask("row", where).data)
    assert found.numpy() == pytest.approx(floats(right.ask("row", where).data).numpy(), abs=0.05)
    assert scene.ask("row", where).head["sum"] == pytest.approx(1, abs=0.02)
    assert scene.ask("step", {}).head["top"]


def test_a_decoder_that_reads_its_source_again() -> None:
    config = replace(post_norm_translator(start=1), head=TextClassifier(labels=("a", "b"), pool="eos"))
    model = reader(config)
    scene = scene_of(model, "abc")
    assert [stack["id"] for stack in scene.ask("meta").head["stacks"] if "missing" not in stack] == [
        *("encoder", "decoder", "cross"),
    ]
    assert scene.ask("meta").head["can"]["lens"] == []
    assert scene.ask("overview", {"stack": "cross"}).head["done"]
    with pytest.raises(ValueError, match="to is given, but this model has one"):
        scene.ask("look", {"text": "abc", "to": "b"})


def test_a_model_without_a_tokenizer_is_shown_by_numbers() -> None:
    model = random_model(writer().config)
    scene = Scene(run(model, {"input_ids": torch.tensor([[3, 4, 5]])}), model)
    head = scene.ask("meta").head
    assert head["tokens"]["decoder"] == ["3", "4", "5"]
    assert not head["can"]["look"]
    assert scene.ask("lens", {"stack": "decoder", "query": 1}).head["layers"][0]["top"][0]["token"].isdigit()
    with pytest.raises(ValueError, match="it has no tokenizer"):
        scene.ask("look", {"text": "abc"})


def test_every_question_is_answered() -> None:
    assert set(QUESTIONS) == {
        *("meta", "overview", "image", "row", "tile", "pair", "lens", "ablate", "look", "step"),
    }
