"""The paper's regimes as experiments: what must hold of them whatever the seed."""

from dataclasses import replace

import numpy as np
import pytest

from calibration.published import BURSTY, PUBLISHED, REGIMES, SIDECAR_RATE_PER_S, Regime
from calibration.regimes import POLICIES, Measured, measured
from calibration.serving import ClosedLoop, requests_of
from calibration.trials import Arm, Load, Trial
from slackwater.cli.reproduce_job import protocol_of
from slackwater.cli.reproduce_traffic import load_of
from slackwater.errors import InputError


def arm(policy: str, excess_pp: float, random_pp: float = 6.0) -> Arm:
    random = np.full(4, random_pp)
    return Arm(policy, 8, 1000, 990, 0.0, excess_pp, random, 3.0, 1.2)


def arms(excess_pp: float, random_pp: float = 6.0) -> list[Arm]:
    return [arm(policy, excess_pp, random_pp) for policy in (*POLICIES, "oracle")]


@pytest.fixture(scope="module")
def offline() -> list[Arm]:
    protocol = protocol_of("bursty", 1000, 0)
    return [Trial(load_of("bursty", s, protocol), protocol).offline(8) for s in range(4)]


def test_published_derived_figures_are_those_of_the_paper() -> None:
    figures = {(row.regime, row.key): row.value for row in PUBLISHED}
    assert len(figures) == len(PUBLISHED)
    gain = figures["aperiodic", "random"] - figures["aperiodic", "online"]  # type: ignore[operator]
    assert gain == pytest.approx(figures["aperiodic", "gain"], abs=0.015)
    assert figures["bursty", "wa_over_random"] == pytest.approx(0.663)
    assert figures["aperiodic", "spared"] == pytest.approx(1.46 / 100 * SIDECAR_RATE_PER_S * 600)


@pytest.mark.parametrize("regime", REGIMES)
def test_every_published_figure_is_measured_and_no_other(regime: Regime) -> None:
    figures, summaries = measured(regime, [arms(5.0)] * 2, np.random.default_rng(0))
    assert set(figures) == {row.key for row in PUBLISHED if row.regime == regime}
    assert [told.policy for told in summaries] == [*POLICIES, "oracle"]


def test_oracle_of_the_bursty_regime_is_as_published_at_any_phase(offline: list[Arm]) -> None:
    for one in offline:
        assert one.budget == BURSTY.budget
        assert 4.2 < one.excess_pp < 4.8


def test_matched_random_of_the_bursty_regime_has_the_published_mean_in_its_envelope(
    offline: list[Arm],
) -> None:
    drawn = np.concatenate([one.random_pp for one in offline])
    assert 6.0 < drawn.mean() < 7.2
    low, high = np.quantile(drawn, [0.05, 0.95])
    assert low < 6.257 < high


def test_saturated_sidecars_leave_nothing_to_violate() -> None:
    protocol = protocol_of("high_pressure", 80, 0)
    assert protocol.draws == 2
    trial = Trial(load_of("high_pressure", 0, protocol), protocol)
    one = trial.offline(8)
    assert one.unmerged_pp > 95
    assert abs(one.excess_pp) < 0.5
    assert np.abs(one.random_pp).max() < 0.5


def test_random_schedules_at_once_cost_what_each_costs_alone() -> None:
    protocol = protocol_of("aperiodic", 20, 0)
    load = load_of("aperiodic", 3, protocol)
    at_once = Trial(load, protocol).offline(8).random_pp
    # A client told apart from the model's own type is served schedule by schedule.
    alone = Trial(load, replace(protocol, model=_Wrapped())).offline(8).random_pp
    assert at_once == pytest.approx(alone)


class _Wrapped:
    name = "wrapped"
    serve = ClosedLoop().serve


def test_gain_and_spared_requests_follow_from_the_arms() -> None:
    rng = np.random.default_rng(0)
    figures, _ = measured("aperiodic", [arms(5.0), arms(4.0), arms(6.0)], rng)
    assert figures["gain"].value == pytest.approx(1.0)
    assert figures["gain_share"].value == pytest.approx(100 / 6)
    assert figures["spared"].value == pytest.approx(60 / 1.46)
    assert figures["online"] == Measured(5.0, 1.0, 8.0)


def test_policies_that_gain_are_counted_from_six_runs_on() -> None:
    rng = np.random.default_rng(0)
    better = [arms(5.0 + run / 100) for run in range(6)]
    assert measured("high_pressure", better[:5], rng)[0]["gaining"].value is None
    assert measured("high_pressure", better, rng)[0]["gaining"].value == len(POLICIES) + 1
    worse = [arms(7.0 + run / 100) for run in range(6)]
    assert measured("high_pressure", worse, rng)[0]["gaining"].value == 0


def test_run_without_a_request_is_refused() -> None:
    protocol = protocol_of("constant", 10, 0)
    load = Load("silent", requests_of([1.0], 1200.0, e2e_s=[0.73]), 1200, 0)
    with pytest.raises(InputError, match="silent: its run has no request"):
        Trial(load, protocol)
