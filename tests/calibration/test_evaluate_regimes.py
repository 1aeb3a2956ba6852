"""What the evaluation must say of regimes whose answer is known."""

import os
from pathlib import Path
from typing import Any

import pytest

from calibration.verdict import Verdict
from slackwater.cli.evaluate_job import Evaluation, Job

pytestmark = pytest.mark.slow

CAUSAL_WORTH = 0.02


def judged(regime: str, runs: int, **changes: Any) -> dict[str, Verdict]:
    asked = {
        "claim": None,
        "serving": "overlap",
        "least_gain_percent": 5.0,
        "policies": (),
        "traces": (),
        "regimes": (regime,),
        "draws": 1000,
    } | changes
    job = Job(
        window_s=8.0,
        min_gap_s=18.0,
        max_gap_s=72.0,
        segment_s=600.0,
        runs=runs,
        seed=0,
        **asked,
    )
    (group,) = Evaluation(job).groups(lambda: None)
    return {verdict.policy: verdict for verdict in group.verdicts}


@pytest.fixture(scope="module")
def constant_arrivals() -> dict[str, Verdict]:
    return judged("constant", 8, serving="arrivals")


@pytest.fixture(scope="module")
def constant_in_service() -> dict[str, Verdict]:
    return judged("constant", 8)


def test_constant_traffic_allows_no_claim_of_placement(
    constant_arrivals: dict[str, Verdict], constant_in_service: dict[str, Verdict]
) -> None:
    for verdicts in (constant_arrivals, constant_in_service):
        assert "placement gain" not in {v.verdict for v in verdicts.values()}
    # Fewer in service as a window opens is a gain, real and too small to be worth a claim.
    reasons = [v.reason for v in constant_in_service.values()]
    assert any("are worth a claim" in reason for reason in reasons)


def test_on_constant_traffic_no_policy_does_worse_than_random_by_over_2_percent(
    constant_arrivals: dict[str, Verdict], constant_in_service: dict[str, Verdict]
) -> None:
    for verdicts in (constant_arrivals, constant_in_service):
        assert all(v.gain is not None and v.gain > -CAUSAL_WORTH for v in verdicts.values())


def test_bursts_are_worth_placing_merges_by_forecast() -> None:
    for claim in ("wa_forecast", "slack"):
        verdict = judged("bursty", 6, claim=claim, policies=(claim,))[claim]
        assert verdict.verdict == "placement gain"
        assert verdict.capture is not None
        assert verdict.capture > 0.5


def test_slack_captures_half_of_the_optimum_on_the_azure_code_trace() -> None:
    beside = Path(__file__).parents[3] / "shared" / "traces"
    trace = Path(os.environ.get("SLACKWATER_TRACES", beside)) / "azure_code_2023.csv"
    if not trace.exists():
        pytest.skip("azure_code_2023.csv is not here; set SLACKWATER_TRACES to its folder")
    names = ("slack", "slack_markov", "slack_seasonal")
    found = judged("bursty", 1, traces=(trace,), regimes=(), policies=names, draws=100)
    assert min(v.capture or 0.0 for v in found.values()) >= 0.5
