"""Every policy is strictly causal: the future of a trace changes no decision before it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_runs import bursty_requests, entrants, segments

from calibration.observed import observed_bins
from calibration.serving import Requests, requests_of
from calibration.simulate import Decided, decide
from controller.policies import POLICIES

DURATION_S = 240.0


def decisions(requests: Requests, policy: str, lead_s: float) -> list[Decided]:
    return list(
        decide(observed_bins(requests), segments(2), entrants(policies=(policy,), lead_s=lead_s))
    )


def with_another_future(requests: Requests, from_s: float, rng: np.random.Generator) -> Requests:
    """The same up to `from_s`; then other arrivals, and other ends of what is in service."""
    assert requests.e2e_s is not None
    assert requests.sidecar is not None
    past = requests.arrival_s < from_s
    arrival_s, e2e_s = requests.arrival_s[past], requests.e2e_s[past].copy()
    running = arrival_s + e2e_s > from_s
    e2e_s[running] = from_s - arrival_s[running] + rng.uniform(0.01, 9.0, int(running.sum()))
    count = int(rng.integers(0, int(40 * (DURATION_S - from_s)) + 1))
    coming = np.sort(rng.uniform(from_s, DURATION_S, count))
    return requests_of(
        np.concatenate([arrival_s, coming]),
        DURATION_S,
        e2e_s=np.concatenate([e2e_s, rng.uniform(0.01, 5.0, count)]),
        sidecar=np.concatenate([requests.sidecar[past], rng.integers(0, 2, count)]),
    )


def at_s(decided: Decided) -> float:
    return 0.5 * (segments(2)[decided.segment].first_cell + decided.cell)


@pytest.mark.parametrize("policy", sorted(POLICIES))
@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    from_s=st.floats(5.0, DURATION_S - 1.0),
    lead_s=st.sampled_from([0.0, 1.0]),
)
def test_another_future_changes_no_decision_before_it(
    policy: str, seed: int, from_s: float, lead_s: float
) -> None:
    rng = np.random.default_rng(seed)
    requests = bursty_requests(rng, DURATION_S)
    other = with_another_future(requests, from_s, rng)
    before = [d for d in decisions(requests, policy, lead_s) if at_s(d) <= from_s]
    after = [d for d in decisions(other, policy, lead_s) if at_s(d) <= from_s]
    assert before == after
    assert len(before) > 0


def test_the_test_of_causality_can_fail() -> None:
    """A change of the past is seen: else equal decisions would prove nothing."""
    rng = np.random.default_rng(4)
    requests = bursty_requests(rng, DURATION_S)
    other = with_another_future(requests, 60.0, rng)
    changed = [d for d in decisions(requests, "slack", 0.0) if at_s(d) <= 120.0]
    assert changed != [d for d in decisions(other, "slack", 0.0) if at_s(d) <= 120.0]


def test_another_future_changes_nothing_while_a_season_decides() -> None:
    rng = np.random.default_rng(7)
    duration_s, from_s = 900.0, 800.0
    requests = bursty_requests(rng, duration_s)
    past = requests.arrival_s < from_s
    assert requests.e2e_s is not None
    assert requests.sidecar is not None
    gone = past & (requests.arrival_s + requests.e2e_s < from_s)
    other = requests_of(
        requests.arrival_s[gone],
        duration_s,
        e2e_s=requests.e2e_s[gone],
        sidecar=requests.sidecar[gone],
    )
    same = requests_of(
        requests.arrival_s[gone | ~past],
        duration_s,
        e2e_s=requests.e2e_s[gone | ~past],
        sidecar=requests.sidecar[gone | ~past],
    )
    runs = segments(7)
    made = [
        [
            d
            for d in decide(observed_bins(r), runs, entrants(policies=("slack_seasonal",)))
            if 0.5 * (runs[d.segment].first_cell + d.cell) <= from_s
        ]
        for r in (same, other)
    ]
    assert made[0] == made[1]
    assert sum(d.outcome.choice.reason.startswith("season_") for d in made[0]) > 50
