"""The seasonal forecast takes over where it foretells better, and nowhere else."""

from collections.abc import Iterable

import numpy as np
import pytest
from worlds import T0, bins, engine, run

from controller.estimators import EwRate
from controller.season import Floats, find_season
from controller.skill import SeasonalSkill
from slackwater.events import Step

SECOND_US = 1_000_000


def periodic(seconds: int, period_s: float = 60.0) -> Floats:
    """Rates: calm, and for the last quarter of each period four times as many arrivals."""
    return np.where(np.arange(seconds) % period_s >= 0.75 * period_s, 16.0, 4.0)


def memoryless(seconds: int, rng: np.random.Generator) -> Floats:
    """Bursts of 3 s on average, 6 s of calm between them, both exponential."""
    lengths = rng.exponential(np.tile([6.0, 3.0], seconds)).cumsum()
    return np.where(np.searchsorted(lengths, np.arange(seconds)) % 2 == 1, 12.0, 4.0)


def has_skill(counts: Iterable[int], known: Iterable[bool] | None = None) -> list[bool]:
    """Whether the season is in charge after each second."""
    skill, rate, arrived, told = SeasonalSkill(1.0, 1800.0), EwRate(4.0), 0, []
    seen = list(counts)
    for second, (count, fresh) in enumerate(zip(seen, known or [True] * len(seen), strict=True)):
        arrived += count
        rate.update(count, 1.0)
        skill.observe((second + 1) * SECOND_US, arrived, rate.per_s if fresh else None, 8.0)
        told.append(skill.season is not None)
    return told


def test_takes_over_on_periodic_traffic() -> None:
    told = has_skill(np.random.default_rng(1).poisson(periodic(1800)).tolist())
    assert not any(told[:300])
    assert all(told[900:])


@pytest.mark.parametrize("seed", range(2))
def test_never_takes_over_on_steady_or_memoryless_traffic(seed: int) -> None:
    rng = np.random.default_rng(seed)
    assert not any(has_skill(rng.poisson(8.0, 1500).tolist()))
    assert not any(has_skill(rng.poisson(memoryless(1500, rng)).tolist()))
    assert not any(has_skill([5] * 1200))
    assert not any(has_skill([0] * 1200))


def test_is_dropped_within_two_minutes_when_the_period_ends() -> None:
    rng = np.random.default_rng(2)
    rates = np.concatenate([periodic(1500), memoryless(600, rng)])
    told = has_skill(rng.poisson(rates).tolist())
    assert told[1499]
    assert not any(told[1500 + 120 :])


def test_seconds_unknown_are_no_evidence() -> None:
    counts = np.random.default_rng(3).poisson(periodic(1200)).tolist()
    assert has_skill(counts)[-1]
    assert not any(has_skill(counts, [False] * 1200))
    assert not any(has_skill(counts, [second % 9 != 0 for second in range(1200)]))


@pytest.mark.parametrize("history_s", [1.0, 5.0, 8.0])
def test_window_as_long_as_the_memory_or_longer_is_no_evidence(history_s: float) -> None:
    made = engine("slack_seasonal", history_s=history_s, window_s=8.0, tick_s=1.0)
    results = run(made, world_with_a_season()[:400], 99.0)
    assert len(results) >= 90
    skill = SeasonalSkill(1.0, history_s)
    for second, window_s in enumerate([8.0] * 40 + [2.0] * 20 + [60.0] * 100, start=1):
        skill.observe(second * SECOND_US, 5 * second, 5.0, window_s)
        assert skill.season is None


def test_season_is_dropped_once_windows_outgrow_the_memory() -> None:
    counts = np.random.default_rng(1).poisson(periodic(1300)).tolist()
    skill, rate, arrived, told = SeasonalSkill(1.0, 600.0), EwRate(4.0), 0, []
    for second, count in enumerate(counts + counts, start=1):
        arrived += count
        rate.update(count, 1.0)
        window_s = 8.0 if second <= len(counts) else 601.0
        skill.observe(second * SECOND_US, arrived, rate.per_s, window_s)
        told.append(skill.season is not None)
    assert told[1299]
    assert not told[-1]


@pytest.mark.parametrize("period_s", [25.0, 43.7, 120.0])
def test_period_is_found_to_a_fraction_of_a_second(period_s: float) -> None:
    counts = np.random.default_rng(4).poisson(periodic(1800, period_s)).astype(float)
    season = find_season(counts, 1.0, 1800.0)
    assert season is not None
    assert season.period_s == pytest.approx(period_s, abs=0.2)
    assert season.rate_per_s == pytest.approx(7.0, rel=0.05)
    calm, burst = season.arrivals(1800.0 + period_s * np.array([0.1, 0.8]) - 1800 % period_s, 4.0)
    assert calm == pytest.approx(16.0, rel=0.3)
    assert burst == pytest.approx(64.0, rel=0.3)


def world_with_a_season() -> list[object]:
    """Eighteen minutes of bins and steps of 1 s: a calm of 30 s, a burst of 10 s, and so on."""
    rates = np.repeat(periodic(1100, 40.0) / 4, 4)
    counts = np.random.default_rng(6).poisson(rates).tolist()
    steps = [
        Step(run_id="r", at_us=T0 + i * SECOND_US, learner="a", step=i, tokens=1000,
             step_time_s=1.0, steps_since_merge=0, tokens_since_merge=0)
        for i in range(1, 1101)
    ]  # fmt: skip
    return [*bins("s", counts), *steps]


def test_candidates_carry_what_the_season_expects_of_each_window() -> None:
    made = engine("slack_seasonal", "slack", min_gap_steps=1, max_gap_steps=2000, tick_s=1.0)
    results = run(made, world_with_a_season(), 1090.0)
    at_us = [d.at_us for d, _ in results if d.reason == "season_calmer_ahead"]
    assert len(at_us) > 20
    for decision, _ in results:
        if decision.at_us not in at_us or decision.candidates is None:
            continue
        overlap = decision.candidates.overlap
        assert len(overlap) == len(decision.candidates.overlap_sd)
        if decision.policy == "slack":
            assert len(set(overlap)) == 1
        else:
            assert decision.score is not None
            assert decision.threshold is not None
            assert overlap[0] == pytest.approx(decision.score, abs=1e-3)
            assert min(overlap) < decision.threshold < overlap[0]


def test_batches_of_delivery_change_nothing_under_a_season() -> None:
    world = world_with_a_season()
    settings = {"min_gap_steps": 1, "max_gap_steps": 2000, "tick_s": 1.0}
    whole = run(engine("slack_seasonal", **settings), world, 1000.0)
    made = engine("slack_seasonal", **settings)
    for observation in reversed(world):
        made.observe(observation)  # type: ignore[arg-type]
    parts = [d for end_s in range(0, 1001, 20) for d in made.advance(T0 + end_s * SECOND_US)]
    assert parts == whole
    assert any(d.reason.startswith("season_") for d, _ in whole)
