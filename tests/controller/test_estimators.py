import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.estimators import EwMean, EwRate
from controller.history import MIN_SAMPLES, CostHistory, OverlapHistory


def test_mean_of_exactly_zero_is_a_value() -> None:
    mean = EwMean(half_life_s=1.0)
    for value in (0.0, 0.0, 10.0):
        mean.update(value, dt_s=1.0)
    assert mean.mean == 5.0


def test_mean_weighs_a_sample_by_the_time_it_covers() -> None:
    mean = EwMean(half_life_s=1.0)
    for _ in range(1_000_000):
        mean.update(0.0, dt_s=0.001)
    mean.update(1.0, dt_s=1.0)
    assert mean.mean == pytest.approx(0.5)


def test_mean_is_unknown_before_the_first_sample() -> None:
    assert EwMean(1.0).mean is None
    assert EwRate(1.0).per_s is None
    assert EwRate(1.0).sd is None


def test_burst_at_the_start_is_not_thinned_by_an_empty_memory() -> None:
    rate = EwRate(half_life_s=60.0)
    for _ in range(20):
        rate.update(count=1, dt_s=0.1)
    assert rate.per_s == pytest.approx(10.0)


def test_rate_halves_its_distance_in_a_half_life_of_silence() -> None:
    rate = EwRate(half_life_s=4.0)
    for _ in range(4000):
        rate.update(10, 1.0)
    rate.update(0, 4.0)
    assert rate.per_s == pytest.approx(5.0)


@given(st.lists(st.tuples(st.integers(0, 50), st.floats(0.01, 5.0)), min_size=1, max_size=30))
def test_rate_lies_between_the_rates_it_saw(intervals: list[tuple[int, float]]) -> None:
    rate = EwRate(half_life_s=4.0)
    for count, dt_s in intervals:
        rate.update(count, dt_s)
    seen = [count / dt_s for count, dt_s in intervals]
    assert rate.per_s is not None
    assert rate.sd is not None
    assert min(seen) - 1e-9 <= rate.per_s <= max(seen) + 1e-9
    assert rate.sd >= 0


@given(st.integers(1, 40), st.floats(0.1, 5.0), st.integers(2, 9))
def test_rate_depends_on_time_not_on_how_it_is_cut(count: int, dt_s: float, parts: int) -> None:
    whole, cut = EwRate(4.0), EwRate(4.0)
    for rate in (whole, cut):
        rate.update(3, 1.0)
    whole.update(count * parts, dt_s * parts)
    for _ in range(parts):
        cut.update(count, dt_s)
    assert cut.per_s == pytest.approx(whole.per_s)


def test_spread_of_counting_noise_is_taken_off() -> None:
    import random

    rng = random.Random(5)
    steady, bursty = EwRate(60.0), EwRate(60.0)
    for i in range(4000):
        steady.update(sum(rng.random() < 0.01 for _ in range(500)), 0.25)
        high = i // 40 % 2
        bursty.update(sum(rng.random() < 0.01 for _ in range(250 + 500 * high)), 0.25)
    assert steady.per_s is not None
    assert steady.sd is not None
    assert bursty.sd is not None
    assert steady.sd < 0.2 * steady.per_s < bursty.sd


def test_rank_counts_strictly_smaller_costs() -> None:
    history = CostHistory(history_s=1000.0)
    for i in range(20):
        history.add(i, float(i % 10))
    assert history.rank(0.0) == 0.0
    assert history.rank(5.0) == 0.5
    assert history.rank(100.0) == 1.0
    assert history.mean == 4.5


def test_few_costs_say_nothing() -> None:
    history = CostHistory(history_s=1000.0)
    for i in range(MIN_SAMPLES - 1):
        history.add(i, 1.0)
    assert history.rank(0.5) is None
    assert history.mean is None


@given(st.lists(st.floats(0, 100), min_size=MIN_SAMPLES, max_size=80))
def test_history_forgets_what_is_older_than_its_memory(costs: list[float]) -> None:
    history = CostHistory(history_s=20.0)
    for second, cost in enumerate(costs):
        history.add(second * 1_000_000, cost)
    kept = costs[-20:]
    assert history.rank(50.0) == sum(c < 50.0 for c in kept) / len(kept)
    assert history.mean == pytest.approx(sum(kept) / len(kept))


def test_past_costs_are_for_the_window_in_use() -> None:
    history = OverlapHistory(history_s=1000.0, window_s=8.0)
    for i in range(20):
        history.add(i, in_flight=1.0, rate_per_s=2.0)
    assert history.costs.mean == 17.0
    history.resize(0.5)
    assert history.costs.mean == 2.0
    history.add(20, in_flight=1.0, rate_per_s=2.0)
    assert history.costs.mean == 2.0
