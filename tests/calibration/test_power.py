import numpy as np
import pytest

from calibration.power import detectable, plan, shown
from calibration.signflip import sign_flip
from slackwater.errors import InputError


def pilot(sd: float, n: int = 40) -> np.ndarray:
    x = np.random.default_rng(1).normal(size=n)
    return (x - x.mean()) / x.std(ddof=1) * sd


def test_large_gain_needs_six_runs_and_a_small_one_many() -> None:
    rng = np.random.default_rng(0)
    [large] = plan(pilot(1.0), 600.0, 3.0, rng, multiples=[1])
    [small] = plan(pilot(1.0), 600.0, 0.6, rng, multiples=[1])
    assert large.runs == 6
    assert large.total_s == 3600.0
    # The t test of 0.6 standard deviations has power 0.8 at 24 runs.
    assert small.runs == pytest.approx(24, abs=3)
    assert small.power >= 0.8


def test_longer_runs_need_fewer_of_them() -> None:
    plans = plan(pilot(1.0), 600.0, 0.6, np.random.default_rng(0))
    assert [p.run_s for p in plans] == [600.0, 1200.0, 2400.0]
    runs = [p.runs for p in plans if p.runs is not None]
    assert runs == sorted(runs, reverse=True)
    assert len(runs) == 3


def test_gain_out_of_reach_has_no_number_of_runs() -> None:
    [found] = plan(pilot(5.0), 600.0, 0.1, np.random.default_rng(0), multiples=[1], max_runs=10)
    assert found.runs is None
    assert found.total_s is None
    assert found.power < 0.3


def test_pilot_without_spread_needs_the_fewest() -> None:
    [found] = plan([1.0] * 6, 600.0, 0.1, np.random.default_rng(0), multiples=[1])
    assert (found.runs, found.power) == (6, 1.0)


def test_same_seed_same_plan() -> None:
    first, second = (plan(pilot(1.0), 600.0, 0.8, np.random.default_rng(7)) for _ in range(2))
    assert first == second


def test_planned_test_is_the_gates() -> None:
    rng = np.random.default_rng(2)
    experiments = rng.normal(0.8, 1, size=(200, 7))
    by_gate = [sign_flip(d, "two-sided").p_value <= 0.05 and d.mean() > 0 for d in experiments]
    assert shown(experiments, rng) == np.mean(by_gate)


@pytest.mark.parametrize(
    ("differences", "gain_pp", "said"),
    [
        ([1.0] * 5, 1.0, "5 pilot runs"),
        ([1.0] * 5 + [float("nan")], 1.0, "finite"),
        ([1.0] * 6, 0.0, "must be above 0"),
    ],
)
def test_impossible_plans_are_refused(differences: list[float], gain_pp: float, said: str) -> None:
    with pytest.raises(InputError, match=said):
        plan(differences, 600.0, gain_pp, np.random.default_rng(0))


def test_detectable_gain_is_the_one_whose_plan_needs_as_many_runs() -> None:
    rng = np.random.default_rng(0)
    least = detectable(pilot(1.0), 24, rng)
    # The t test shows 0.6 standard deviations with power 0.8 in 24 runs.
    assert least == pytest.approx(0.6, abs=0.05)
    [needed] = plan(pilot(1.0), 600.0, least, rng, multiples=[1])
    assert needed.runs == pytest.approx(24, abs=2)


def test_detectable_gain_shrinks_with_longer_runs_and_is_unknown_under_six() -> None:
    rng = np.random.default_rng(0)
    short, long = (detectable(pilot(1.0), 12, rng, multiple=m) for m in (1, 4))
    assert short is not None
    assert long == pytest.approx(short / 2, rel=0.15)
    assert detectable(pilot(1.0), 5, rng) is None
    assert detectable(np.zeros(6), 6, rng) == pytest.approx(0.0, abs=1e-6)


def test_gain_below_the_least_worth_a_claim_is_never_shown_however_many_the_runs() -> None:
    pilot = np.random.default_rng(8).normal(0, 0.5, 40)
    [shown_one] = plan(pilot, 600.0, 1.0, np.random.default_rng(9), multiples=(1,))
    assert shown_one.runs is not None
    [worth_none] = plan(pilot, 600.0, 1.0, np.random.default_rng(9), multiples=(1,), least_pp=1.3)
    assert worth_none.runs is None
    assert worth_none.power < 0.05
    least = detectable(pilot, 12, np.random.default_rng(9), least_pp=1.3)
    assert least is not None
    assert least > 1.3
