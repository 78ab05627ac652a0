"""The specification against the lesson's worked example and against what the formulas promise."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead import reference
from shared import path

EMBEDDED = np.array([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]])
PRINTED = {
    "q": [[-0.6, -1.4, 0.0, 0.1], [-2.8, 0.2, 0.1, 0.2], [-0.4, 0.3, 1.9, 1.0]],
    "k": [[0.4, -0.2, -0.3, 0.1], [-0.6, 1.6, -1.7, 0.2], [-0.6, 1.1, -0.3, 1.4]],
    "v": [[-1.5, 2.0, 1.5, 1.2], [-0.4, -0.4, 2.3, 3.5], [-0.9, 0.4, 1.0, 1.9]],
    "scores": [[0.05, -1.86, -1.04], [-1.17, 1.87, 2.15], [-0.69, -2.31, 1.4]],
    "scaled": [[0.025, -0.93, -0.52], [-0.585, 0.935, 1.075], [-0.345, -1.155, 0.7]],
    "weights": [[0.509, 0.196, 0.295], [0.092, 0.422, 0.486], [0.233, 0.104, 0.663]],
    "output": [[-1.107, 1.058, 1.509, 1.857], [-0.744, 0.21, 1.595, 2.511], [-0.988, 0.69, 1.251, 1.903]],
}
POSITIONS_5X8 = [
    [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0],
    [0.841, 0.54, 0.1, 0.995, 0.01, 1.0, 0.001, 1.0],
    [0.909, -0.416, 0.199, 0.98, 0.02, 1.0, 0.002, 1.0],
    [0.141, -0.99, 0.296, 0.955, 0.03, 1.0, 0.003, 1.0],
    [-0.757, -0.654, 0.389, 0.921, 0.04, 0.999, 0.004, 1.0],
]


def drawn_weights() -> list[np.ndarray]:
    """The lesson's Wq, Wk, Wv, in the order in which they are drawn."""
    rng = np.random.default_rng(0)
    return [rng.normal(0, 1, (4, 4)).round(1) for _ in range(3)]


def worked(mask: np.ndarray | None = None) -> reference.Attended:
    q, k, v = (EMBEDDED @ w for w in drawn_weights())
    return reference.attention(q, k, v, mask)


def test_the_worked_example_has_the_printed_digits() -> None:
    for name, w in zip("qkv", drawn_weights(), strict=True):
        np.testing.assert_allclose(EMBEDDED @ w, PRINTED[name], atol=1e-12, rtol=0)
    got = worked()
    for name in ("scores", "scaled", "weights", "output"):
        np.testing.assert_array_equal(getattr(got, name).round(3), PRINTED[name])


def test_the_worked_example_equals_the_file_to_full_precision() -> None:
    facts: dict[str, Any] = json.loads(path("lesson/worked_example.json").read_text())
    np.testing.assert_allclose(np.stack(drawn_weights()), [facts["Wq"], facts["Wk"], facts["Wv"]], atol=1e-12, rtol=0)
    plain, causal = worked(), worked(reference.causal_mask(3, 3))
    for name, got in (("weights", plain.weights), ("output", plain.output)):
        np.testing.assert_allclose(got, facts[f"{name}_full_precision"], atol=1e-14, rtol=0)
    for name, got in (("weights", causal.weights), ("output", causal.output)):
        np.testing.assert_allclose(got, facts[f"causal_{name}_full_precision"], atol=1e-14, rtol=0)
    np.testing.assert_array_equal(plain.scores.round(3), facts["scores"])
    np.testing.assert_array_equal(plain.scaled.round(3), facts["scaled_scores"])
    np.testing.assert_allclose(plain.weights.sum(-1), facts["row_sums"], atol=1e-12, rtol=0)
    table = reference.sinusoidal_positions(5, 8)
    np.testing.assert_array_equal(table.round(3), facts["positional_encoding_5x8"])


def test_causal_weights_above_the_diagonal_are_exactly_zero() -> None:
    weights = worked(reference.causal_mask(3, 3)).weights
    assert (weights[np.triu_indices(3, 1)] == 0.0).all()
    np.testing.assert_allclose(weights[0], [1, 0, 0])


def test_the_5x8_table_of_positions_and_no_two_rows_alike() -> None:
    np.testing.assert_array_equal(reference.sinusoidal_positions(5, 8).round(3), POSITIONS_5X8)
    table = reference.sinusoidal_positions(200, 6)
    assert len({tuple(row) for row in table.round(12)}) == 200


def test_pos_01_odd_widths_have_positions_too() -> None:
    expected = [0.841471, 0.540302, 0.025116, 0.999685, 0.000631]
    np.testing.assert_allclose(reference.sinusoidal_positions(2, 5)[1], expected, atol=5e-7, rtol=0)


def test_msk_05_queries_are_the_last_positions() -> None:
    v = np.arange(1.0, 6)[:, None]
    for queries, keys, expected in ((2, 5, [2.5, 3.0]), (1, 5, [3.0]), (5, 2, [0, 0, 0, 1, 1.5])):
        q, k = np.zeros((queries, 3)), np.zeros((keys, 3))
        out = reference.attention(q, k, v[:keys], reference.causal_mask(queries, keys)).output
        np.testing.assert_allclose(out[:, 0], expected, atol=1e-15, rtol=0)


def test_msk_01_a_row_with_nothing_to_attend_to_gives_zeros() -> None:
    out = reference.attention(np.eye(2), np.eye(2), np.array([[1.0, 2], [3, 4]]), np.array([[False] * 2, [True] * 2]))
    np.testing.assert_array_equal(out.weights[0], [0, 0])
    np.testing.assert_array_equal(out.output[0], [0, 0])
    np.testing.assert_allclose(out.output[1], [2.33952, 3.33952], atol=5e-6)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=4, max_size=4), min_size=1, max_size=5), st.floats(-1e6, 1e6))
def test_softmax_sums_to_one_and_ignores_a_constant(rows: list[list[float]], constant: float) -> None:
    x = np.array(rows)
    weights = reference.softmax(x)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(-1), 1.0, atol=1e-12, rtol=0)
    np.testing.assert_allclose(reference.softmax(x + constant), weights, atol=1e-8)


def test_softmax_stays_finite_for_large_scores() -> None:
    np.testing.assert_allclose(reference.softmax(np.array([1e4, 1e4 - np.log(3)])), [0.75, 0.25])
    np.testing.assert_array_equal(reference.softmax(np.array([-np.inf, 0.0])), [0, 1])


def test_scores_are_divided_by_the_root_of_the_width() -> None:
    rng = np.random.default_rng(1)
    q, k, v = rng.normal(size=(2, 3, 9)), rng.normal(size=(2, 4, 9)), rng.normal(size=(2, 4, 5))
    got = reference.attention(q, k, v)
    np.testing.assert_allclose(got.scaled, got.scores / 3)
    np.testing.assert_allclose(got.output, np.einsum("bqk,bke->bqe", got.weights, v))
    assert got.output.shape == (2, 3, 5)


def test_the_order_of_the_tokens_makes_no_difference() -> None:
    rng = np.random.default_rng(2)
    x, order = rng.normal(size=(3, 16)), [2, 0, 1]
    w = rng.normal(size=(4, 16, 16)) / 4
    plain = reference.multi_head_attention(x, x, *w, heads=4)
    turned = reference.multi_head_attention(x[order], x[order], *w, heads=4)
    np.testing.assert_allclose(turned, plain[order], atol=1e-12, rtol=0)
    with_positions = x + reference.sinusoidal_positions(3, 16)
    moved = x[order] + reference.sinusoidal_positions(3, 16)
    a = reference.multi_head_attention(with_positions, with_positions, *w, heads=4)
    b = reference.multi_head_attention(moved, moved, *w, heads=4)
    assert np.abs(a[order] - b).max() > 0.01


def test_each_head_works_on_its_own_slice() -> None:
    rng = np.random.default_rng(3)
    x, w = rng.normal(size=(5, 8)), rng.normal(size=(4, 8, 8))
    heads = [
        reference.attention(x @ w[0][:, s], x @ w[1][:, s], x @ w[2][:, s]).output for s in (slice(0, 4), slice(4, 8))
    ]
    expected = np.concatenate(heads, -1) @ w[3]
    np.testing.assert_allclose(reference.multi_head_attention(x, x, *w, heads=2), expected, atol=1e-12, rtol=0)


def test_a_padded_batch_answers_as_each_sample_alone() -> None:
    rng = np.random.default_rng(4)
    x, w = rng.normal(size=(2, 5, 8)), rng.normal(size=(4, 8, 8))
    mask = reference.padding_mask(np.array([5, 3]), 5)
    assert mask.shape == (2, 1, 1, 5)
    both = reference.multi_head_attention(x, x, *w, heads=2, mask=mask)
    alone = reference.multi_head_attention(x[1:, :3], x[1:, :3], *w, heads=2)
    np.testing.assert_allclose(both[1:, :3], alone, atol=1e-12, rtol=0)


def test_layer_norm_has_mean_0_and_variance_1() -> None:
    x = np.random.default_rng(5).normal(3, 7, size=(6, 32))
    out = reference.layer_norm(x, np.ones(32), np.zeros(32), eps=0.0)
    np.testing.assert_allclose(out.mean(-1), 0, atol=1e-12, rtol=0)
    np.testing.assert_allclose(out.var(-1), 1, atol=1e-12, rtol=0)
    np.testing.assert_allclose(reference.layer_norm(x, np.full(32, 2.0), np.ones(32), eps=0.0), 2 * out + 1)


def test_feed_forward_by_hand() -> None:
    out = reference.feed_forward(
        np.array([1.0, -2]), np.array([[1.0, 0, 2], [0, 1, 1]]), np.array([0.0, 1, 1]), np.ones((3, 1)), np.array([5.0])
    )
    assert out == pytest.approx([1 + 0 + 1 + 5])
