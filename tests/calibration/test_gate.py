import numpy as np
import pytest

from calibration.gate import (
    RunFigures,
    effect_step,
    envelope_step,
    independence_step,
    load_step,
    mean_envelope,
    pooled_p05,
    runs_step,
)
from calibration.phase import phase_lock
from calibration.profile import Effect
from slackwater.errors import InputError

CELL_S, CELLS, SEGMENT_S = 0.5, 1200, 600.0


def effect(low: float, merges: int = 12, odds_low: float | None = None) -> Effect:
    return Effect(
        merges=merges,
        p95_ratio=max(low, 1.2),
        p95_ratio_low=low,
        p95_ratio_high=3.0,
        odds_ratio=odds_low and odds_low + 1,
        odds_ratio_low=odds_low,
    )


@pytest.mark.parametrize(
    ("measured", "passed"),
    [
        (None, None),
        (effect(1.1), True),
        (effect(0.95), False),
        (effect(1.0), False),
        (effect(1.5, merges=9), None),
        (effect(1.5, odds_low=1.2), True),
        (effect(1.5, odds_low=0.8), False),
    ],
)
def test_effect_transfers_when_all_that_is_known_lies_above_one(
    measured: Effect | None, passed: bool | None
) -> None:
    assert effect_step(measured).passed is passed


@pytest.mark.parametrize(("n", "passed"), [(1, False), (5, False), (6, True), (7, True)])
def test_six_runs_are_the_fewest_for_a_two_sided_claim(n: int, passed: bool) -> None:
    step = runs_step(n)
    assert step.passed is passed
    assert passed == (step.figures["least_p"] <= 0.05)  # type: ignore[operator]


def test_what_was_not_checked_did_not_pass() -> None:
    assert load_step(None).passed is None
    assert independence_step(None).passed is None


def random_runs(n: int, rng: np.random.Generator) -> tuple[list[RunFigures], np.ndarray]:
    draws = rng.normal(rng.uniform(4, 8, size=(n, 1)), 1.0, size=(n, 40_000))
    runs = [
        RunFigures(f"r{i}", 5000, 5.0, float(row.mean()), float(np.quantile(row, 0.05)))
        for i, row in enumerate(draws)
    ]
    return runs, draws


def test_pooled_percentile_is_that_of_the_mean_over_runs() -> None:
    runs, draws = random_runs(7, np.random.default_rng(1))
    exact = float(np.quantile(mean_envelope(list(draws)), 0.05))
    assert pooled_p05(runs) == pytest.approx(exact, abs=0.02)
    assert pooled_p05(runs[:1]) == pytest.approx(runs[0].random_p05_pp)


def test_envelope_takes_the_exact_percentile_where_it_is_given() -> None:
    runs, _ = random_runs(7, np.random.default_rng(1))
    assert envelope_step(runs, 5.01).passed
    assert not envelope_step(runs, 5.0).passed


def test_envelopes_of_different_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="same number of draws"):
        mean_envelope([[1.0, 2.0], [1.0]])


def test_run_without_requests_or_with_unknown_cost_is_refused() -> None:
    with pytest.raises(InputError, match="1 request or more"):
        RunFigures("r", 0, 1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="finite costs"):
        RunFigures("r", 10, float("nan"), 1.0, 1.0)


def segments(
    rng: np.random.Generator, starts_s: np.ndarray, period_s: float, ratio: float = 3.0
) -> np.ndarray:
    """Counts [runs, cells]; bursts of `ratio` times the quiet rate fill a quarter of a period."""
    at = starts_s[:, None] + np.arange(CELLS) * CELL_S
    rate = np.where(at % period_s < period_s / 4, ratio, 1.0)
    return rng.poisson(4.0 * rate * CELL_S)


def aperiodic(rng: np.random.Generator, runs: int) -> np.ndarray:
    """Bursts at random times: 30 s quiet and 10 s busy at three times the rate, on average."""
    flips = rng.random((runs, CELLS))
    busy = np.zeros((runs, CELLS), dtype=bool)
    for c in range(1, CELLS):
        leave = np.where(busy[:, c - 1], CELL_S / 10, CELL_S / 30)
        busy[:, c] = busy[:, c - 1] ^ (flips[:, c] < leave)
    return rng.poisson(np.where(busy, 12.0, 4.0) * CELL_S)


@pytest.mark.parametrize("period_s", [120.0, 100.0, 120.5, 60.0, 40.0])
def test_consecutive_segments_of_a_periodic_load_are_one_phase(period_s: float) -> None:
    starts = SEGMENT_S * np.arange(8)
    found = phase_lock(segments(np.random.default_rng(1), starts, period_s), CELL_S)
    assert not found.independent
    assert found.phases == 1
    assert found.period_s == pytest.approx(period_s, rel=0.1)
    assert "random phases" in found.reason


def test_weaker_period_that_locks_is_found_beside_a_stronger_one_that_does_not() -> None:
    rng = np.random.default_rng(5)
    at = 576.0 * np.arange(8)[:, None] + np.arange(CELLS) * CELL_S
    rate = 2.0 * (1 + np.sin(2 * np.pi * at / 47.5)) + 1.5 * (at % 36 >= 12)
    found = phase_lock(rng.poisson(rate * CELL_S), CELL_S)
    assert not found.independent
    assert found.period_s == pytest.approx(36.0, rel=0.05)


@pytest.mark.parametrize("shift", [0, 20])
def test_run_given_twice_is_no_run_more(shift: int) -> None:
    long = np.random.default_rng(6).poisson(1.0, size=(7, CELLS + shift))
    runs = np.vstack([long[:, :CELLS], long[3:4, shift:]])
    found = phase_lock(runs, CELL_S)
    assert not found.independent
    assert "runs 3 and 7 are the same traffic" in found.reason


def test_few_distinct_phases_are_too_few() -> None:
    starts = SEGMENT_S * np.arange(9)  # 600 s is 6 2/3 periods of 90 s
    found = phase_lock(segments(np.random.default_rng(1), starts, 90.0), CELL_S)
    assert not found.independent
    assert found.phases == 3


def test_random_phases_of_a_periodic_load_are_independent() -> None:
    rng = np.random.default_rng(2)
    refused = sum(
        not phase_lock(segments(rng, rng.uniform(0, 120, size=8), 120.0), CELL_S).independent
        for _ in range(200)
    )
    assert refused / 200 < 0.04


def test_constant_load_shows_no_period() -> None:
    rng = np.random.default_rng(3)
    found = [phase_lock(rng.poisson(2.0, size=(8, CELLS)), CELL_S) for _ in range(200)]
    assert sum(lock.period_s is not None for lock in found) / 200 < 0.04
    assert all(lock.independent for lock in found)


def test_aperiodic_bursts_are_not_refused() -> None:
    rng = np.random.default_rng(4)
    refused = sum(not phase_lock(aperiodic(rng, 8), CELL_S).independent for _ in range(100))
    assert refused / 100 < 0.04


def test_noiseless_and_idle_runs() -> None:
    still = np.tile(np.arange(CELLS) % 40 < 10, (6, 1))
    assert "same traffic" in phase_lock(still, CELL_S).reason
    assert not phase_lock(still, CELL_S).independent
    assert phase_lock(np.zeros((6, CELLS)), CELL_S).independent


def test_runs_too_short_to_show_a_period_are_refused() -> None:
    with pytest.raises(InputError, match="32 cells or more"):
        phase_lock(np.ones((6, 31)), CELL_S)
