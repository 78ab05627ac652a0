"""Every property that a page states, checked on the page's own numbers."""

import numpy as np
import pytest
import torch

from clearhead.lesson import TOPICS, page
from clearhead.lesson.encoder_decoder import small_model
from clearhead.lesson.scaling import slope
from clearhead.lesson.threads import one_thread
from clearhead.reference import softmax
from clearhead.tap import sites


def test_torch_gives_the_worked_example_in_float32() -> None:
    shown, truth = page("torch"), page("attention")
    assert shown["output_float32"].dtype == np.float32
    np.testing.assert_allclose(shown["output_float32"], truth["output"], rtol=0, atol=1e-6)
    np.testing.assert_allclose(shown["weights_float32"], truth["weights"], rtol=0, atol=1e-6)
    assert 0 < shown["float32_minus_float64"] < 1e-6


def test_torch_formula_equals_the_builtin() -> None:
    beside = page("torch")["beside_builtin"]
    assert beside["Q_K_V"] == ["(2, 3, 8)", "(2, 5, 16)"] == beside["output"]
    assert beside["weights"] == ["(2, 3, 3)", "(2, 5, 5)"]
    assert max(beside["row_sums_minus_1"] + beside["open"] + beside["fused"]) < 1e-6
    assert beside["allclose"] == [True, True]


def test_torch_mistakes_are_larger_than_rounding() -> None:
    wrong = page("torch")["mistakes"]
    assert min(wrong["no_scale"] + wrong["softmax_over_queries"]) > 0.1


def test_heads_shapes_and_equality_with_the_builtin() -> None:
    shown = page("heads")
    shapes = dict(zip(shown["shapes"]["what"], shown["shapes"]["shape"], strict=True))
    assert shapes["X"] == shapes["output"] == shapes["concat"] == "3 16"
    assert shapes["split"] == shapes["heads"] == "4 3 4"
    assert shapes["weights"] == "4 3 3"
    assert max(shown["beside_builtin"]["difference"]) < 1e-6
    np.testing.assert_allclose(shown["weights"].sum(-1), 1, rtol=0, atol=1e-6)
    assert all(abs(shown["weights"][0] - shown["weights"][i]).max() > 0.1 for i in (1, 2, 3))  # each looks elsewhere


def test_order_is_invisible_without_positions() -> None:
    shown = page("order")
    without, with_positions = shown["difference"]["difference"]
    assert without < 1e-6 < 0.1 < with_positions
    np.testing.assert_allclose(shown["output"], shown["output_of_shuffled"], rtol=0, atol=1e-6)


def test_order_positions_are_drowned_by_the_factor() -> None:
    shown = page("order")["drowned_positions"]
    loud, drowned, paper = shown["ratio"]
    assert loud / drowned == pytest.approx(8, abs=1e-5)
    assert paper == pytest.approx(loud, abs=1e-5)
    assert shown["change"][1] < shown["change"][0] / 3
    assert shown["rms_position"] == pytest.approx([0.5**0.5] * 3, abs=1e-6)


def test_positions_rows_differ_and_pairs_lie_on_circles() -> None:
    shown = page("positions")
    assert len(np.unique(shown["positional_encoding_5x8"], axis=0)) == 5
    assert min(shown["closest_rows"]["smallest_distance"]) > 0.1
    np.testing.assert_allclose(shown["pair_lengths"], 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(shown["rates"]["rate"], [1, 0.1, 0.01, 0.001], rtol=1e-15)


def test_positions_dot_products_depend_on_the_distance_alone() -> None:
    shown = page("positions")
    dots = shown["dot_products"]
    for distance in range(5):
        np.testing.assert_allclose(dots.diagonal(distance), dots[0, distance], rtol=0, atol=1e-14)
    assert (np.diff(dots[0, :4]) < 0).all()  # falls from 0 to 3, as the note says
    far = shown["shifted"]["dot_product"]
    np.testing.assert_allclose(far, far[0], rtol=0, atol=1e-10)


def test_positions_smallest_distance_is_over_all_pairs() -> None:
    table = page("positions")["positional_encoding_5x8"]
    every = [np.linalg.norm(table[i] - table[j]) for i in range(5) for j in range(i)]
    assert page("positions")["closest_rows"]["smallest_distance"][0] == pytest.approx(min(every), abs=1e-14)


def test_positions_are_drawn_as_waves() -> None:
    lines = page("positions")["waves"].splitlines()
    assert [line.split()[0] for line in lines] == ["sin", "cos"] * 4
    assert {len(line) for line in lines} == {30}
    assert lines[1].split()[2][0] == "█"  # cos 0 = 1


def test_mask_zeros_are_exact() -> None:
    shown = page("mask")
    weights = shown["causal_weights_full_precision"]
    assert (weights[np.triu_indices(3, 1)] == 0).all()
    assert shown["above_diagonal"]["exactly_0"] == shown["above_diagonal"]["count"] == [3]
    np.testing.assert_array_equal(shown["causal_mask"], np.tri(3, dtype=bool))
    np.testing.assert_allclose(weights.sum(-1), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(shown["causal_output_full_precision"][0], page("attention")["V"][0], rtol=0, atol=1e-15)
    np.testing.assert_allclose(weights[2], page("attention")["weights"][2], rtol=0, atol=1e-15)


def test_mask_padding_hides_the_filling() -> None:
    shown = page("mask")
    assert not shown["padding_mask"][:, 2].any()
    assert shown["padding_mask"][:, :2].all()
    assert (shown["padded_weights"][:, 2] == 0).all()
    assert shown["padded_minus_alone"] < 1e-15
    np.testing.assert_array_equal(shown["causal_and_padding"], shown["causal_mask"] & shown["padding_mask"])


def test_mask_row_that_sees_nothing_gives_zeros() -> None:
    shown = page("mask")
    for name in ("blind_weights", "blind_output", "blind_gradient"):
        assert (shown[name][1] == 0).all(), name
        assert (shown[name][[0, 2]] != 0).all(), name


def test_scaling_keeps_spread_and_slope() -> None:
    shown = page("scaling")
    plain, scaled = shown["unscaled"], shown["scaled"]
    root = np.sqrt(plain["E"])
    assert plain["E"] == [4, 16, 64, 256, 1024]
    np.testing.assert_allclose(plain["std_of_scores"] / root, 1, atol=0.05)
    np.testing.assert_allclose(scaled["std_of_scores"], 1, atol=0.05)
    assert (np.diff(plain["largest_weight"]) > 0).all()
    assert (np.diff(plain["entropy_bits"]) < 0).all()
    assert plain["slope"][-1] < 1e-3 < 0.25 < min(scaled["slope"])
    assert max(scaled["largest_weight"]) < 0.3 < 0.9 < plain["largest_weight"][-1]


def test_scaling_slope_is_the_derivative() -> None:
    scores = torch.tensor([[0.3, -1.0, 2.0, 0.1]], dtype=torch.float64)
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    assert isinstance(jacobian, torch.Tensor)
    assert slope(softmax(scores.numpy()))[0] == pytest.approx(jacobian[0, :, 0].norm().item(), abs=1e-14)


def test_encoder_decoder_who_attends_to_whom() -> None:
    shown = page("encoder-decoder")
    np.testing.assert_array_equal(shown["encoder_self"], np.ones((4, 4), bool))
    np.testing.assert_array_equal(shown["decoder_self"], np.tri(3, dtype=bool))
    np.testing.assert_array_equal(shown["decoder_cross"], np.ones((3, 4), bool))
    np.testing.assert_allclose(shown["cross_weights"].sum(-1), 1, rtol=0, atol=1e-6)


def test_encoder_decoder_changes_reach_what_may_see_them() -> None:
    changes = page("encoder-decoder")["changes"]
    assert changes["encoder"] == [True, False]
    assert changes["logits[<s>]"] == changes["logits[die]"] == [True, False]
    assert changes["logits[Katze]"] == [True, True]


def test_encoder_decoder_shapes_cover_every_site() -> None:
    shown = page("encoder-decoder")["shapes"]
    shapes = dict(zip(shown["site"], shown["shape"], strict=True))
    assert tuple(shapes) == sites(small_model().config)
    assert shapes["encoder.0.self.weights"] == "1 2 4 4"
    assert shapes["decoder.0.cross.k"] == "1 2 4 6"
    assert shapes["decoder.0.cross.scores"] == "1 2 3 4"
    assert shapes["logits"] == "1 3 7"
    sizes = {"B": 1, "H": 2, "E": 6, "D": 12, "F": 24, "V": 7}
    for site, letters, shape in zip(shown["site"], shown["letters"], shown["shape"], strict=True):
        sizes |= {"Q": 4, "T": 4} if site.startswith("encoder") else {"Q": 3, "T": 3}
        sizes["K"] = 3 if "decoder.0.self" in site else 4
        assert [sizes[letter] for letter in letters.split()] == [int(n) for n in shape.split()], site


@pytest.mark.parametrize("topic", TOPICS)
def test_a_page_is_the_same_every_time_and_leaves_the_generator_alone(topic: str) -> None:
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first, second = page(topic), page(topic)
    assert torch.equal(torch.get_rng_state(), state)
    for step in first.steps:
        np.testing.assert_equal(step.value, second[step.name])


def test_a_page_uses_one_thread_and_gives_the_others_back() -> None:
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
    torch.set_num_threads(2)
    page("heads")
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert after == 2
