"""Switchback: the wealth of a bettor is fair by the coins alone; intervals hold what they say."""

import itertools

import numpy as np
import pytest

from calibration.switchback import Intervals, fair_bets, judge, log_wealth, reached, usual_harm
from calibration.switchback.outcomes import CAP

COINS = np.array(list(itertools.product([False, True], repeat=11)))


def chance(share):
    """[2^n] probability of each sequence of coins."""
    return np.prod(np.where(COINS, share, 1 - share), axis=1)


def expected_wealth(harm, share, gain=0.0):
    """[n] exact mean over every sequence of coins of the wealth after each interval."""
    return chance(share) @ np.exp(log_wealth(fair_bets(harm, COINS, share, gain)))


@pytest.mark.parametrize("share", [0.5, 0.8])
def test_wealth_is_a_martingale_over_all_coins_where_the_policy_changes_nothing(share):
    harm = np.random.default_rng(1).poisson(20, 11) * np.array([1, 1, 9] + [1] * 8)
    both = np.broadcast_to(harm.astype(float), COINS.shape)
    assert expected_wealth(both, share) == pytest.approx(np.ones(11), rel=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.3])
def test_harm_that_earlier_coins_left_behind_keeps_it_one(share):
    """Carry-over: an interval's harm depends on all the coins before it, not on its own."""
    earlier = np.cumsum(COINS, axis=1) - COINS
    harm = 20.0 + 7 * earlier + 5 * (np.arange(11) % 3)
    assert expected_wealth(harm, share) == pytest.approx(np.ones(11), rel=1e-12)


def test_effects_that_come_and_go_and_cancel_make_no_wealth():
    """Harm of 10 more and 10 less by turns, the loss first: no gain on average at any time.

    The usual harm is held at 20 by what came before, so that every interval has the same scale.
    """
    sign = np.array([0] * 7 + [1, -1, 1, -1])
    harm = np.where(COINS, 20.0 + 10 * sign, 20.0)
    harm[:, :7] = 20.0
    steady = np.where(np.arange(11) >= 7, 20.0, usual_harm(np.full(11, 20.0)))
    bets = np.where(COINS, -(harm / steady - 1), harm / steady - 1)
    wealth = chance(0.5) @ np.exp(log_wealth(np.nan_to_num(bets) / (CAP - 1)))
    assert wealth.max() <= 1 + 1e-12
    assert wealth[-1] < 1


def test_a_policy_that_spares_harm_makes_wealth_and_one_that_does_more_loses_it():
    for changed, better in ((0.5, True), (1.5, False)):
        harm = np.where(COINS, changed * 20.0, 20.0)
        assert bool(expected_wealth(harm, 0.5)[-1] > 1) is better


@pytest.mark.parametrize("gain", [0.3, -0.5])
def test_a_bet_on_more_than_the_true_gain_is_fair(gain):
    harm = np.where(COINS, (1 - gain) * 20.0, 20.0)
    assert expected_wealth(harm, 0.5, gain).max() <= 1 + 1e-12


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_no_bet_loses_more_than_was_staked(share):
    rng = np.random.default_rng(2)
    harm = rng.lognormal(3, 2, (200, 80))
    coins = rng.random((200, 80)) < share
    for gain in (-8.0, 0.0, 0.99):
        bets = fair_bets(harm, coins, share, gain)
        assert bets.min() >= -1
        assert bets.max() <= 1


def test_usual_harm_looks_back_only_and_not_before_six():
    harm = np.arange(100.0)
    later = harm.copy()
    later[50:] = 999.0
    assert np.isnan(usual_harm(harm)[:6]).all()
    assert usual_harm(harm)[6] == 2.5
    assert np.array_equal(usual_harm(harm)[6:51], usual_harm(later)[6:51])
    assert usual_harm(harm)[99] == np.arange(35, 99).mean()


def test_no_traffic_is_no_bet():
    coins = np.random.default_rng(0).random(30) < 0.5
    assert not fair_bets(np.zeros(30), coins, 0.5).any()


def fleet(gain, merges=600, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    coins = rng.random(merges) < share
    harm = rng.poisson(np.where(coins, 40 * (1 - gain), 40)).astype(float)
    return Intervals(harm, coins, share, np.arange(merges))


@pytest.mark.parametrize("gain", [0.25, 0.0, -0.6])
def test_the_gain_is_found_within_its_limits(gain):
    judged = judge([fleet(gain)])
    assert judged.low < gain < judged.high
    assert judged.gain == pytest.approx(gain, abs=0.05)
    assert judged.high - judged.low < 0.4
    expected = {0.25: "placement gain", 0.0: "no claim", -0.6: "placement loss"}
    assert judged.verdict == expected[gain]


def test_what_was_shown_once_stays_shown():
    shown, then = fleet(0.5, 100), fleet(-0.5, 200)
    both = Intervals(
        np.concatenate([shown.harm, then.harm]),
        np.concatenate([shown.by_policy, then.by_policy]),
        0.5,
        np.arange(300),
    )
    judged = judge([both])
    assert judged.e_gain[-1] < 20 < judged.e_gain.max()
    assert reached(judged.e_gain) < 100
    assert judged.verdict == "placement gain"


def test_runs_together_show_what_each_shows_times_the_other_and_in_order_of_time():
    one, two = fleet(0.2, 120, 1), fleet(0.2, 120, 2)
    together = judge([one, two])
    assert together.e_gain[-1] == pytest.approx(judge([two, one]).e_gain[-1])
    assert together.policy.merges + together.random.merges == 240
    assert together.e_gain[-1] > max(judge([one]).e_gain[-1], judge([two]).e_gain[-1])


def calm_fleets(coins, open_arm=None):
    """Fleets after six merges of 20; then each meets 4, in either arm; one arm's are still open."""
    return [
        Intervals(
            np.array([20.0] * 6 + [np.nan if open_arm is not None and coin == open_arm else 4.0]),
            np.array([False] * 6 + [coin]),
            0.5,
            np.array([*range(6), 100 + place]),
        )
        for place, coin in enumerate(coins)
    ]


def test_several_fleets_have_a_fair_bet_over_all_coins():
    found = [judge(calm_fleets(coins)) for coins in itertools.product([False, True], repeat=6)]
    for wealth in ([one.e_gain for one in found], [one.e_loss for one in found]):
        assert np.mean(wealth, axis=0) == pytest.approx(np.ones(42))


@pytest.mark.parametrize("open_arm", [False, True])
def test_open_intervals_show_nothing_that_they_might_not_show_once_settled(
    open_arm,
):
    for coins in itertools.product([False, True], repeat=5):
        early, late = judge(calm_fleets(coins, open_arm)), judge(calm_fleets(coins))
        for now, then in ((early.e_gain, late.e_gain), (early.e_loss, late.e_loss)):
            assert (now <= then[: len(now)] + 1e-12).all()


def test_forty_fleets_of_which_one_arm_has_ended_claim_nothing():
    coins = np.random.default_rng(3).random(40) < 0.5
    judged = judge(calm_fleets(coins, open_arm=False))
    assert judged.merges == 6 * 40 + coins.sum()
    assert judged.verdict == "no claim"
    # Were the open ones passed over, as they were once, this would be a gain for certain.
    alone = [run for run, coin in zip(calm_fleets(coins), coins, strict=True) if coin]
    assert judge(alone).verdict == "placement gain"


def test_open_intervals_at_the_end_of_one_run_change_nothing():
    whole = fleet(0.2, 100)
    harm = np.concatenate([whole.harm, [np.nan, np.nan]])
    coins = np.concatenate([whole.by_policy, [True, False]])
    judged, before = judge([Intervals(harm, coins, 0.5, np.arange(102))]), judge([whole])
    assert judged.e_gain.tolist() == before.e_gain.tolist()
    assert (judged.gain, judged.low, judged.high) == (before.gain, before.low, before.high)
    assert judged.policy == before.policy


def test_nothing_is_said_of_nothing():
    for runs in ([], [fleet(0.3, 5)]):
        judged = judge(runs)
        assert (judged.gain, judged.low, judged.high) == (None, None, None)
        assert judged.verdict == "no claim"
