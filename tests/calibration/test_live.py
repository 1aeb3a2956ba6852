"""Live runs scored: their windows on the grid, their corridor in seconds, and their control."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from calibration.live import Asked, LiveRun, live_verdicts, score
from calibration.live.corridor import place
from slackwater.errors import InputError

ASKED = Asked("arriving", 0.5, 400, 0)


def live(name: str = "r", load: str = "t, seed 0", **changed: Any) -> LiveRun:
    """A run of 60 s with a request each 0.5 s and three windows of 2 s; steps of 0.1 s."""
    arrival_s = np.arange(0.25, 60, 0.5)
    plain = LiveRun(
        name=name,
        policy="slack",
        trace="t",
        load=load,
        arrival_s=arrival_s,
        length_s=np.full(len(arrival_s), 0.3),
        latency_s=np.full(len(arrival_s), 0.3),
        tokens=np.full(len(arrival_s), 10),
        sidecar=np.array(["a", "b"] * (len(arrival_s) // 2)),
        tenant=None,
        end_s=60.0,
        starts_s=np.array([10.0, 25.0, 45.0]),
        lengths_s=np.array([2.0, 1.8, 2.1]),
        reasons=("calm", "calm", "h_max"),
        late_merges=0,
        min_gap_steps=80,
        max_gap_steps=200,
        step_s=0.1,
        slo_s=1.0,
    )
    return replace(plain, **changed)


def without_merges(name: str = "calm", **changed: Any) -> LiveRun:
    nothing = np.zeros(0)
    return live(name, policy="none", starts_s=nothing, lengths_s=nothing, reasons=(), **changed)


def test_steps_become_seconds_and_a_gap_holds_one_window() -> None:
    placed = place(live(), 0.5)
    run = placed.corridor
    # 2 s of window and 80 to 200 steps of 0.1 s are 10 to 22 s; the run begins a window early.
    assert (run.window_cells, run.min_gap_cells, run.max_gap_cells) == (4, 20, 44)
    assert placed.begin_s == -2.0
    assert placed.start_cells.tolist() == [24, 54, 94]
    assert run.cells == 124
    assert run.feasible(placed.start_cells)
    assert len(placed.notes) == 1
    assert "10.0 to 22.0 s, by 0.100 s a step and a window of 2.00 s" in placed.notes[0]


def test_gaps_outside_the_corridor_widen_it_and_are_told() -> None:
    placed = place(live(starts_s=np.array([4.0, 25.0, 55.0])), 0.5)
    assert (placed.corridor.min_gap_cells, placed.corridor.max_gap_cells) == (12, 60)
    assert placed.corridor.feasible(placed.start_cells)
    assert (
        "6 to 30 s with the rest of the run, do not lie in the corridor of 10 to 22 s"
        in (placed.notes[1])
    )


def test_a_window_at_the_very_end_lies_within_the_run() -> None:
    placed = place(live(starts_s=np.array([10.0, 25.0, 45.0, 59.5]), lengths_s=np.full(4, 2.0),
                        reasons=("calm",) * 4), 0.5)  # fmt: skip
    assert placed.start_cells[-1] == placed.corridor.last_start


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"starts_s": np.array([10.0, 10.2, 45.0])}, "two merges began within 0.5 s"),
        ({"lengths_s": np.full(3, np.nan)}, "no merge has ended yet"),
        ({"step_s": None}, "no inner step is logged"),
        ({"starts_s": np.array([-1.0, 25.0, 45.0])}, "before the learners' first step"),
    ],
)
def test_what_is_no_schedule_is_refused_in_one_line(changed: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        place(live(**changed), 0.5)


def test_cost_is_what_arrives_in_the_windows_of_a_run_of_even_traffic() -> None:
    found = score(live(), 0, [], ASKED).run
    assert (found.budget, found.cost, found.requests) == (3, 12.0, 120)
    assert (found.oracle_exact, found.random_mean) == (12.0, 12.0)
    assert found.gain_pp == 0.0
    assert found.starts_s == (12.0, 27.0, 47.0)
    assert found.excess_pp is None
    assert score(live(), 0, [], replace(ASKED, counting="in_service")).run.cost == 15.0


def test_windows_in_quiet_moments_gain_over_random_ones() -> None:
    busy = np.concatenate([np.arange(0.1, 8, 0.1), np.arange(13, 24, 0.1), np.arange(29, 44, 0.1)])
    quiet = live(
        arrival_s=busy,
        length_s=np.full(len(busy), 0.1),
        latency_s=np.full(len(busy), 0.1),
        tokens=None,
        sidecar=np.full(len(busy), "a"),
    )
    found = score(quiet, 0, [], ASKED)
    assert found.run.cost == found.run.oracle_exact == 0.0
    assert found.run.gain_pp > 2
    assert found.random_pp.shape == (400,)
    assert found.run.percentile < 10


def test_excess_is_the_measured_rate_less_that_of_the_run_without_merges() -> None:
    slow = np.full(120, 0.3)
    slow[:12] = [np.inf] * 6 + [1.5] * 6
    calm = np.full(120, 0.3)
    calm[0] = 2.0
    found = score(live(latency_s=slow), 0, [without_merges(latency_s=calm)], ASKED).run
    assert found.excess_pp == pytest.approx(100 * 11 / 120)


def test_without_a_control_the_load_match_is_not_taken_and_the_verdict_says_so() -> None:
    scored = [score(live(f"r{i}", f"t, seed {i}"), i, [], ASKED) for i in range(6)]
    (verdict,) = live_verdicts(scored, [], None, 0.5, np.random.default_rng(0))
    assert verdict.verdict == "load not matched"
    assert {s.name: s.passed for s in verdict.steps}["load match"] is None


def test_with_controls_the_loads_match_over_what_all_runs_have() -> None:
    arms = [without_merges(f"calm{i}", load=f"t, seed {i}") for i in range(6)]
    longer = [replace(arm, arrival_s=arm.arrival_s + 5.0) for arm in arms]
    scored = [score(live(f"r{i}", f"t, seed {i}"), i, [], ASKED) for i in range(6)]
    (verdict,) = live_verdicts(scored, longer, None, 0.5, np.random.default_rng(0))
    steps = {step.name: step for step in verdict.steps}
    assert steps["load match"].passed
    assert verdict.verdict == "no claim"
    assert verdict.tier == "none"


def test_runs_on_one_load_are_one_experiment() -> None:
    scored = [score(live(f"r{i}"), i, [], ASKED) for i in range(6)]
    (verdict,) = live_verdicts(scored, [without_merges()], None, 0.5, np.random.default_rng(0))
    steps = {step.name: step for step in verdict.steps}
    assert steps["load match"].passed
    assert steps["independent runs"].passed is False
    assert "t, seed 0 came more than once" in verdict.reason


def test_the_claimed_policy_comes_first_and_is_not_corrected() -> None:
    ours = [score(live(f"s{i}", f"t, seed {i}"), i, [], ASKED) for i in range(2)]
    others = [
        score(live(f"f{i}", f"t, seed {i}", policy="fixed_h"), i, [], ASKED) for i in range(2)
    ]
    found = live_verdicts([*others, *ours], [], "slack", 0.5, np.random.default_rng(0))
    assert [(v.policy, v.policies) for v in found] == [("slack", 1), ("fixed_h", 2)]


def test_the_last_arrival_is_in_the_common_load_whatever_the_runs_clock() -> None:
    arrival_s = np.array([0.000001, 17.3, 60.123457])
    runs = [without_merges(arrival_s=arrival_s + k * 1e-6) for k in range(0, 40_000_000, 99_991)]
    shortest = min(run.span_s for run in runs)
    assert {int(run.first(shortest).sum()) for run in runs} == {3}
