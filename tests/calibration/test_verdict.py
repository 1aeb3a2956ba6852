from dataclasses import replace

import numpy as np
import pytest

from calibration.equivalence import ArmLoad, LoadMatch, load_match
from calibration.gate import RunFigures
from calibration.phase import PhaseLock
from calibration.profile import Effect
from calibration.verdict import Verdict, judge
from slackwater.errors import InputError

GAINS = (1.4, 0.9, 2.1, 1.7, 0.4, 1.2)
SPREAD = PhaseLock(None, None, None, True, "no period stands out of the load")
LOCKED = PhaseLock(120.0, 1, 1.0, False, "the runs start at 1 phase")
MATCHED = load_match({"none": ArmLoad([9], [9]), "slack": ArmLoad([9], [9])}, "none")
MEASURED = Effect(merges=20, p95_ratio=2.0, p95_ratio_low=1.8, p95_ratio_high=2.2)


def runs_of(gains: tuple[float, ...], over_fixed: float | None = None) -> list[RunFigures]:
    return [
        RunFigures(
            run=f"run-{i}",
            requests=4000,
            policy_pp=6.5 - gain,
            random_mean_pp=6.5,
            random_p05_pp=5.0,
            fixed_pp=None if over_fixed is None else 6.5 - gain + over_fixed + i / 100,
            oracle_pp=4.0,
        )
        for i, gain in enumerate(gains)
    ]


def judged(
    runs: list[RunFigures],
    *,
    load: LoadMatch | None = MATCHED,
    phases: PhaseLock | None = SPREAD,
    effect: Effect | None = None,
    least_gain: float = 0.0,
) -> Verdict:
    loads = {} if load is None else {"slack": load}
    [verdict] = judge({"slack": runs}, loads, phases, effect, least_gain=least_gain)
    return verdict


def together(evidence: dict[str, list[RunFigures]]) -> list[Verdict]:
    return judge(evidence, dict.fromkeys(evidence, MATCHED), SPREAD, None)


def test_placement_gain_has_its_size_interval_p_and_capture() -> None:
    found = judged(runs_of(GAINS), effect=MEASURED)
    assert found.verdict == "placement gain"
    assert found.tier == "measured sidecar"
    assert found.gain_pp == pytest.approx(np.mean(GAINS))
    assert found.gain == pytest.approx(np.mean(GAINS) / 6.5)
    assert found.interval_pp == pytest.approx((0.4, 2.1))
    assert found.p_value == found.p_raw == 2 / 64
    assert found.capture == pytest.approx(np.mean(GAINS) / 2.5)
    assert found.spared_requests == pytest.approx(40 * np.mean(GAINS))
    assert [step.passed for step in found.steps] == [True] * 7 + [None]


def test_gain_without_a_measured_sidecar_is_one_of_the_serving_model() -> None:
    assert judged(runs_of(GAINS)).tier == "serving model"
    assert judged(runs_of(GAINS), effect=replace_merges(MEASURED, 9)).tier == "serving model"


def replace_merges(effect: Effect, merges: int) -> Effect:
    return Effect(
        merges=merges,
        p95_ratio=effect.p95_ratio,
        p95_ratio_low=effect.p95_ratio_low,
        p95_ratio_high=effect.p95_ratio_high,
    )


def test_merges_that_change_nothing_leave_nothing_to_claim() -> None:
    none = Effect(merges=20, p95_ratio=1.01, p95_ratio_low=0.93, p95_ratio_high=1.09)
    found = judged(runs_of(GAINS), effect=none, load=None)
    assert found.verdict == "no effect"
    assert found.tier == "none"
    assert "0.93" in found.reason


def test_unknown_load_is_not_matched() -> None:
    assert judged(runs_of(GAINS), load=None).verdict == "load not matched"
    half = load_match({"none": ArmLoad([9], [9]), "slack": ArmLoad([9], [None])}, "none")
    found = judged(runs_of(GAINS), load=half)
    assert found.verdict == "load not matched"
    assert "unknown" in found.reason


def test_locked_or_unchecked_phases_make_no_claim() -> None:
    for phases, said in ((LOCKED, "1 phase"), (None, "not checked")):
        found = judged(runs_of(GAINS), phases=phases)
        assert found.verdict == "no claim"
        assert said in found.reason


def test_five_runs_make_no_claim_however_large_the_gain() -> None:
    found = judged(runs_of((2.0, 2.1, 2.2, 2.3, 2.4)))
    assert found.verdict == "no claim"
    assert found.interval_pp is None
    assert "6 are needed" in found.reason


def test_sure_but_small_gain_within_the_envelope_makes_no_claim() -> None:
    found = judged(runs_of((0.1, 0.11, 0.12, 0.13, 0.14, 0.15)))
    assert found.p_value == 2 / 64
    assert found.verdict == "no claim"
    assert "not below the envelope" in found.reason


def test_large_but_unsure_gain_makes_no_claim() -> None:
    found = judged(runs_of((9.0, 5.0, -1.0, 4.0, 3.0, -0.5)))
    assert found.steps[5].passed
    assert found.verdict == "no claim"


def test_gain_that_is_sure_but_not_worth_it_makes_no_claim() -> None:
    found = judged(runs_of((1.71, 1.72, 1.73, 1.74, 1.75, 1.76)), least_gain=0.25)
    assert found.verdict == "placement gain"
    found = judged(runs_of((1.71, 1.72, 1.73, 1.74, 1.75, 1.76)), least_gain=0.3)
    assert found.verdict == "no claim"
    assert "30.0% or more are worth a claim" in found.reason
    assert found.gain == pytest.approx(1.735 / 6.5)
    assert found.p_value == 2 / 64


@pytest.mark.parametrize("least", [-0.1, 1.0, float("nan")])
def test_least_gain_that_is_no_share_is_refused(least: float) -> None:
    with pytest.raises(InputError, match="least gain"):
        judged(runs_of(GAINS), least_gain=least)


def test_load_of_one_policy_that_differs_is_no_fault_of_another() -> None:
    apart = load_match({"none": ArmLoad([9], [9]), "b": ArmLoad([12], [12])}, "none")
    evidence = {"a": runs_of(GAINS), "b": runs_of(GAINS)}
    found = judge(evidence, {"a": MATCHED, "b": apart}, SPREAD, None)
    assert [v.verdict for v in found] == ["placement gain", "load not matched"]


def test_beating_the_fixed_period_alone_is_budget_only() -> None:
    found = judged(runs_of((0.1, -0.1, 0.2, -0.2, 0.3, -0.3), over_fixed=2.0))
    assert found.verdict == "budget only"
    assert "fixed period" in found.reason


def test_policy_worse_than_random_makes_no_claim_and_says_so() -> None:
    found = judged(runs_of(tuple(-g for g in GAINS)))
    assert found.verdict == "no claim"
    assert found.p_value == 2 / 64
    assert "more than matched random" in found.reason


def test_random_against_itself_has_p_one() -> None:
    found = judged(runs_of((0.0,) * 6))
    assert found.p_value == 1.0
    assert found.verdict == "no claim"
    assert found.interval_pp == (0.0, 0.0)


def test_unknown_oracle_gives_no_capture() -> None:
    runs = runs_of(GAINS)
    assert judged([replace(runs[0], oracle_pp=None), *runs[1:]]).capture is None
    assert judged([replace(run, oracle_pp=6.5) for run in runs]).capture is None


def test_naming_several_policies_costs_significance() -> None:
    rng = np.random.default_rng(3)
    gains = (1.4, -0.9, 2.1, 1.7, -0.4, 1.2, 0.8)
    others = {f"other-{k}": runs_of(tuple(rng.normal(0, 1, 7))) for k in range(4)}
    alone = judged(runs_of(gains))
    [among, *_] = together({"slack": runs_of(gains), **others})
    assert among.policies == 5
    assert among.p_raw == alone.p_value
    assert among.p_value > alone.p_value


def test_policies_on_different_runs_are_corrected_by_holm() -> None:
    other = [replace(run, run=f"other-{run.run}") for run in runs_of(GAINS)]
    found = together({"slack": runs_of(GAINS), "wa_diloco": other})
    assert [v.p_value for v in found] == [4 / 64, 4 / 64]
    same = together({"slack": runs_of(GAINS), "wa_diloco": runs_of(GAINS)})
    assert [v.p_value for v in same] == [2 / 64, 2 / 64]


def test_evidence_that_cannot_be_judged_is_refused() -> None:
    with pytest.raises(InputError, match="no policy was named"):
        together({})
    with pytest.raises(InputError, match="each named once"):
        judged([*runs_of(GAINS), runs_of(GAINS)[0]])
    with pytest.raises(InputError, match="has 0 runs"):
        judged([])
