"""Pictures of weights: codes against NumPy, bins against the dense weights, and no memory for n x n."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from clearhead.lens.edit import edit
from clearhead.lens.edits import scale
from clearhead.lens.record import record
from clearhead.view.pooling import HIDDEN, SIDE, Grid, block, codes, decoded, picture, row, sampled
from clearhead.view.reading import always
from model.tiny import learned_encoder, post_norm_translator, relative_translator, sinusoidal_decoder, window_decoder
from view.scenes import Largest, random_model, weights


@given(st.lists(st.floats(0, 1, width=32), min_size=1, max_size=50))
def test_a_code_is_the_root_of_the_weight_in_254_steps(given: list[float]) -> None:
    p = np.array(given, dtype=np.float64)
    found = codes(torch.tensor(given)).numpy()
    assert found.dtype == np.uint8
    assert np.abs(found - (1 + 253 * np.sqrt(p))).max() <= 0.5 + 1e-4
    back = decoded(torch.from_numpy(found)).numpy()
    assert (np.abs(np.sqrt(back) - np.sqrt(p)) <= 0.5 / 253 + 1e-6).all()


def test_hidden_zero_and_not_a_number_have_codes_of_their_own() -> None:
    given = torch.tensor([HIDDEN, 0.0, 1.0, torch.nan])
    assert codes(given).tolist() == [0, 1, 254, 255]
    assert decoded(codes(given))[:3].tolist() == [HIDDEN, 0.0, 1.0]
    assert decoded(codes(given))[3].isnan()


KINDS = {
    "T5's bias, across and grouped": relative_translator,
    "windows, soft caps, grouped": window_decoder,
    "a bias beside a window": sinusoidal_decoder,
    "both ways": learned_encoder,
    "the paper's": post_norm_translator,
}


def _views(make: object, queries: int = 9, keys: int = 11) -> dict[str, object]:
    model = random_model(make())  # type: ignore[operator]
    own, other = torch.randint(3, 31, (1, keys)), torch.randint(3, 31, (1, queries))
    given = {"input_ids": own} | ({"decoder_input_ids": other} if len(model.config.stacks) == 2 else {})
    with torch.no_grad(), record(model, "*.weights") as seen:
        model(**given)
    return dict(seen)


@pytest.mark.parametrize("kind", KINDS)
def test_the_picture_of_any_attention_is_its_dense_weights(kind: str) -> None:
    for address, view in _views(KINDS[kind]).items():
        seen = view.scoring.visible.rows()  # type: ignore[attr-defined]
        dense = view.dense()[0].double()  # type: ignore[attr-defined]
        shown = torch.ones_like(dense, dtype=torch.bool) if seen is None else seen.expand(1, *dense.shape)[0]
        for head in range(len(dense)):
            back = decoded(picture(view, head, False, always).codes)  # type: ignore[arg-type]
            assert torch.equal(back >= 0, shown[head]), address
            right = dense[head].sqrt().numpy()
            assert np.abs(back.clamp(min=0).sqrt().numpy() - right)[shown[head].numpy()].max() <= 0.5 / 253 + 1e-5
            for query in (0, dense.shape[1] - 1):
                exact = row(view, head, query)  # type: ignore[arg-type]
                assert torch.equal(exact < 0, ~shown[head, query])
                assert exact.clamp(min=0).numpy() == pytest.approx(dense[head, query].numpy(), rel=1e-5, abs=1e-7)


def test_edited_weights_are_shown_as_they_were_used() -> None:
    model = random_model(window_decoder())
    ids = torch.randint(0, 41, (1, 8))
    with torch.no_grad(), edit(model, {"decoder.1.self.weights": scale(0.5)}), record(model, "*.weights") as seen:
        model(ids)
    view = seen["decoder.1.self.weights"]
    assert block(view, 2, slice(None)).clamp(min=0).sum(-1).tolist() == pytest.approx([0.5] * 8)
    assert decoded(picture(view, 2, False, always).codes).max() <= 0.505
    assert torch.equal(sampled(view, 3).dense()[0], view.dense()[0, :, ::3])


@pytest.mark.parametrize(("queries", "keys", "causal"), [(40, 40, True), (37, 50, False), (7, 61, True)])
@pytest.mark.parametrize(("row_step", "column_step"), [(1, 1), (3, 4), (5, 1), (64, 64)])
def test_a_cell_is_the_largest_weight_of_its_bin(
    queries: int, keys: int, causal: bool, row_step: int, column_step: int
) -> None:
    view = weights(queries, keys, causal=causal)
    grid = Grid(view, row_step, column_step)
    for tile in view.tiles():
        grid.add(tile)
    dense = torch.stack([block(view, head, slice(None)) for head in range(2)]).numpy()
    for r in range(grid.cells.shape[1]):
        for c in range(grid.cells.shape[2]):
            bin_ = dense[:, r * row_step : (r + 1) * row_step, c * column_step : (c + 1) * column_step]
            np.testing.assert_allclose(grid.cells[:, r, c], bin_.max((1, 2)), atol=1e-6)


@pytest.mark.parametrize("rule", [{}, {"window": 30}, {"mask": torch.rand(1, 1, 1, 600) > 0.3}])
def test_a_long_text_is_sampled_and_pooled_when_asked(rule: dict[str, object]) -> None:
    view = weights(600, 600, **rule)
    dense = block(view, 1, slice(None)).numpy()
    some, whole = (picture(view, 1, pooled, always) for pooled in (False, True))
    assert (some.row_step, some.column_step, some.sampled) == (2, 2, True)
    assert whole.codes.shape == some.codes.shape == (300, 300)
    assert not whole.sampled
    for found, right in ((some, dense[::2]), (whole, dense.reshape(300, 2, 600).max(1))):
        right = right.reshape(300, 300, 2).max(-1)
        back = decoded(found.codes).numpy()
        assert ((back < 0) == (right < 0)).all()
        assert np.abs(np.sqrt(back.clip(0)) - np.sqrt(right.clip(0))).max() <= 0.5 / 253 + 1e-5


def test_no_picture_takes_memory_for_all_weights() -> None:
    n = 32768
    view = weights(n, n, heads=1)
    with Largest() as seen:
        found = picture(view, 0, False, always)
        row(view, 0, n - 1)
    assert found.codes.shape == (SIDE, SIDE)
    assert 0 < seen.numel <= 2**19 < n * n / 1000


def test_a_picture_stops_between_tiles() -> None:
    calls = 0

    def going() -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        picture(weights(2000, 2000), 0, True, going)
