"""Error and power of the switchback's test on made fleets, looked at after every merge."""

import numpy as np
import pytest

from bench.fleets import World, look, outcomes, periodic, slack_fleet, slow, soon, telegraph, tosses
from bench.switchback import crossed, error_of, power_of, traces_of
from calibration.contender import RUN_ID, Entrant
from calibration.protocol import corridor_of
from calibration.simulate import CELL_S, Segment, corridor_settings, simulate
from calibration.switchback import fair_bets, log_wealth
from controller.decider import switchback_of
from controller.policies import policy_named
from controller.settings import ControllerSettings
from replay_producer.generators import generate
from slackwater.cli.evaluate_sources import served

WORLDS = {
    "periodic": World(periodic, soon),
    "aperiodic": World(telegraph, soon),
    "slow": World(slow, soon),
}


@pytest.fixture(scope="module")
def drawn():
    return tosses(2000, 300)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("world", WORLDS)
def test_at_most_one_fleet_in_twenty_without_an_effect_ever_claims_one(drawn, world):
    found = error_of(WORLDS[world], drawn)
    assert found["gain"] <= 0.05
    assert found["loss"] <= 0.05
    # What the peeking would have cost: the same looks by a test that is made for one.
    assert found["naive"] > 0.1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_gain_of_slack_on_bursty_traffic_is_claimed_within_150_merges_by_four_fleets_in_five():
    found = power_of(traces_of("bursty", 3, 150), "bursty", "matched", 150)
    assert found["fleets"] >= 300
    assert found["power"]["150"] >= 0.8


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_made_fleet_merges_where_the_controller_would():
    """The rule in `slack_fleet` against the real decider, with the same coins, on one trace."""
    duration_s = 2400.0
    corridor = corridor_of(duration_s, 8.0, 18.0, 72.0, CELL_S)
    base = ControllerSettings(switchback="matched", seed=3)
    settings = corridor_settings(base, corridor)
    requests = served(generate("bursty", duration_s, seed=1), duration_s)
    entrant = Entrant("slack", policy_named("slack"), settings)
    [placed] = simulate(requests, [Segment(0, corridor)], [entrant])
    coins = switchback_of(settings, f"{RUN_ID}:0")
    fleet = slack_fleet(look(requests, corridor, CELL_S), coins, 100)
    ended = np.array([requests.arrival_s, requests.arrival_s + requests.e2e_s])
    real = [
        int(((ended[0] < at + 8) & (ended[1] > at)).sum())
        for at in (merge.start_cell * CELL_S for merge in placed["slack"])
    ]
    reasons = {merge.reason for merge in placed["slack"]}
    assert {"drawn_step", "calm_enough"} <= reasons
    count = min(len(real), len(fleet.harm))
    assert count > 40
    assert np.mean(real[:count]) == pytest.approx(np.mean(fleet.harm[:count]), rel=0.1)


def test_forty_fleets_without_an_effect_seldom_claim_one():
    world = WORLDS["aperiodic"]
    harm, coins = outcomes(world, tosses(40, 60), np.random.default_rng(0))
    for bets in (fair_bets(harm, coins, 0.5), -fair_bets(harm, coins, 0.5)):
        assert crossed(log_wealth(bets))[:, -1].mean() <= 0.1
