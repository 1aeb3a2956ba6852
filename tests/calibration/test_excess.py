"""What windows add to a run's violations is told from the run's own requests outside of them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration.paired import excess_violations

Floats = NDArray[np.float64]
RUN_S, WINDOW_S = 600.0, 2.0


def windows(starts_s: Floats) -> Floats:
    return np.stack([starts_s, starts_s + WINDOW_S], axis=1)


def excess(starts_s: Floats, added: float, seed: int, slow: float = 0.0) -> tuple[float, int]:
    """Found excess, and requests in windows, of a run that is busy every other 10 s.

    Of its requests one in a hundred violates for each that came in the half second before, `slow`
    more all through a slow run, and `added` more in a window.
    """
    rng = np.random.default_rng(seed)
    candidates = np.sort(rng.uniform(0, RUN_S, round(45 * RUN_S)))
    busy = candidates % 20 < 10
    kept = busy | (rng.random(len(candidates)) < 1 / 3)
    arrival = candidates[kept]
    within = ((arrival[:, None] >= starts_s) & (arrival[:, None] < starts_s + WINDOW_S)).any(axis=1)
    load = np.arange(len(arrival)) - np.searchsorted(arrival, arrival - 0.5)
    chance = 0.01 * load + slow + added * within
    violates = rng.random(len(arrival)) < chance
    found = excess_violations(arrival, arrival + 0.05, violates, windows(starts_s))
    assert found is not None
    return found, int(np.count_nonzero(within))


CALM, BUSY = np.arange(12.0, RUN_S, 20.0), np.arange(2.0, RUN_S, 20.0)


@pytest.mark.parametrize("starts_s", [CALM, BUSY], ids=["calm", "busy"])
@pytest.mark.parametrize("slow", [0.0, 0.3], ids=["fast", "slow"])
def test_windows_that_do_nothing_add_nothing_wherever_they_lie(
    starts_s: Floats, slow: float
) -> None:
    shares = []
    for seed in range(40):
        found, inside = excess(starts_s, 0.0, seed, slow)
        shares.append(found / inside)
    assert abs(np.mean(shares)) < 0.01


@pytest.mark.parametrize("starts_s", [CALM, BUSY], ids=["calm", "busy"])
@pytest.mark.parametrize("slow", [0.0, 0.3], ids=["fast", "slow"])
def test_what_windows_add_is_found(starts_s: Floats, slow: float) -> None:
    shares = []
    for seed in range(40):
        found, inside = excess(starts_s, 0.4, seed, slow)
        shares.append(found / inside)
    assert np.mean(shares) == pytest.approx(0.4, abs=0.02)


def test_a_slow_run_hides_in_all_violations_what_the_excess_shows() -> None:
    """Pairs of a calm and a busy schedule on machines of any speed: the same gain, less noise."""
    rng = np.random.default_rng(1)
    raw, added = [], []
    for seed in range(60):
        slow = rng.uniform(0, 0.3, 2)
        (calm, n), (busy, m) = excess(CALM, 0.4, seed, slow[0]), excess(BUSY, 0.4, seed, slow[1])
        added.append(busy - calm)
        raw.append(busy - calm + 18_000 * (slow[1] - slow[0]))
        assert m > 2 * n
    assert np.mean(added) > 0
    assert np.std(added) < np.std(raw) / 10


def test_long_requests_that_windows_meet_more_often_are_no_harm() -> None:
    """Half of the requests take 4 s and violate, whatever happens: windows of 2 s meet more."""
    rng = np.random.default_rng(0)
    arrival = np.arange(0.0, 3000.0, 0.05)
    long = rng.random(len(arrival)) < 0.5
    starts = np.arange(20.0, 2990.0, 40.0)
    took = np.where(long, 4.0, 0.1)
    found = excess_violations(arrival, arrival + took, long, windows(starts))
    inside = 6.0 * 10 + 2.1 * 10
    assert found is not None
    assert abs(found) / (len(starts) * inside) < 0.02


def test_without_windows_nothing_is_added_and_without_others_it_is_not_known() -> None:
    arrival, violates = np.arange(10.0), np.ones(10, np.bool_)
    assert excess_violations(arrival, arrival + 0.1, violates, np.zeros((0, 2))) == 0.0
    everywhere = np.array([[-1.0, 99.0]])
    assert excess_violations(arrival, arrival + 0.1, violates, everywhere) is None
