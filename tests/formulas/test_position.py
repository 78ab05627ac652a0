"""Positions: worked numbers, laws, and the tables of the library whose checkpoints we run."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.llama.modeling_llama import apply_rotary_pos_emb
from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding
from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding
from transformers.models.t5.modeling_t5 import T5Attention

from clearhead import reference
from clearhead.formulas.position import (
    banded_rates,
    linear_rates,
    longrope_factor,
    longrope_rates,
    relative_buckets,
    rotary_rates,
    rotate,
    sinusoidal_positions,
    yarn_factor,
    yarn_rates,
)


@pytest.mark.parametrize("dim", [1, 2, 5, 8, 31])
def test_interleaved_sinusoids_are_the_reference(dim: int) -> None:
    got = sinusoidal_positions(torch.arange(2000), dim, dtype=torch.float64)
    np.testing.assert_allclose(got, reference.sinusoidal_positions(2000, dim), atol=1e-10, rtol=0)


@pytest.mark.parametrize("kind", ["interleaved", "halves", "halves_inclusive"])
@pytest.mark.parametrize("dim", [1, 2, 3, 5, 8])
def test_pos_01_every_kind_has_every_width(kind: Any, dim: int) -> None:
    table = sinusoidal_positions(torch.arange(6).view(2, 3), dim, kind)
    assert table.shape == (2, 3, dim)
    assert bool(table.isfinite().all())
    assert table.abs().max() <= 1


def test_pos_01_width_5_position_1() -> None:
    row = sinusoidal_positions(torch.tensor([1]), 5)[0]
    assert row.tolist() == pytest.approx([0.841471, 0.540302, 0.025116, 0.999685, 0.000631], abs=5e-7)


def test_pos_02_halves_are_all_sines_then_all_cosines() -> None:
    row = sinusoidal_positions(torch.tensor([1]), 8, "halves")[0]
    assert row.tolist() == pytest.approx([0.8415, 0.0998, 0.0100, 0.0010, 0.5403, 0.9950, 0.9999, 1.0], abs=6e-5)


@pytest.mark.parametrize("dim", [6, 7, 64])
def test_halves_equal_the_oracle(dim: int) -> None:
    table = MarianSinusoidalPositionalEmbedding(70, dim).create_weight()
    assert torch.equal(sinusoidal_positions(torch.arange(70), dim, "halves"), table)


@pytest.mark.parametrize("dim", [6, 7, 64])
def test_halves_inclusive_equal_the_oracle(dim: int) -> None:
    table = M2M100SinusoidalPositionalEmbedding.get_embedding(70, dim)
    got = sinusoidal_positions(torch.arange(70), dim, "halves_inclusive")
    torch.testing.assert_close(got, table, atol=2e-5, rtol=0)  # the oracle multiplies rates in float32


def test_pos_03_both_layouts_by_hand() -> None:
    x, angle = torch.tensor([1.0, 2, 3, 4]).view(1, 1, 1, 4), rotary_rates(4)[None]
    pairs = rotate(x, angle.cos(), angle.sin(), "pairs").flatten().tolist()
    half = rotate(x, angle.cos(), angle.sin(), "half").flatten().tolist()
    assert pairs == pytest.approx([-1.1426, 1.9221, 2.9599, 4.0298], abs=5e-5)
    assert half == pytest.approx([-1.9841, 1.9599, 2.4624, 4.0198], abs=5e-5)


def test_pos_03_permuting_the_numbers_converts_one_layout_into_the_other() -> None:
    q, k = torch.randn(2, 3, 5, 8), torch.randn(2, 3, 5, 8)
    angle = torch.arange(5.0)[:, None] * rotary_rates(8)
    cos, sin = angle.cos(), angle.sin()
    order = [0, 2, 4, 6, 1, 3, 5, 7]  # the first of every pair, then the second
    pairs = rotate(q, cos, sin, "pairs") @ rotate(k, cos, sin, "pairs").mT
    half = rotate(q[..., order], cos, sin, "half") @ rotate(k[..., order], cos, sin, "half").mT
    torch.testing.assert_close(pairs, half, atol=1e-5, rtol=0)
    torch.testing.assert_close(
        rotate(q, cos, sin, "pairs")[..., order], rotate(q[..., order], cos, sin), atol=0, rtol=0
    )


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 1000), st.sampled_from(["half", "pairs"]))
def test_rotated_products_know_only_the_distance(a: int, b: int, shift: int, layout: Any) -> None:
    generator = torch.Generator().manual_seed(a + 51 * b)
    q, k = torch.randn(2, 1, 1, 1, 6, generator=generator, dtype=torch.float64)

    def product(at_q: int, at_k: int) -> float:
        rates = rotary_rates(6).double()
        turned = [
            rotate(x, (p * rates).cos()[None], (p * rates).sin()[None], layout) for x, p in ((q, at_q), (k, at_k))
        ]
        return float((turned[0] * turned[1]).sum())

    assert product(a, b) == pytest.approx(product(a + shift, b + shift), abs=1e-9)


def test_rotation_keeps_the_length_and_leaves_the_rest() -> None:
    x, angle = torch.randn(2, 3, 5, 10, dtype=torch.float64), torch.arange(5.0)[:, None] * rotary_rates(4)
    out = rotate(x, angle.cos(), angle.sin())
    assert torch.equal(out[..., 4:], x[..., 4:])
    torch.testing.assert_close(out.norm(dim=-1), x.norm(dim=-1), atol=1e-6, rtol=0)
    assert torch.equal(out[:, :, 0], x[:, :, 0])


def test_half_layout_equals_the_oracle() -> None:
    q, k = torch.randn(2, 3, 5, 8), torch.randn(2, 1, 5, 8)
    angle = torch.arange(10).view(2, 5, 1).float() * rotary_rates(8)
    whole = torch.cat([angle, angle], dim=-1)
    expected = apply_rotary_pos_emb(q, k, whole.cos(), whole.sin())
    for x, want in zip((q, k), expected, strict=True):
        torch.testing.assert_close(rotate(x, angle.cos(), angle.sin()), want, atol=1e-6, rtol=0)


def oracle_rates(head_dim: int, theta: float, scaling: dict[str, Any]) -> tuple[torch.Tensor, float]:
    config = LlamaConfig(
        head_dim=head_dim,
        num_attention_heads=2,
        hidden_size=2 * head_dim,
        max_position_embeddings=int(scaling.get("original_max_position_embeddings", 64) * scaling["factor"]),
        rope_parameters=scaling | {"rope_theta": theta},
    )
    return ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config, torch.device("cpu"))


@pytest.mark.parametrize(("dim", "theta", "factor"), [(64, 10000.0, 4.0), (10, 500000.0, 2.5)])
def test_linear_scaling_equals_the_oracle(dim: int, theta: float, factor: float) -> None:
    expected, _ = oracle_rates(dim, theta, {"rope_type": "linear", "factor": factor})
    torch.testing.assert_close(linear_rates(rotary_rates(dim, theta), factor), expected, atol=0, rtol=1e-6)


@pytest.mark.parametrize(
    ("dim", "theta", "factor", "low", "high", "length"),
    [(128, 500000.0, 8.0, 1.0, 4.0, 8192), (64, 500000.0, 32.0, 1.0, 4.0, 8192), (10, 10000.0, 3.0, 2.0, 9.0, 200)],
)
def test_banded_scaling_equals_the_oracle(
    dim: int, theta: float, factor: float, low: float, high: float, length: int
) -> None:
    scaling = {"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high}
    expected, _ = oracle_rates(dim, theta, scaling | {"original_max_position_embeddings": length})
    got = banded_rates(rotary_rates(dim, theta), factor, low, high, length)
    torch.testing.assert_close(got, expected, atol=0, rtol=1e-6)
    assert len({round(x, 3) for x in (got / rotary_rates(dim, theta)).tolist()}) >= 3  # kept, divided and blended


@pytest.mark.parametrize("truncate", [True, False])
@pytest.mark.parametrize(
    ("dim", "theta", "factor", "length", "fast", "slow"),
    [(128, 10000.0, 16.0, 4096, 32.0, 1.0), (64, 150000.0, 32.0, 4096, 32.0, 1.0), (10, 10000.0, 3.0, 50, 4.0, 0.5)],
)
def test_yarn_scaling_equals_the_oracle(
    dim: int, theta: float, factor: float, length: int, fast: float, slow: float, truncate: bool
) -> None:
    scaling = {"rope_type": "yarn", "factor": factor, "beta_fast": fast, "beta_slow": slow, "truncate": truncate}
    expected, attention_factor = oracle_rates(dim, theta, scaling | {"original_max_position_embeddings": length})
    got = yarn_rates(rotary_rates(dim, theta), theta, factor, length, fast, slow, truncate)
    torch.testing.assert_close(got, expected, atol=0, rtol=1e-6)
    assert yarn_factor(factor) == pytest.approx(attention_factor, rel=1e-12)


def test_yarn_of_factor_1_changes_nothing() -> None:
    rates = rotary_rates(16)
    torch.testing.assert_close(yarn_rates(rates, 10000.0, 1.0, 64, 32.0, 1.0, True), rates)
    assert yarn_factor(1.0) == 1.0


SHORT, LONG = [1.0, 1.1, 1.3, 2.0], [1.5, 4.0, 9.0, 30.0]


def test_longrope_chooses_its_factors_by_the_length_of_the_text() -> None:
    """Against NumPy in float64: three texts of 16, 17 and 100 tokens."""
    tokens = torch.tensor([[16], [17], [100]])
    got = longrope_rates(8, 10000.0, SHORT, LONG, 16, tokens)
    plain = 10000.0 ** (-np.arange(0, 8, 2) / 8)
    expected = np.stack([plain / SHORT, plain / LONG, plain / LONG])[:, None]
    np.testing.assert_allclose(got, expected, rtol=3e-7)


@pytest.mark.parametrize("tokens", [4, 16, 17])
def test_longrope_equals_the_oracle(tokens: int) -> None:
    scaling = {"rope_type": "longrope", "short_factor": SHORT, "long_factor": LONG, "factor": 4.0, "rope_theta": 500.0}
    config = LlamaConfig(
        head_dim=8,
        max_position_embeddings=64,
        rope_parameters=scaling | {"original_max_position_embeddings": 16},
    )
    expected, factor = ROPE_INIT_FUNCTIONS["longrope"](config, torch.device("cpu"), seq_len=tokens)
    assert torch.equal(longrope_rates(8, 500.0, SHORT, LONG, 16, torch.tensor([tokens]))[0], expected)
    assert longrope_factor(4.0, 16) == pytest.approx(factor, rel=1e-12)
    assert longrope_factor(4.0, 16) == pytest.approx(1.5**0.5)  # ln 4 is half of ln 16
    assert longrope_factor(1.0, 16) == 1.0


def test_pos_07_relative_buckets() -> None:
    at = torch.arange(10)
    buckets = relative_buckets(at, at, 32, 128, True)
    assert buckets[0].tolist() == [0, 17, 18, 19, 20, 21, 22, 23, 24, 24]
    assert buckets[9].tolist() == [8, 8, 7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (6, 11)])
def test_relative_buckets_equal_the_oracle(buckets: int, max_distance: int, bidirectional: bool) -> None:
    q, k = torch.arange(300), torch.arange(300)
    expected = T5Attention._relative_position_bucket(k[None, :] - q[:, None], bidirectional, buckets, max_distance)
    got = relative_buckets(q, k, buckets, max_distance, bidirectional)
    assert torch.equal(got, expected)
    assert int(got.max()) == buckets - 1
    batched = relative_buckets(q[None, :7] + 3, k[None], buckets, max_distance, bidirectional)
    assert torch.equal(batched[0], expected[3:10])


def test_rates_fall_from_1_to_the_inverse_of_theta() -> None:
    rates = rotary_rates(8, 10000.0)
    assert rates.dtype == torch.float32
    assert rates.tolist() == pytest.approx([1, 0.1, 0.01, 0.001])
