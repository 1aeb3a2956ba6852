from dataclasses import replace

import numpy as np
import pytest

from calibration.placement import Grid
from calibration.serving import (
    BurstSchedule,
    ClosedLoop,
    excess_violation,
    requests_of,
    start_costs,
    windows_of,
)
from calibration.serving.overlap import Counting
from slackwater.errors import InputError

DURATION_S, WINDOW_S, CELL_S, SLO_S = 600.0, 8.0, 0.5, 1.0
CELLS, WINDOW, MIN_GAP, BUDGET = 1200, 16, 36, 8
BURSTY = ClosedLoop(schedule=BurstSchedule(quiet=4, busy=12, period_s=120.0, burst_s=30.0))
EMPTY = requests_of([], DURATION_S)
ALONE = BURSTY.serve(EMPTY, windows_of([], WINDOW_S))
TRACE = requests_of(ALONE.arrival_s, DURATION_S, e2e_s=ALONE.latency_s)


SCATTERED = replace(BURSTY, scatter=(0.5, 0.75, 1.0, 1.75), slowed_scatter=(0.7, 0.75, 1.25, 1.3))


def grid(counting: Counting) -> Grid:
    """The published case names no largest gap: the run's length is none."""
    costs = start_costs(TRACE, WINDOW_S, CELL_S, counting)
    return Grid.from_costs(costs, WINDOW, MIN_GAP, CELLS)


def test_matched_random_of_the_bursty_regime_is_as_published() -> None:
    starts = CELL_S * grid("arriving").draw(BUDGET, 4000, np.random.default_rng(1))
    rates = 100 * BURSTY.violation_rates(EMPTY, starts, WINDOW_S, SLO_S)
    assert 6.0 < rates.mean() < 7.2
    low, high = np.quantile(rates, [0.05, 0.95])
    assert low < 6.257 < high


@pytest.mark.parametrize("counting", ["arriving", "in_service"])
def test_oracle_of_the_bursty_regime_is_as_published(counting: Counting) -> None:
    _, cells = grid(counting).optimum(BUDGET)
    windows = windows_of(CELL_S * cells, WINDOW_S)
    excess = excess_violation(BURSTY, EMPTY, windows, SLO_S)
    assert excess.no_merge_rate == 0.0
    assert excess.excess is not None
    assert 4.2 < 100 * excess.excess < 4.7


def test_batch_that_starts_in_the_window_is_slow_and_one_under_way_is_not() -> None:
    model = ClosedLoop(schedule=BurstSchedule(quiet=1, busy=1, period_s=9.0, burst_s=0.0))
    served = model.serve(requests_of([], 5.0), windows_of([1.0], 1.0))
    assert served.arrival_s == pytest.approx(np.array([0, 0.73, 1.46, 2.70, 3.43, 4.16, 4.89]))
    assert served.latency_s.tolist() == [0.73, 0.73, 1.24, 0.73, 0.73, 0.73, 0.73]
    assert served.harmed.tolist() == [False, False, True, False, False, False, False]


def test_all_of_a_batch_share_its_latency_and_its_size_follows_the_schedule() -> None:
    served = BURSTY.serve(EMPTY, windows_of([], WINDOW_S))
    starts, sizes = np.unique(served.arrival_s, return_counts=True)
    assert sizes.tolist() == [12 if s % 120 < 30 else 4 for s in starts.tolist()]


def test_many_schedules_at_once_give_what_one_at_a_time_does() -> None:
    rng = np.random.default_rng(3)
    starts = CELL_S * grid("arriving").draw(BUDGET, 10, rng)
    arrivals = np.sort(rng.uniform(0, DURATION_S, 3000))
    recorded = requests_of(arrivals, DURATION_S, sidecar=rng.integers(0, 2, 3000))
    for model, requests in ((BURSTY, EMPTY), (ClosedLoop(), recorded), (SCATTERED, EMPTY)):
        rates = model.violation_rates(requests, starts, WINDOW_S, SLO_S)
        for row, rate in zip(starts, rates, strict=True):
            served = model.serve(requests, windows_of(row, WINDOW_S))
            assert served.violation_rate(SLO_S) == pytest.approx(rate)


def test_scattered_batches_are_late_as_often_as_their_times_say() -> None:
    """One in four of the usual times is over 1.0 s, and of the slowed every second."""
    windows = windows_of(np.arange(10.0, 590.0, 40.0), WINDOW_S)
    served = SCATTERED.serve(EMPTY, windows)
    late = served.latency_s > SLO_S
    assert late[~served.harmed].mean() == pytest.approx(0.25, abs=0.02)
    assert late[served.harmed].mean() == pytest.approx(0.5, abs=0.02)
    assert served.latency_s[~served.harmed].mean() == pytest.approx(0.73, abs=0.01)
    assert len(served.latency_s) == len(BURSTY.serve(EMPTY, windows).latency_s)


@pytest.mark.parametrize(
    ("scatter", "slowed"),
    [
        ((1.0, 1.0), (1.0,)),
        ((0.5, 1.0), (0.9, 1.1)),
        ((1.5, 0.5), (0.9, 1.1)),
        ((0.0, 2.0), (0.9, 1.1)),
        ((0.9, 1.1), (float("nan"), 1.1)),
        ((), ()),
    ],
)
def test_scatter_that_no_batches_have_is_refused(
    scatter: tuple[float, ...], slowed: tuple[float, ...]
) -> None:
    with pytest.raises(InputError, match="must be above 0, rise, have a mean of 1"):
        ClosedLoop(scatter=scatter, slowed_scatter=slowed)


def test_recorded_load_is_sent_whole_without_merges_and_less_with_them() -> None:
    arrivals = np.sort(np.random.default_rng(4).uniform(0, DURATION_S, 5000))
    requests = requests_of(arrivals, DURATION_S)
    alone = ClosedLoop().serve(requests, windows_of([], WINDOW_S))
    assert np.sort(alone.request).tolist() == list(range(5000))
    merged = ClosedLoop().serve(requests, windows_of([100.0, 200.0], WINDOW_S))
    assert 4800 < len(merged.request) < 5000


def test_client_with_nothing_to_send_waits_for_the_next_request() -> None:
    served = ClosedLoop().serve(requests_of([0.1, 50.0, 50.1], 60.0), windows_of([49.0], 8.0))
    assert served.request.tolist() == [0, 1, 2]
    assert served.harmed.tolist() == [False, True, True]


def test_impossible_client_is_refused() -> None:
    with pytest.raises(InputError, match="no shorter than the first"):
        ClosedLoop(batch_s=2.0, slowed_batch_s=1.0)
    with pytest.raises(InputError, match="no longer than their period"):
        BurstSchedule(quiet=1, busy=2, period_s=10.0, burst_s=11.0)


@pytest.mark.parametrize(
    ("client", "said"),
    [
        (ClosedLoop(batch_s=1e-9), "batch_s 1e-09: 600 s have 6e.11 of them, and 10,000,000"),
        (
            ClosedLoop(
                schedule=BurstSchedule(quiet=1, busy=2, period_s=1e-9, burst_s=0.0),
            ),
            "schedule.period_s 1e-09: 600 s have",
        ),
        (
            ClosedLoop(
                batch_s=1e-3,
                slowed_batch_s=1e-3,
                schedule=BurstSchedule(quiet=9000, busy=9000, period_s=60.0, burst_s=5.0),
            ),
            "would send .* requests in a run, and 100,000,000 are allowed",
        ),
    ],
)
def test_a_client_that_would_fill_the_memory_is_refused(client: ClosedLoop, said: str) -> None:
    with pytest.raises(InputError, match=said):
        client.serve(EMPTY, windows_of([], WINDOW_S))
