"""Learning rates."""

import pytest

from clearhead.train.schedule import cosine, inverse_sqrt, paper_peak, wsd


def test_num_09_the_papers_schedule() -> None:
    share, peak = inverse_sqrt(4000), paper_peak(512, 4000)
    assert peak * share(1) == pytest.approx(1.7469e-7, rel=1e-4)
    assert peak * share(4000) == pytest.approx(6.9877e-4, rel=1e-4)
    assert peak * share(16000) == pytest.approx(3.4939e-4, rel=1e-4)
    for step in (1, 10, 3999, 4000, 50000):  # equation 3, word for word
        assert peak * share(step) == pytest.approx(512**-0.5 * min(step**-0.5, step * 4000**-1.5))


@pytest.mark.parametrize("warmup", [0, 1, 100])
def test_num_09_no_division_by_zero_at_the_edges(warmup: int) -> None:
    for share in (inverse_sqrt(warmup), cosine(warmup, 100), wsd(warmup, 101, 20), wsd(warmup, 101, 0)):
        values = [share(step) for step in range(1, 101)]
        assert all(0.0 < value <= 1.0 for value in values)
    assert paper_peak(512, 0) == 512**-0.5


def test_cosine_rises_in_a_line_and_ends_at_the_floor() -> None:
    share = cosine(10, 110, floor=0.1)
    assert [share(step) for step in (1, 5, 10)] == pytest.approx([0.1, 0.5, 1.0])
    assert share(60) == pytest.approx(0.55)
    assert share(110) == pytest.approx(0.1)
    assert share(500) == pytest.approx(0.1)


def test_wsd_rises_stays_and_comes_down_at_the_end() -> None:
    share = wsd(10, 100, 20, floor=0.1)
    assert [share(step) for step in (1, 10, 11, 50, 80)] == pytest.approx([0.1, 1.0, 1.0, 1.0, 1.0])
    assert share(95) == pytest.approx(0.1 + 0.9 * (1 - 0.75**0.5))
    assert share(100) == pytest.approx(0.1)
    down = [share(step) for step in range(80, 101)]
    assert down == sorted(down, reverse=True)
