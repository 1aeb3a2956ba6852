"""What merges do to latency: on made data with a known truth, and where nothing can be said."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made_effect import Made

from calibration.effect import (
    Block,
    Interval,
    Observed,
    Window,
    agreement,
    contrast,
    measure,
    spread,
)
from calibration.effect.after import spill_over
from calibration.effect.agreement import overall
from calibration.effect.by_load import in_flight
from calibration.effect.precision import half_width, more_s
from calibration.effect.sample import Sample, draw_rounds, drawn
from calibration.effect.windows import as_if_merged, in_windows, of_arm
from slackwater.errors import InputError
from slackwater.statuses import CLIENT_STATUSES

DRAWS = 400


def measured(observed, seed=1, **given):
    asked = {"slo_s": None, "precision": 0.1, "draws": DRAWS, **given}
    return measure(observed, rng=np.random.default_rng(seed), **asked)


def sample(latency_s, rounds, merges=0):
    found = np.asarray(latency_s, float)
    return Sample(found, np.ones(len(found)), np.asarray(rounds, np.int64), merges)


def counts(rounds, rng=None, draws=DRAWS):
    return draw_rounds(rounds, rng or np.random.default_rng(0), draws)


def every_number(found):
    """All floats anywhere in a result."""
    if isinstance(found, float):
        yield found
    elif isinstance(found, dict):
        for value in found.values():
            yield from every_number(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from every_number(value)
    elif hasattr(found, "__dataclass_fields__"):
        for name in found.__dataclass_fields__:
            yield from every_number(getattr(found, name))


@pytest.fixture(scope="module")
def harmful():
    made = Made(effect=2.3, spread=0.1, rounds=10, block_s=15.0)
    return measured(made.observed(np.random.default_rng(4)))


def test_a_known_effect_lies_in_the_intervals_and_1_outside(harmful):
    found = harmful.effect.merges
    for ratio in (found.p50_ratio, found.p95_ratio):
        assert 1 < ratio.low < 2.3 < ratio.high
    assert found.odds_ratio.low > 1
    assert found.excess_pp.low > 0


def test_merges_that_do_nothing_have_a_ratio_of_1_though_windows_meet_long_requests_more_often():
    rng = np.random.default_rng(2)
    ratios, unweighed = [], []
    for _ in range(20):
        observed = Made(latency_s=1.0).observed(rng)
        met, base = in_windows(observed), as_if_merged(observed)
        plain = replace(base, weight=np.ones(len(base.weight)))
        median, expected, naive = (
            drawn(one, 1.0, counts(4, draws=0)).quantiles[0, 0] for one in (met, base, plain)
        )
        ratios.append(median / expected)
        unweighed.append(median / naive)
    assert np.mean(ratios) == pytest.approx(1, abs=0.02)
    assert np.mean(unweighed) > 1.03


def test_times_are_kept_as_a_mean_and_a_hundred_parts_of_it(harmful):
    base, window = harmful.base_spread, harmful.window_spread
    assert window.mean_s / base.mean_s == pytest.approx(2.3, rel=0.15)
    for kept in (base, window):
        assert len(kept.scatter) == 100
        assert np.mean(kept.scatter) == pytest.approx(1, abs=1e-4)
    # The made latencies scatter by a factor of exp(0.35), and harm does by 1.1 beside.
    assert base.scatter[94] / base.scatter[4] == pytest.approx(np.exp(2 * 1.65 * 0.35), rel=0.1)


def test_merges_that_do_nothing_keep_the_times_though_windows_meet_long_requests_more_often():
    rng = np.random.default_rng(2)
    found = [measured(Made(latency_s=1.0).observed(rng), draws=2) for _ in range(20)]
    assert np.mean(
        [one.window_spread.mean_s / one.base_spread.mean_s for one in found]
    ) == pytest.approx(1, abs=0.02)


def test_times_that_never_ended_are_in_no_spread_and_stand_in_its_way():
    assert spread(np.arange(1.0, 101.0)).mean_s == pytest.approx(50.5)
    assert spread([1.0] * 199 + [np.inf]).mean_s == 1.0
    assert spread([1.0] * 99 + [np.inf]) is None
    assert spread([]) is None


def test_learners_that_change_nothing_are_shown_to(harmful):
    idle = harmful.effect.learners
    assert idle.p95_ratio.low < 1 < idle.p95_ratio.high


def test_one_round_with_most_requests_does_not_shrink_the_interval():
    rng = np.random.default_rng(0)
    base = rng.normal(1, 0.1, 600)
    # Eleven rounds of 10 requests do nothing; one of 300 trebles them.
    latency_s = np.concatenate([rng.normal(1, 0.1, 110), rng.normal(3, 0.1, 300)])
    of_round = np.concatenate([np.arange(110) % 11, np.full(300, 11)])

    def compared(rounds, ours, theirs):
        return contrast(sample(latency_s, ours), sample(base, theirs), 2.0, counts(rounds))

    by_round = compared(12, of_round, np.arange(600) % 12)
    by_request = compared(410, np.arange(410), np.arange(600) % 410)
    assert by_round.p50_ratio.low < 1.2
    assert by_round.p50_ratio.high > 2.5
    assert by_request.p50_ratio.low > 2.5


def test_so_few_as_five_rounds_have_the_true_ratio_in_nearly_all_their_intervals():
    rng, inside = np.random.default_rng(5), 0
    for _ in range(60):
        made = Made(effect=2.0, rounds=5, drift=0.15, spread=0.2, block_s=15.0).observed(rng)
        drawings = counts(5, rng, draws=300)
        found = contrast(in_windows(made), as_if_merged(made), 0.2, drawings).p50_ratio
        inside += found.low <= 2 <= found.high
    assert inside >= 52


def test_what_the_machine_was_like_in_a_round_is_in_all_arms_of_it():
    rng = np.random.default_rng(3)
    of_round = np.arange(1200) % 12
    speed = np.exp(rng.normal(0, 0.5, 12))[of_round]
    base, ours = (speed * rng.normal(1, 0.05, 1200) for _ in range(2))
    found = contrast(sample(ours, of_round), sample(base, of_round), 2.0, counts(12))
    assert found.p50_ratio.low < 1 < found.p50_ratio.high
    assert found.p50_ratio.high / found.p50_ratio.low < 1.15


def test_the_same_arrivals_in_all_arms_are_a_matched_load():
    made = Made(rounds=6, block_s=10)
    assert measured(made.observed(np.random.default_rng(3))).load.matched


def test_a_request_that_was_never_answered_violates_and_is_in_no_percentile_as_a_number():
    base = sample(np.full(100, 0.1), np.arange(100) % 10)
    lost = sample([0.1] * 80 + [math.inf] * 20, np.arange(100) % 10)
    found = contrast(lost, base, 0.2, counts(10))
    assert found.violating == pytest.approx(0.2)
    assert found.quantiles_s == (0.1, None, None)
    assert found.p50_ratio.value == 1
    assert found.p95_ratio is None


def test_all_violated_on_both_sides_has_no_odds_and_no_nan():
    slow = sample(np.full(50, 1.0), np.arange(50) % 10)
    found = contrast(slow, slow, 0.5, counts(10))
    assert found.odds_ratio is None
    assert found.excess_pp == Interval(0, 0, 0)


@pytest.mark.parametrize(("merges", "rounds"), [(9, 10), (50, 4)])
def test_few_merges_or_rounds_give_a_figure_and_no_interval(merges, rounds):
    few = sample(np.full(50, 1.0), np.arange(50) % rounds, merges)
    many = sample(np.full(50, 0.5), np.arange(50) % rounds)
    assert contrast(few, many, 0.7, counts(rounds)).p95_ratio == Interval(2.0)


@pytest.mark.parametrize("without", ["merges", "learners", "requests"])
def test_what_is_missing_is_named(without):
    observed = Made(effect=2, rounds=1).observed(np.random.default_rng(1))
    if without == "merges":
        observed = replace(observed, windows=[])
    else:
        blocks = observed.of_arm("merges" if without == "requests" else "learners")
        kept = ~np.isin(observed.block, blocks)
        names = ("arrival_s", "end_s", "status", "tokens", "block")
        observed = replace(observed, **{name: getattr(observed, name)[kept] for name in names})
    said = {"merges": "no merge", "learners": "without merges", "requests": "no request met"}
    with pytest.raises(InputError, match=said[without]):
        measured(observed)


def test_no_figure_is_ever_nan(harmful):
    numbers = list(every_number(harmful))
    assert len(numbers) > 100
    assert not [n for n in numbers if math.isnan(n)]


def test_requests_of_an_arm_add_up(harmful):
    for account in harmful.accounts.values():
        assert account.due > 0
        parts = [getattr(account, status) for status in CLIENT_STATUSES]
        assert sum(parts) == account.due


def test_harm_after_the_window_ends_where_it_was_made_to_end():
    rng = np.random.default_rng(5)
    made = Made(rounds=5, rate=20)
    observed = made.observed(rng)
    latency_s = observed.end_s - observed.arrival_s
    for window in made.windows:
        after_s = observed.arrival_s - window.end_s
        latency_s[(after_s >= 0) & (after_s < 0.5)] *= 1.6
    slowed = replace(observed, end_s=observed.arrival_s + latency_s)
    drawn_so = counts(observed.rounds, rng)
    base = drawn(of_arm(observed, "learners"), np.inf, drawn_so)
    assert spill_over(slowed, base, drawn_so).lasts_s == 0.5
    after = spill_over(observed, base, drawn_so)
    assert (after.lasts_s, after.bounded) == (0, True)


def test_requests_between_merges_are_as_long_as_others_though_the_next_merge_meets_the_long_ones():
    rng, ratios = np.random.default_rng(5), []
    for _ in range(40):
        observed = Made(latency_s=1.0, effect=3.0, rounds=6).observed(rng)
        drawn_so = counts(observed.rounds, rng, 2)
        base = drawn(of_arm(observed, "learners"), np.inf, drawn_so)
        bins = spill_over(observed, base, drawn_so).bins[3:5]
        ratios.append([one.p50_ratio.value for one in bins])
    # 0.96 and 0.92 where just those that the next merge met are left out.
    assert np.mean(ratios, axis=0) == pytest.approx(np.ones(2), abs=0.025)


def test_load_groups_tell_merges_on_a_busy_server_from_others():
    rng = np.random.default_rng(6)
    observed = Made(effect=2.0, rounds=6, latency_s=0.3).observed(rng)
    groups = measured(observed).effect.by_load
    assert sum(group.merges for group in groups) == len(observed.windows)
    assert [g.least for g in groups] == sorted(g.least for g in groups)
    assert all(g.contrast.p50_ratio.value > 1.3 for g in groups)


def test_in_flight_counts_what_was_sent_and_had_not_ended():
    observed = Observed(
        [Block("learners", 0, 0, 10)],
        [],
        np.array([0.0, 1.0, 2.0]),
        np.array([5.0, 3.0, 2.5]),
        *(np.zeros(3, np.int64) for _ in range(3)),
    )
    block = np.zeros(5, np.int64)
    at_s = np.array([0.5, 1.5, 2.2, 4.0, 6.0])
    assert in_flight(observed, block, at_s).tolist() == [1, 2, 3, 1, 0]


def test_a_request_that_meets_two_merges_stands_in_both():
    observed = Observed(
        [Block("merges", 0, 0, 10)],
        [Window(0, 1.0, 2.0), Window(0, 4.0, 5.0)],
        np.array([1.5, 3.0]),
        np.array([4.5, 3.5]),
        *(np.zeros(2, np.int64) for _ in range(3)),
    )
    found = in_windows(observed)
    assert found.merges == 2
    assert found.latency_s.tolist() == [3.0, 3.0]


def test_an_interval_half_as_wide_takes_four_times_as_long():
    wide = Interval(2.0, 2.0 / 1.21, 2.0 * 1.21)
    assert half_width(wide) == pytest.approx(0.21)
    assert more_s(wide, 0.1, 600) == 1800
    assert more_s(wide, 0.5, 600) == 0
    assert more_s(Interval(2.0), 0.1, 600) is None


def test_two_measurements_are_the_same_changed_or_cannot_be_told():
    before = {"same": Interval(2, 1.9, 2.1), "changed": Interval(2, 1.9, 2.1)}
    before |= {"wide": Interval(2, 1.9, 2.1), "none": Interval(2)}
    now = {"same": Interval(2.1, 2, 2.2), "changed": Interval(4, 3.8, 4.2)}
    now |= {"wide": Interval(3, 1.5, 6), "none": Interval(2, 1.9, 2.1)}
    found = {one.name: one.word for one in agreement(before, now)}
    assert found == {"same": "same", "changed": "changed", "wide": "unknown", "none": "unknown"}
    assert overall(agreement(before, now), ["same"]) == "changed"
    del before["changed"]
    assert overall(agreement(before, now), ["same"]) == "same"
    assert overall(agreement(before, now), ["same", "wide"]) == "unknown"
    assert overall([], ["same"]) == "unknown"


def test_one_of_five_figures_is_seldom_said_to_have_changed_where_none_has():
    rng, wide = np.random.default_rng(8), 1.3

    def drawn_anew():
        values = np.exp(rng.normal(0, math.log(wide) / 1.96, 5))
        return {str(n): Interval(v, v / wide, v * wide) for n, v in enumerate(values)}

    words = [overall(agreement(drawn_anew(), drawn_anew()), "0") for _ in range(1000)]
    # 22% without regard to how many are looked at.
    assert words.count("changed") <= 65


@pytest.mark.slow
@pytest.mark.parametrize("drift", [0.0, 0.15])
@pytest.mark.parametrize(("effect", "rounds"), [(1.0, 6), (1.0, 12), (2.0, 11)])
def test_intervals_cover_the_truth_about_as_often_as_they_say(effect, rounds, drift):
    rng = np.random.default_rng(11)
    trials, covered = 120, np.zeros(2)
    for _ in range(trials):
        made = Made(effect=effect, rounds=rounds, drift=drift, spread=0.1, block_s=15.0)
        observed = made.observed(rng)
        drawn_so = counts(rounds, rng, 800)
        found = contrast(in_windows(observed), as_if_merged(observed), 0.2, drawn_so)
        ratios = (found.p50_ratio, found.p95_ratio)
        covered += [ratio.low <= effect <= ratio.high for ratio in ratios]
    # 95% of 120 is 114; fewer than 107 come one time in a thousand.
    assert (covered >= 107).all(), covered / trials
