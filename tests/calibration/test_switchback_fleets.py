"""Error and power of the switchback's test on made fleets, looked at after every merge."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from bench import switchback
from bench.fleets import World, look, outcomes, periodic, slack_fleet, slow, soon, telegraph, tosses
from bench.power import PAPER, carry_over, crossed, effect_of, power_of, traces_of
from bench.switchback import error_of
from calibration.contender import RUN_ID, Entrant
from calibration.measurement import Measurement, Ratio, Ratios
from calibration.profile import OverlapFigures, Profile, encode_profile
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


MEASURED = Measurement(
    started_us=0,
    measured_s=600.0,
    seed=0,
    server="tiny",
    merging="2 learners",
    rate_per_s=6.0,
    prompt_tokens=64,
    output_tokens=16,
    slo_given=False,
    merges=37,
    merges_discarded=2,
    window_s=Ratio(value=2.06),
    longest_window_s=3.0,
    merging_effect=Ratios(requests=500, base_requests=1000, violating=0.2, base_violating=0.05),
    load_matched=True,
    load_reason="",
    accounts={},
    hardware={},
    versions={},
)


def profile_at(tmp_path: Path, measurement: Measurement | None) -> Path:
    path = tmp_path / "profile.json"
    overlap = OverlapFigures(counting="arriving", slowdown=1.3)
    made = Profile(name="made", window_s=2.06, overlap=overlap, measurement=measurement)
    path.write_bytes(encode_profile(made))
    return path


def test_a_profile_gives_its_window_in_cells_what_counts_and_how_often_a_merge_violates(tmp_path):
    effect = effect_of(profile_at(tmp_path, MEASURED))
    assert (effect.window_s, effect.counting, effect.violating) == (2.0, "arriving", 0.2)
    assert "slowdown 1.3" in effect.origin
    assert effect_of(profile_at(tmp_path, None)).violating is None


def test_harm_follows_the_profiles_window_and_violations_are_their_share_of_it(tmp_path):
    effect = effect_of(profile_at(tmp_path, MEASURED))
    paper, short = (traces_of("bursty", 1, 20, one) for one in (PAPER, effect))
    usual = power_of(paper, "bursty", "matched", 20)
    harmed = power_of(short, "bursty", "matched", 20)
    missed = power_of(short, "bursty", "matched", 20, effect.violating)
    assert harmed["harm_a_merge"] < usual["harm_a_merge"] / 3
    assert missed["harm_a_merge"] == pytest.approx(0.2 * harmed["harm_a_merge"], rel=0.05)
    carried = carry_over(short, "bursty", 20)
    assert 0 < carried["policy_alone"] < carried["random_alone"]


def ran(monkeypatch, tmp_path, *options):
    made = tmp_path / "made.json"
    told = ["switchback", "--merges", "60", "--traces", "1", "--regime", "bursty"]
    monkeypatch.setattr(sys, "argv", [*told, "--json", str(made), *options])
    switchback.main()
    return json.loads(made.read_text())


def test_the_command_makes_the_part_that_is_asked_for_at_a_profiles_effect(monkeypatch, tmp_path):
    path = profile_at(tmp_path, MEASURED)
    made = ran(monkeypatch, tmp_path, "--part", "power", "--profile", str(path))
    assert set(made["powers"]) == {
        f"bursty, {control}{what}"
        for control in ("matched", "uniform")
        for what in ("", ", violations")
    }
    assert made["errors"] == made["carry_over"] == {}
    assert made["effect"]["window_s"] == 2.0


def test_what_no_profile_has_a_part_in_is_refused_beside_one(monkeypatch, tmp_path, capsys):
    path = profile_at(tmp_path, MEASURED)
    with pytest.raises(SystemExit):
        ran(monkeypatch, tmp_path, "--part", "errors", "--profile", str(path))
    assert "leave the other --part out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        ran(monkeypatch, tmp_path, "--profile", str(tmp_path / "absent.json"))
    assert "cannot read --profile" in capsys.readouterr().err
