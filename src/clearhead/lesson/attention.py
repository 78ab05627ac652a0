"""Topic `attention`: the worked example, one matrix at a time. NumPy only."""

import numpy as np

from clearhead.lesson.example import DRAWN, TOKENS, Example, example
from clearhead.lesson.page import Page, Step
from clearhead.reference import Array, Attended


def page() -> Page:
    """softmax(Q K^T / sqrt(E)) V on three tokens (Vaswani et al. 2017, section 3.2.1)."""
    given = example()
    seen, masked = given.attend(), given.attend(causal=True)
    return Page(
        topic="attention",
        title="Attention, worked out on three tokens",
        steps=(*_inputs(given), *_attention(seen, given.V)),
        data={
            "weights_full_precision": seen.weights,
            "output_full_precision": seen.output,
            "causal_weights_full_precision": masked.weights,
            "causal_output_full_precision": masked.output,
            "weights_drawn": DRAWN,
            "printed_to": 3,
        },
    )


def _inputs(given: Example) -> tuple[Step, ...]:
    rows = (TOKENS,)
    return (
        Step(name="tokens", words="The text, cut into tokens.", value=list(TOKENS)),
        Step(name="X", shape="T D", words="The embedding: each token as 4 numbers.", value=given.X, labels=rows),
        Step(
            name="Wq",
            shape="D E",
            words="What makes queries. A model learns these numbers; here they are drawn at random.",
            value=given.Wq,
        ),
        Step(name="Wk", shape="D E", words="What makes keys.", value=given.Wk),
        Step(name="Wv", shape="D E", words="What makes values.", value=given.Wv),
        Step(
            name="Q",
            shape="Q E",
            formula="X Wq",
            words="A query for each token: what it looks for.",
            value=given.Q,
            labels=rows,
        ),
        Step(
            name="K",
            shape="K E",
            formula="X Wk",
            words="A key for each token: what it can be found by.",
            value=given.K,
            labels=rows,
        ),
        Step(
            name="V",
            shape="K E",
            formula="X Wv",
            words="A value for each token: what it hands over when it is looked at.",
            value=given.V,
            labels=rows,
        ),
    )


def _attention(seen: Attended, V: Array) -> tuple[Step, ...]:
    pairs, rows = (TOKENS, TOKENS), (TOKENS,)
    return (
        Step(
            name="scores",
            shape="Q K",
            formula="Q Kᵀ",
            words="How well each query (row) fits each key (column): their dot product.",
            value=seen.scores,
            labels=pairs,
        ),
        Step(
            name="scaled_scores",
            shape="Q K",
            formula="scores / √E",
            words=f"Divided by the square root of the width of a key: √{V.shape[-1]} = {np.sqrt(V.shape[-1]):g}.",
            value=seen.scaled,
            labels=pairs,
        ),
        Step(
            name="weights",
            shape="Q K",
            formula="softmax(scaled_scores), row by row",
            words="Scores as shares of attention: exp of each, divided by the sum over its row.",
            value=seen.weights,
            labels=pairs,
            note=" ".join(_where_it_looks(token, row) for token, row in zip(TOKENS, seen.weights, strict=True)),
        ),
        Step(
            name="row_sums",
            shape="Q",
            formula="sum of each row of weights",
            words="No weight is negative and each row sums to 1.",
            value=seen.weights.sum(axis=-1),
            labels=rows,
        ),
        Step(
            name="output",
            shape="Q E",
            formula="weights V",
            words="Each token's new vector: the values of all tokens, mixed by its weights.",
            value=seen.output,
            labels=rows,
            note=_mix(seen.weights[0]),
        ),
    )


def _where_it_looks(token: str, weights: Array) -> str:
    first, second = (
        f"{'itself' if TOKENS[i] == token else repr(TOKENS[i])} ({weights[i]:.3f})" for i in (-weights).argsort()[:2]
    )
    return f"{token!r} looks mostly at {first}, then at {second}."


def _mix(weights: Array) -> str:
    terms = [f"{w:.3f} V[{token}]" for token, w in zip(TOKENS, weights, strict=True)]
    return f"output[{TOKENS[0]}] = {' + '.join(terms)}"
