"""The predictable ceiling: nothing on constant traffic, nearly all of it where the rate moves."""

import numpy as np
import pytest

from calibration.crossfit import count_halves, predictable_ceiling, request_halves
from calibration.placement import Grid
from slackwater.errors import InputError

CORRIDOR = (16, 36, 144)
BUDGET = 12


def oracle_gain(counts: object) -> float:
    grid = Grid(counts, *CORRIDOR)
    mean = grid.mean(BUDGET)
    return (mean - grid.optimum(BUDGET)[0]) / mean


def test_oracle_gains_on_constant_traffic_and_cross_fit_does_not() -> None:
    rng = np.random.default_rng(4)
    gains, ceilings = [], []
    for _ in range(20):
        counts = rng.poisson(0.5, 1200)
        gains.append(oracle_gain(counts))
        ceilings.append(predictable_ceiling(count_halves(counts, *CORRIDOR), BUDGET, rng, 5).gain)
    assert min(gains) > 0.2
    assert abs(np.mean(ceilings)) < 0.03


def test_cross_fit_keeps_what_a_moving_rate_gives() -> None:
    rng = np.random.default_rng(4)
    counts = rng.poisson(np.where(np.arange(1200) // 60 % 4 == 0, 9.0, 1.0))
    ceiling = predictable_ceiling(count_halves(counts, *CORRIDOR), BUDGET, rng, 10)
    assert ceiling.gain is not None
    assert ceiling.standard_error is not None
    assert 0.5 < ceiling.gain < oracle_gain(counts)
    assert 0 < ceiling.standard_error < 0.05


def test_halves_by_request_and_by_count_are_the_same_law() -> None:
    rng = np.random.default_rng(8)
    counts = rng.poisson(np.where(np.arange(1200) // 60 % 4 == 0, 9.0, 1.0))
    cells = np.repeat(np.arange(1200), counts)

    def build(mask: np.ndarray) -> Grid:
        return Grid(np.bincount(cells[mask], minlength=1200), *CORRIDOR)

    by_request = predictable_ceiling(request_halves(build, len(cells)), BUDGET, rng, 30)
    by_count = predictable_ceiling(count_halves(counts, *CORRIDOR), BUDGET, rng, 30)
    assert by_request.gain == pytest.approx(by_count.gain, abs=0.02)


def test_no_requests_leave_the_ceiling_undefined() -> None:
    halves = count_halves([0] * 1200, *CORRIDOR)
    assert predictable_ceiling(halves, BUDGET, np.random.default_rng(0), 3).gain is None


def test_one_split_has_no_standard_error() -> None:
    halves = count_halves([3] * 1200, *CORRIDOR)
    ceiling = predictable_ceiling(halves, BUDGET, np.random.default_rng(0), 1)
    assert ceiling.gain is not None
    assert ceiling.standard_error is None


def test_what_cannot_be_split_is_refused() -> None:
    with pytest.raises(InputError, match="whole numbers"):
        count_halves([0.5, 1.0], *CORRIDOR)
    with pytest.raises(InputError, match="splits is 0"):
        predictable_ceiling(count_halves([3] * 1200, *CORRIDOR), 12, np.random.default_rng(0), 0)
    with pytest.raises(InputError, match="smallest that fits"):
        predictable_ceiling(count_halves([3] * 1200, *CORRIDOR), 99, np.random.default_rng(0), 1)
