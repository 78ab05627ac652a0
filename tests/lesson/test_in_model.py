"""The lens, looking into the worked example, shows the lesson's own numbers."""

import json
import math

import numpy as np
import torch

import shared
from clearhead.lens.explanation import explain
from clearhead.lens.record import record
from clearhead.lesson.example import example
from clearhead.lesson.in_model import worked_example

TEXT = "the cat sat"


def test_every_matrix_of_the_attention_is_the_lessons() -> None:
    model, given, truth = worked_example(), example(), example().attend()
    with record(model, "*") as seen, torch.no_grad():
        model(**model.tokenizer(TEXT))
    np.testing.assert_array_equal(seen["encoder.embed"][0], given.X)
    for site, matrix in {"q": given.Q, "k": given.K, "v": given.V, "heads": truth.output}.items():
        np.testing.assert_allclose(seen[f"encoder.0.self.{site}"][0, 0], matrix, rtol=0, atol=1e-15)
    for site, matrix in {"scores": truth.scaled, "weights": truth.weights}.items():
        np.testing.assert_allclose(seen[f"encoder.0.self.{site}"].dense()[0, 0], matrix, rtol=0, atol=1e-15)
    np.testing.assert_allclose(seen["encoder.0.self.out"][0], truth.output, rtol=0, atol=1e-15)
    np.testing.assert_allclose(seen["encoder.final"][0], given.X + truth.output, rtol=0, atol=1e-15)


def shown(query: int, key: int) -> dict[str, float | list[float]]:
    e = explain(worked_example(), TEXT, "encoder.0.self.weights", head=0, query=query, key=key)
    assert e.words == (TEXT.split()[query], TEXT.split()[key])
    assert [step.formula for step in e.steps[-4:-2]] == ["q = W_q x", "k = W_k x"], "no norm comes first"
    return {name: number for step in e.steps for name, number in step.numbers.items()} | {"weight": e.shown}


def test_the_first_token_looks_at_the_third() -> None:
    found = shown(0, 2)
    assert math.copysign(1, found["products"][2]) == 1, "no -0.000 is shown"
    assert found["q"] == [-0.6, -1.4, 0.0, 0.1]
    assert found["k"] == [-0.6, 1.1, -0.3, 1.4]
    assert found["exp(score - largest)"] == [1.0, 0.385, 0.58]
    assert found["score"] == -0.52
    assert found["weight"] == 0.295


def test_every_explained_number_is_that_of_the_shared_example() -> None:
    expected = json.loads(shared.path("lesson/worked_example.json").read_text())
    for query in range(3):
        for key in range(3):
            found = shown(query, key)
            assert (found["q"], found["k"]) == (expected["Q"][query], expected["K"][key])
            assert found["scores of all keys that it may see"] == expected["scaled_scores"][query]
            assert round(found["weight"], 3) == expected["weights"][query][key], "some are told with more decimals"


def test_making_it_draws_no_random_number() -> None:
    before = torch.get_rng_state()
    worked_example()
    assert torch.equal(torch.get_rng_state(), before)
