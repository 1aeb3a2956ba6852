"""`slackwater trial`: order, pairing, log and verdict, from made outcomes."""

import io
import itertools
import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path

import duckdb
import msgspec
import numpy as np
import pytest
import typer
from rich.console import Console
from test_calibrate import ServerThread

from calibration.gate import Step as GateStep
from calibration.live import Asked as Scored
from calibration.live import LiveRun, score
from calibration.paired import Asked, Judged, RunOutcome, excess, judge_pairs
from sidecar.held import held
from sidecar.load import Endpoint
from sidecar.server import Server
from sidecar.trial import record
from sidecar.trial.design import TrialDesign, control_of, controlled, fitting
from sidecar.trial.matched import matched
from sidecar.trial.play import Trial, _taken
from sidecar.trial.record import About, TrialLog
from slackwater.cli import trial_job
from slackwater.cli.trial import trial
from slackwater.cli.trial_judge import _left, judged
from slackwater.cli.trial_output import headline, not_by_merges, print_trial
from slackwater.cli.trial_progress import left, plan
from slackwater.errors import InputError, RunLogError, SlackwaterError
from slackwater.events import Finished, MergeCommand, Request, Started, Step
from slackwater.testbed.signals import StopSignals
from slackwater.testbed.summary import UNFINISHED, Summary
from slackwater.testbed.supervisor import Outcome
from streams.runlog import Run, RunLog

DESIGN = TrialDesign(blocks=5, run_s=60.0)
ARMS = {"slack", "random:slack", "wa_forecast", "random:wa_forecast", "fixed_h", "none"}
CELL_S = 0.5


# The design.


def test_every_block_has_every_arm_once_and_each_control_after_its_policy() -> None:
    orders = [DESIGN.order(block) for block in range(50)]
    for order in orders:
        assert set(order) == ARMS
        assert len(order) == len(ARMS)
        for policy in DESIGN.policies:
            assert order.index(policy) < order.index(control_of(policy))
    assert len({tuple(order) for order in orders}) > 20
    assert orders == [DESIGN.order(block) for block in range(50)]
    assert {order[0] for order in orders} == {"slack", "wa_forecast", "fixed_h", "none"}
    assert {order[-1] for order in orders} >= {"random:slack", "fixed_h", "none"}


def test_the_arms_of_a_block_have_one_load_and_each_block_its_own() -> None:
    assert DESIGN.schedule(2) == DESIGN.schedule(2)
    assert DESIGN.schedule(2) != DESIGN.schedule(3)
    other = msgspec.structs.replace(DESIGN, seed=1)
    assert DESIGN.load_seed(2) != other.load_seed(2)


def test_bursts_last_as_long_as_they_are_asked_to() -> None:
    def turns(quiet_s: float, busy_s: float) -> float:
        """How often a minute of 100 requests a second turns from quiet to busy or back."""
        design = TrialDesign(run_s=600.0, rate_per_s=100.0, quiet_s=quiet_s, busy_s=busy_s)
        seconds = np.bincount([one.after_us // 1_000_000 for one in design.schedule(0)])
        busy = seconds > 100
        return float(np.count_nonzero(busy[1:] != busy[:-1])) / 10

    assert turns(40.0, 20.0) == pytest.approx(2.0, abs=1.0)
    assert turns(12.0, 6.0) == pytest.approx(60 * 2 / 18, abs=2.0)


def test_an_arm_that_a_log_names_twice_is_played_once() -> None:
    twice = msgspec.structs.replace(DESIGN, baselines=("none", "slack", "none"))
    assert twice.free == ("slack", "wa_forecast", "none")
    assert twice.runs == len({(one.block, one.arm) for one in twice.planned()})


def test_planned_runs_are_all_of_them() -> None:
    planned = list(DESIGN.planned())
    assert len(planned) == DESIGN.runs == 5 * len(ARMS)
    assert len({(one.block, one.arm) for one in planned}) == DESIGN.runs


def test_times_of_the_controller_scale_with_the_window() -> None:
    settings = dict(text.split("=") for text in DESIGN.settings((7, 30)))
    assert settings["controller.half_life_s"] == "1"
    assert settings["controller.stopping_tau_s"] == "1.5"
    assert json.loads(settings["controller.scheduled_steps"]) == [7, 30]
    own = msgspec.structs.replace(DESIGN, assignments=("controller.half_life_s=9",))
    assert own.settings(None)[-1] == "controller.half_life_s=9"


def test_minutes_make_whole_blocks_and_too_few_are_refused() -> None:
    one = msgspec.structs.replace(DESIGN, run_s=150.0)
    assert fitting(18, one).blocks == 1
    assert fitting(60, one).blocks == 3
    with pytest.raises(InputError, match=r"one block of these runs takes about 18\.0"):
        fitting(17, one)


@pytest.mark.parametrize(
    ("minutes", "blocks", "run_s"),
    [(180, 10, 150), (144, 8, 150), (60, 8, 45), (50, 6, 53), (45, 6, 45), (20, 2, 45)],
)
def test_minutes_shorten_runs_before_there_are_too_few_blocks_for_a_claim(
    minutes: float, blocks: int, run_s: float
) -> None:
    found = fitting(minutes, msgspec.structs.replace(DESIGN, run_s=150.0), shorten=True)
    assert (found.blocks, found.run_s) == (blocks, run_s)
    assert found.lasts_s <= minutes * 60


def test_a_trial_too_short_for_a_claim_is_told_before_it_begins() -> None:
    assert plan(DESIGN).endswith("in all; fewer than 6 blocks can claim nothing")
    alone = msgspec.structs.replace(DESIGN, blocks=8, policies=("slack",), baselines=())
    assert plan(alone).endswith("slack and its control alone can claim nothing: keep a baseline")
    eight = msgspec.structs.replace(DESIGN, blocks=8)
    assert plan(eight) == "8 blocks of 6 runs of 60 s: about 1 h 12 min in all"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"policies": ("slak",)}, "no policy 'slak'"),
        ({"policies": ("none",)}, "no policy 'none'"),
        ({"policies": ()}, "nothing to judge"),
        ({"policies": ("slack", "slack")}, "twice"),
        ({"baselines": ("scheduled",)}, "no policy 'scheduled'"),
        ({"min_gap_steps": 101}, "min <= max"),
        ({"regime": "calm"}, "regime 'calm'"),
        ({"regime": "bursty", "busy_s": 9.0}, "leave them out of bursty"),
    ],
)
def test_a_design_that_cannot_be_is_refused(given: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        TrialDesign(**given)  # type: ignore[arg-type]


# The matched schedule.


def test_a_control_has_as_many_merges_and_every_feasible_schedule_comes() -> None:
    drawn = {matched([3, 6], 9, (2, 5), np.random.default_rng(seed)).steps for seed in range(400)}
    feasible = {
        (a, b)
        for a, b in itertools.combinations(range(9), 2)
        if 2 <= a <= 5 and 2 <= b - a <= 5 and 9 - b <= 5
    }
    assert drawn == feasible


def test_a_policy_that_left_the_corridor_widens_that_of_its_control() -> None:
    found = matched([10, 25], 60, (12, 30), np.random.default_rng(0))
    assert (found.min_gap_steps, found.max_gap_steps) == (10, 35)
    assert len(found.steps) == 2
    # H_max of its run lies beyond: nothing but its schedule commands a merge.
    assert found.forced_gap_steps == 35 + 60


def test_no_merge_is_matched_by_none() -> None:
    assert matched([], 50, (10, 60), np.random.default_rng(0)).steps == ()


# The verdict, from made outcomes.


def outcome(block: int, arm: str, violations: int, merges: int = 8) -> RunOutcome:
    counts = np.random.default_rng(block).poisson(3, 120)
    return RunOutcome(block, arm, 1000, violations, 80_000, merges, counts=tuple(counts.tolist()))


ONE_POLICY = msgspec.structs.replace(DESIGN, policies=("slack",))


def outcomes(blocks: int, own: int, control: int, none: int = 20) -> list[RunOutcome]:
    made = []
    for block in range(blocks):
        violations = {
            "slack": own + block % 3,
            "random:slack": control + block % 4,
            "fixed_h": control + 10,
            "none": none,
        }
        for place, arm in enumerate(ONE_POLICY.order(block)):
            made.append(replace(outcome(block, arm, violations[arm]), place=place))
    return made


def windowed(calm: bool) -> LiveRun:
    """Bursts of a second each five seconds, and three windows between them or on them."""
    arrival_s = np.concatenate([np.arange(at, at + 1, 0.05) for at in range(2, 60, 5)])
    starts_s = np.array([10.0, 25.0, 45.0]) - (0.5 if calm else -2.0)
    return LiveRun(
        name="r",
        policy="slack",
        trace="t",
        load="t, seed 0",
        arrival_s=arrival_s,
        length_s=np.full(len(arrival_s), 0.1),
        latency_s=np.full(len(arrival_s), 0.1),
        tokens=np.full(len(arrival_s), 10),
        sidecar=np.array(["a"] * len(arrival_s)),
        tenant=None,
        end_s=60.0,
        starts_s=starts_s,
        lengths_s=np.full(3, 1.5),
        reasons=("calm",) * 3,
        late_merges=0,
        min_gap_steps=80,
        max_gap_steps=200,
        step_s=0.1,
        slo_s=1.0,
    )


def verdict_of(made: list[RunOutcome], *, calm: bool = True, left: int = 0) -> Judged:
    windows = {"slack": [score(windowed(calm), i, [], Scored("arriving", CELL_S, 200, 0))
                         for i in range(4)]}  # fmt: skip
    asked = Asked("slack", 0.05, 150.0, CELL_S, left)
    (found,) = judge_pairs(made, windows, asked, np.random.default_rng(0))
    return found


def test_fewer_violations_than_the_controls_in_every_block_are_a_placement_gain() -> None:
    found = verdict_of(outcomes(8, 50, 150))
    assert found.verdict.verdict == "placement gain"
    assert found.verdict.tier == "measured sidecar"
    assert found.verdict.gain_pp == pytest.approx(10.0, abs=0.2)
    assert found.verdict.p_value == pytest.approx(2 / 2**8)
    assert found.needed is not None
    assert found.needed.runs == 6
    assert found.differing == []


def placed(gain: float, slope: float, design: TrialDesign = ONE_POLICY) -> list[RunOutcome]:
    """Eight blocks in the design's order, where a run has `slope` violations more a place later."""
    base = {"slack": 100 - gain, "random:slack": 100.0, "fixed_h": 110.0, "none": 20.0}
    made = []
    for block in range(8):
        for place, arm in enumerate(design.order(block)):
            wobble = (block * 7 + place * 3) % 5 - 2
            violations = round(base[arm] + slope * place + wobble)
            made.append(replace(outcome(block, arm, violations), place=place))
    return made


def order_of(found: Judged) -> GateStep:
    (step,) = (one for one in found.verdict.steps if one.name == "order")
    return step


def test_a_gain_that_a_server_growing_slower_makes_is_no_claim() -> None:
    found = verdict_of(placed(gain=0, slope=20))
    assert found.verdict.p_value < 0.05
    assert found.verdict.verdict == "no claim"
    step = order_of(found)
    assert step.passed is False
    assert step.figures["slope_pp"] == pytest.approx(2.0, abs=0.3)
    assert found.verdict.reason == step.reason


def test_a_gain_remains_where_a_later_place_explains_a_part_of_it() -> None:
    found = verdict_of(placed(gain=60, slope=10))
    assert found.verdict.verdict == "placement gain"
    step = order_of(found)
    assert step.passed
    assert step.figures["gain_pp"] == pytest.approx(6.0, abs=0.5)
    low, high = step.figures["slope_low_pp"], step.figures["slope_high_pp"]
    assert isinstance(low, float)
    assert isinstance(high, float)
    assert low < 1.0 < high


def test_where_a_pair_is_all_there_is_its_order_is_not_told_from_its_gain_and_none_is_claimed() -> (
    None
):
    pair = [one for one in placed(60, 10) if one.arm in {"slack", "random:slack"}]
    alone = verdict_of([replace(one, place=int(one.arm != "slack")) for one in pair])
    assert order_of(alone).passed is None
    assert alone.verdict.p_value < 0.05
    assert (alone.verdict.verdict, alone.verdict.tier) == ("no claim", "none")
    assert alone.verdict.reason.endswith("keep a baseline (--baselines fixed_h)")


@pytest.mark.parametrize("baseline", ["none", "fixed_h"])
def test_one_baseline_of_any_kind_tells_the_order(baseline: str) -> None:
    def found(gain: float, slope: float) -> Judged:
        made = placed(gain, slope, msgspec.structs.replace(ONE_POLICY, baselines=(baseline,)))
        return verdict_of(made)

    assert found(gain=60, slope=10).verdict.verdict == "placement gain"
    drifting = found(gain=0, slope=20)
    assert drifting.verdict.p_value < 0.05
    assert drifting.verdict.verdict != "placement gain"
    assert order_of(drifting).figures["slope_pp"] == pytest.approx(2.0, abs=0.3)


def test_where_no_place_is_known_nothing_is_claimed() -> None:
    unknown = [replace(one, place=None) for one in outcomes(8, 50, 150)]
    assert verdict_of(unknown).verdict.verdict == "budget only"


def test_windows_no_calmer_than_random_ones_are_no_claim_whatever_was_measured() -> None:
    found = verdict_of(outcomes(8, 50, 150), calm=False)
    assert found.verdict.verdict == "budget only"
    assert "requests that arrive in windows" in found.verdict.reason


def test_no_difference_is_no_claim() -> None:
    same = [one for one in outcomes(8, 150, 150) if one.arm != "fixed_h"]
    assert verdict_of(same).verdict.verdict == "no claim"


def test_what_beats_the_fixed_period_alone_is_budget_only() -> None:
    assert verdict_of(outcomes(8, 150, 150)).verdict.verdict == "budget only"


def test_merges_that_do_not_harm_allow_no_claim() -> None:
    found = verdict_of(outcomes(8, 50, 150, none=400))
    assert found.verdict.verdict == "no effect"


def test_a_part_of_a_trial_claims_nothing_and_says_what_it_would() -> None:
    found = verdict_of(outcomes(8, 50, 150), left=6).verdict
    assert found.p_value < 0.05
    assert (found.verdict, found.tier) == ("no claim", "none")
    said = "an interim look, at 32 of 38 runs: 5% are for the whole trial"
    assert found.reason == f"{said}; so far it would be placement gain"
    assert found.steps[-1].passed is False
    nothing = verdict_of(outcomes(8, 150, 120), left=6).verdict
    assert (nothing.verdict, nothing.steps[-1].reason) == ("no claim", said)
    assert nothing.reason != said
    whole = verdict_of(outcomes(8, 50, 150)).verdict
    assert whole.steps[-1].passed
    assert headline({**asdict(whole), "interval_pp": None}, part=False).endswith("requests")


def test_five_blocks_show_nothing() -> None:
    found = verdict_of(outcomes(5, 50, 150))
    assert found.verdict.verdict == "no claim"
    assert found.needed is None
    assert found.detectable_pp is None


def test_a_pair_of_other_budgets_counts_and_is_named() -> None:
    made = outcomes(8, 50, 150)
    made[1] = replace(made[1], merges=7)
    found = verdict_of(made)
    assert found.differing == [0]
    assert found.verdict.n == 8


def test_a_block_without_a_control_is_in_no_pair() -> None:
    made = [one for one in outcomes(8, 50, 150) if (one.block, one.arm) != (3, "random:slack")]
    assert verdict_of(made).verdict.n == 7


def test_without_a_pair_there_is_nothing_to_judge() -> None:
    made = [one for one in outcomes(8, 50, 150) if controlled(one.arm) is None]
    with pytest.raises(InputError, match="no policy has a run and its control"):
        verdict_of(made)


# The log.

T0 = 1_750_000_000_000_000


def one_run(path: Path, run_id: str) -> None:
    """A closed log of a run: 20 requests, of which 3 take too long and one fails; three merges."""
    settings = {
        "slo_s": 0.3,
        "stream": {"controller": {"min_gap_steps": 10, "max_gap_steps": 60}},
    }
    events = [
        Request(
            run_id=run_id,
            at_us=T0 + i * 500_000 + 1000,
            sidecar="server",
            id=f"r{i}",
            arrival_us=T0 + i * 500_000,
            status="ok" if i else "error",
            e2e_s=(1.0 if i <= 3 else 0.1) if i else None,
            prompt_tokens=64,
            output_tokens=16,
        )
        for i in range(20)
    ]
    with RunLog(path, run_id) as log:
        run = Run(run_id=run_id, created_us=T0, policy="slack", settings=settings, seed=1)
        log.start_run(run)
        log.append(events, topic="q", partition=0, offset=0)
        log.append(_steps(run_id), topic="l", partition=0, offset=0)
        log.append(_merges(run_id), topic="m", partition=0, offset=0)
        log.commit()
        log.finish_run(run_id, "complete", T0 + 10_000_000)


def another(path: Path, run_id: str) -> Path:
    """The same under another name, and with 8 requests that take too long."""
    other = path.with_name("other.duckdb")
    shutil.copyfile(path, other)
    with duckdb.connect(str(other)) as log:
        for table in ("runs", "requests", "learner_steps", "merges", "commands", "offsets"):
            log.execute(f"UPDATE {table} SET run_id = ?", [run_id])  # noqa: S608
        log.execute("UPDATE requests SET e2e_s = 1 WHERE id IN ('r4', 'r5', 'r6', 'r7', 'r8')")
    return other


def _steps(run_id: str) -> list[Step]:
    return [
        Step(run_id=run_id, at_us=T0 + i * 100_000, learner="learner-0", step=i, tokens=1,
             step_time_s=0.1, steps_since_merge=i, tokens_since_merge=i)
        for i in range(1, 95)
    ]  # fmt: skip


def _merges(run_id: str) -> list[object]:
    told: list[object] = []
    for step in (30, 60, 120):
        at_us = T0 + step * 100_000
        name = {"run_id": run_id, "group": "default", "merge_id": f"m{step}"}
        who = {**name, "learner": "learner-0", "step": step}
        told += [
            MergeCommand(**name, at_us=at_us - 1_000_000, at_step=step, deadline_us=at_us + 10**7,
                         window_s=1.0, reason="why", participants=["learner-0"]),
            Started(**who, at_us=at_us),
            Finished(**who, at_us=at_us + 900_000, seconds=0.9, bytes_exchanged=4),
        ]  # fmt: skip
    return told


def test_runs_are_added_whole_and_what_was_measured_is_read_back(tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trial.duckdb")
    assert log.about() == []
    assert log.played() == []
    one_run(tmp_path / "one.duckdb", "t-slack")
    other = another(tmp_path / "one.duckdb", "t-random")
    client = {"report": {"ended": {"dropped": 2}}}
    slack = About(design=DESIGN, block=0, place=0, arm="slack", client=client)
    control = msgspec.structs.replace(slack, arm="random:slack", scheduled_steps=(20, 55))
    log.keep(tmp_path / "one.duckdb", "t-slack", slack)
    log.keep(other, "t-random", control)
    found = {one.about.arm: one for one in log.played()}
    assert {arm: one.violations for arm, one in found.items()} == {
        # One found no answer and two were never sent.
        "slack": 3 + 3,
        "random:slack": 8 + 3,
    }
    own = found["slack"]
    assert (own.requests, own.unanswered) == (22, 3)
    # The third merge began after the last arrival.
    assert (own.merges, own.steps, own.last_step) == (2, (30, 60), 94)
    assert own.window_s == pytest.approx(0.9)
    assert found["random:slack"].about.scheduled_steps == (20, 55)
    _what_is_left(log)
    _it_is_judged(log)


def pair_of(folder: Path) -> TrialLog:
    """A log of a run of `slack` and its control, by excess."""
    log = TrialLog(folder / "trial.duckdb")
    one_run(folder / "one.duckdb", "t-slack")
    other = another(folder / "one.duckdb", "t-random")
    by_excess = msgspec.structs.replace(DESIGN, count="excess")
    slack = About(design=by_excess, block=0, place=0, arm="slack")
    log.keep(folder / "one.duckdb", "t-slack", slack)
    log.keep(other, "t-random", msgspec.structs.replace(slack, arm="random:slack"))
    return log


def test_excess_is_that_of_a_run_s_own_windows_beside_the_others_of_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(excess, "LEAST_OUTSIDE", 5)
    log = pair_of(tmp_path)
    # The end of the third merge is of no request.
    windows_s = np.array([[3.0, 3.9], [6.0, 6.9], [12.0, 12.9]])

    def run(*late: int) -> excess.ServedRun:
        return excess.ServedRun(np.arange(20) * 0.5, np.isin(np.arange(20), late), windows_s)

    expected = excess.excess_violations([run(0, 1, 2, 3), run(*range(9))], 0.3)
    found = log.excess(log.played())
    assert [found["t-slack"], found["t-random"]] == pytest.approx(expected)
    (verdict,) = judged(log, log.about()[0][1].design, "slack")["verdicts"]
    gain = found["t-random"] - found["t-slack"]
    assert verdict["gain_pp"] == pytest.approx(100 * gain / 20)
    assert verdict["gain_pp"] != pytest.approx(100 * 5 / 20)
    (row,) = log._ask("SELECT detail FROM verdicts")
    assert json.loads(row["detail"])["count"] == "excess"


def test_a_request_that_was_never_sent_in_a_window_is_one_that_it_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one of the run too: the others tell when it would have been due."""
    monkeypatch.setattr(excess, "LEAST_OUTSIDE", 5)
    log = pair_of(tmp_path)
    before = log.excess(log.played())
    with duckdb.connect(str(log.path)) as made:
        made.execute("DELETE FROM requests WHERE run_id = 't-slack' AND id IN ('r0', 'r7')")
    after = log.excess(log.played())
    # `r0` violated as it is, and `r7` was due in a window.
    assert after["t-slack"] == pytest.approx(before["t-slack"] + 1)
    assert after["t-random"] == pytest.approx(before["t-random"], abs=1.0)


def test_a_run_too_short_to_tell_its_excess_is_named_and_in_no_verdict(tmp_path: Path) -> None:
    log = pair_of(tmp_path)
    document = judged(log, log.about()[0][1].design, "slack")
    assert document["verdicts"] == []
    assert any(note.startswith("t-slack: what its windows added") for note in document["notes"])
    print_trial(Console(file=io.StringIO()), json.loads(json.dumps(document)))


def tokens_after(tmp_path: Path, update: str) -> int | None:
    """Those of a run of 20 requests of 64 and 16 after a change of its rows."""
    path = tmp_path / "one.duckdb"
    one_run(path, "t-slack")
    with duckdb.connect(str(path)) as log:
        log.execute(f"UPDATE requests SET {update}")  # noqa: S608
    design = msgspec.structs.replace(DESIGN, prompt_tokens=64, output_tokens=10)
    log = TrialLog(tmp_path / "trial.duckdb")
    log.keep(path, "t-slack", About(design=design, block=0, place=0, arm="slack"))
    (played,) = log.played()
    return played.tokens


@pytest.mark.parametrize(
    ("update", "tokens"),
    [
        ("tenant = 'a'", 20 * 80),
        ("output_tokens = NULL WHERE id = 'r0'", 20 * 80 - 6),
        ("prompt_tokens = NULL, output_tokens = NULL WHERE id = 'r0'", 20 * 80 - 6),
        ("output_tokens = 0 WHERE id = 'r0'", 20 * 80 - 16),
        ("output_tokens = NULL", None),
    ],
)
def test_tokens_of_a_request_that_the_server_did_not_count_are_those_asked_for(
    tmp_path: Path, update: str, tokens: int | None
) -> None:
    assert tokens_after(tmp_path, update) == tokens


def _what_is_left(log: TrialLog) -> None:
    """A trial goes on with the runs that are not in its log."""
    endpoint = Endpoint(url="http://127.0.0.1:1", model="m")
    trial = Trial("t", DESIGN, log, endpoint, StopSignals(), lambda _: None, lambda _: None)
    there = {(0, "slack"), (0, "random:slack")}
    assert {(one.block, one.arm) for one in trial.left()} == {
        (one.block, one.arm) for one in DESIGN.planned()
    } - there
    drawn = trial._drawn(next(o for o in DESIGN.planned() if o.arm == "random:slack"))
    assert drawn is not None
    assert len(drawn.steps) == 2
    with pytest.raises(SlackwaterError, match="has no run of wa_forecast"):
        trial._drawn(next(o for o in DESIGN.planned() if o.arm == "random:wa_forecast"))


def _it_is_judged(log: TrialLog) -> None:
    document = judged(log, DESIGN, "slack")
    log.judge([{"run_id": log.path.stem, "policy": "slack", "verdict": "no claim", "runs": 1}])
    (verdict,) = document["verdicts"]
    assert verdict["verdict"] == "no claim"
    assert verdict["gain_pp"] == pytest.approx(100 * 5 / 22)
    rows = log._ask("SELECT policy, runs, verdict FROM verdicts")
    assert rows == [{"policy": "slack", "runs": 1, "verdict": "no claim"}]
    out = Console(record=True, width=120, file=io.StringIO())
    print_trial(out, json.loads(json.dumps(document)))
    text = out.export_text()
    assert "slack: no claim: +22.73 pp" in text
    assert "on measured requests; an interim look: 5% are for the whole trial" in text
    assert document["runs_planned"] == 30
    (part,) = (one for one in verdict["steps"] if one["name"] == "whole trial")
    assert (part["passed"], part["figures"]["runs"]) == (False, 2)
    assert "fewer than 6 runs can show no gain at all" in text


def trial_of(log: TrialLog, claim: str | None = None) -> Trial:
    endpoint = Endpoint(url="http://127.0.0.1:1", model="m")
    return Trial("t", DESIGN, log, endpoint, StopSignals(), lambda _: None, lambda _: None, claim)


def log_of(path: Path, claim: str | None) -> Path:
    """A log of the first run of a trial."""
    one_run(path.with_name("one.duckdb"), "t-slack")
    ours = trial_of(TrialLog(path), claim)
    first = next(one for one in DESIGN.planned() if one.arm == "slack")
    ours.log.keep(path.with_name("one.duckdb"), "t-slack", ours._about(first, 0, None))
    return path


def test_a_claim_is_that_of_before_the_first_run_and_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log_of(tmp_path / "trial.duckdb", "slack")
    assert trial_job._resumed(path, None) == (DESIGN, "slack")
    assert trial_job._resumed(path, "slack") == (DESIGN, "slack")
    with pytest.raises(InputError, match="--claim wa_forecast: slack was named before the first"):
        trial(resume=path, claim="wa_forecast")
    with pytest.raises(typer.Exit):
        trial(resume=path, json=True)
    document = json.loads(capsys.readouterr().out)
    assert document["claim"] == "slack"
    assert not any("corrected" in note for note in document["notes"])


def test_a_log_without_a_claim_takes_none_later_and_its_verdicts_are_corrected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log_of(tmp_path / "trial.duckdb", None)
    with duckdb.connect(str(path)) as log:  # As versions wrote it that kept no claim.
        removed = """regexp_replace(settings, '"claim": ?null,?', '')"""
        log.execute(f"UPDATE runs SET settings = {removed}")  # noqa: S608
        assert log.sql("SELECT settings FROM runs WHERE settings LIKE '%claim%'").fetchall() == []
    with pytest.raises(InputError, match=r"--claim slack: no policy was named before .* leave"):
        trial(resume=path, claim="slack")
    with pytest.raises(typer.Exit):
        trial(resume=path)
    said = capsys.readouterr().out
    assert "no policy was named before the first run: verdicts are corrected for all of" in said


def test_a_log_without_a_server_is_judged_and_one_with_a_server_takes_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = log_of(tmp_path / "trial.duckdb", "slack")
    with duckdb.connect(str(path)) as log:  # As versions wrote it that kept no server.
        removed = """regexp_replace(settings, '"server": ?null,?', '')"""
        log.execute(f"UPDATE runs SET settings = {removed}")  # noqa: S608
        assert log.sql("SELECT 1 FROM runs WHERE settings LIKE '%\"server\":%'").fetchall() == []
    with pytest.raises(typer.Exit):
        trial(resume=path, json=True)
    assert json.loads(capsys.readouterr().out)["runs_played"] == 1
    (played,) = TrialLog(path).played()
    lab = Server(launched=False, model="m", url="http://127.0.0.1:1")
    about = msgspec.structs.replace(played.about, arm="fixed_h", server=lab)
    TrialLog(path).keep(another(tmp_path / "one.duckdb", "t-fixed"), "t-fixed", about)
    with pytest.raises(InputError, match=r"begun with m at http://127\.0\.0\.1:1.* name other at"):
        trial(resume=path, endpoint="http://127.0.0.1:1", model="other")


def test_first_requests_that_hang_are_given_up_when_a_person_says_so_twice(tmp_path: Path) -> None:
    said: list[str] = []
    signals = StopSignals()

    def say(text: str) -> None:
        said.append(text)
        signals.count = 2

    with ServerThread(fault="stall", tokens_before=0) as hung:
        ours = trial_of(TrialLog(tmp_path / "no.duckdb"))
        ours.endpoint, ours.say, ours.signals = Endpoint(url=hung.url, model="tiny"), say, signals

        def press() -> None:
            while not hung.bodies:
                time.sleep(0.01)
            signals.first = signal.SIGINT

        threading.Thread(target=press, daemon=True).start()
        assert not ours.run()
    assert said
    assert said[0].startswith("waiting for answers: ")


# What ended.


def ended(
    status: str,
    problems: list[str],
    *,
    ok: int = 90,
    part: str | None = None,
    died: int = 0,
    logged: int = 98,
) -> Summary:
    summary = Summary(
        run_id="r",
        run_log="r.duckdb",
        status=status,
        problems=problems,
        failed_part=part,
        options={},
        wall_s=1.0,
        played_s=1.0,
        rows={"requests": logged},
    )
    said = {"load": {"report": {"scheduled": 100, "ended": {"ok": ok, "dropped": 2}}}}
    return _taken(summary, Outcome(status, None, said, 1.0, {"learner-0": died} if died else {}))


def test_merges_that_did_not_come_about_are_an_outcome_and_not_a_failure() -> None:
    assert ended("failed", [f"2 {UNFINISHED}"]).status == "complete"
    assert ended("failed", [f"2 {UNFINISHED}", "3 dead letters"]).status == "failed"
    assert ended("failed", [f"2 {UNFINISHED}"], part="stream").status == "failed"
    assert ended("complete", []).status == "complete"


def test_a_server_or_a_learner_that_is_away_is_no_outcome() -> None:
    assert ended("complete", [], died=1).problems == ["learner-0 died and was started again"]
    assert ended("complete", [], died=1).status == "failed"
    found = ended("complete", [], ok=49)
    assert found.status == "failed"
    assert found.problems == ["51 of 100 requests found no answer; is the server well?"]
    assert ended("complete", [], ok=50).status == "complete"


def test_a_run_whose_log_has_not_every_request_that_was_sent_is_no_outcome() -> None:
    found = ended("complete", [], logged=97)
    assert found.status == "failed"
    assert found.problems == ["98 requests were sent, and 97 are in the run log"]
    assert ended("complete", [], logged=98).status == "complete"


# The command.


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "one of the two"),
        ({"endpoint": "http://127.0.0.1:1"}, "needs --model"),
        ({"launch_vllm": True, "runs": 0}, r"--runs is 0; it must be .*>= 1"),
        ({"launch_vllm": True, "runs": 3, "minutes": 9.0}, "leave out one"),
        (
            {"launch_vllm": True, "baselines": "none,none"},
            "--baselines none,none names an arm twice",
        ),
        ({"launch_vllm": True, "claim": "fixed_h"}, "--claim fixed_h is not judged"),
        ({"launch_vllm": True, "slo": -1.0}, "--slo is -1"),
        ({"launch_vllm": True, "count": "harm"}, r"--count is harm; it must be .*excess"),
        ({"resume": Path("nowhere.duckdb")}, "no such file"),
        ({"resume": Path("x.duckdb"), "model": "m"}, "--model goes with --endpoint"),
        ({"resume": Path("x.duckdb"), "runs": 3}, "leave --runs out"),
        ({"resume": Path("x.duckdb"), "least_gain": 1.0}, "leave --least-gain out"),
        ({"launch_vllm": True, "least_gain": 100.0}, r"--least-gain is 100\.0; it must be .*< 100"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_starts(
    given: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        trial(**given)  # type: ignore[arg-type]


def test_a_log_that_two_processes_wrote_is_no_evidence(tmp_path: Path) -> None:
    path = log_of(tmp_path / "trial.duckdb", "slack")
    (played,) = TrialLog(path).played()
    TrialLog(path).keep(another(tmp_path / "one.duckdb", "t-again"), "t-again", played.about)
    with pytest.raises(InputError, match="slack in block 0 is there whole twice"):
        trial(resume=path)


def test_a_log_that_another_process_writes_is_not_gone_on_with(tmp_path: Path) -> None:
    path = log_of(tmp_path / "trial.duckdb", "slack")
    with held(path), pytest.raises(InputError, match=r"another process is writing .*trial\.duckdb"):
        trial(resume=path, endpoint="http://127.0.0.1:1", model="m")


def onlooker(path: Path) -> subprocess.Popen[str]:
    """Another process that has the log open for reading, as a notebook has."""
    program = f"import duckdb; c = duckdb.connect({str(path)!r}, read_only=True); print(); input()"
    other = subprocess.Popen(
        [sys.executable, "-uc", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    other.stdout.readline()
    return other


def test_an_onlooker_is_waited_for_and_no_run_is_lost(tmp_path: Path) -> None:
    log = TrialLog(log_of(tmp_path / "trial.duckdb", "slack"))
    (played,) = log.played()
    about = msgspec.structs.replace(played.about, arm="fixed_h")
    run_log = another(tmp_path / "one.duckdb", "t-fixed")
    said: list[str] = []
    with onlooker(log.path) as other:

        def end(text: str) -> None:
            said.append(text)
            other.communicate("")

        log.keep(run_log, "t-fixed", about, end)
    assert [one.partition(":")[0] for one in said] == [f"{log.path} is open in another process"]
    assert {one.about.arm for one in log.played()} == {"slack", "fixed_h"}


def test_a_run_that_cannot_be_added_stays_beside_the_log(tmp_path: Path) -> None:
    log = TrialLog(log_of(tmp_path / "trial.duckdb", "slack"))
    log.patience_s = 0.0
    ours = trial_of(log)
    other = another(tmp_path / "one.duckdb", "t-none")
    planned = next(one for one in DESIGN.planned() if one.arm == "none")
    plan = ours._plan(planned, 0, other, None)
    with onlooker(log.path) as there:
        with pytest.raises(
            RunLogError, match=rf"it stays as .*{plan.run_id}\.duckdb, and --resume"
        ):
            ours._keep(plan, ours._about(planned, 0, None))
        there.communicate("")
    assert not other.exists()
    assert (tmp_path / f"{plan.run_id}.duckdb").is_file()


def test_a_log_that_cannot_be_written_is_judged_and_that_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "JUDGE_PATIENCE_S", 0.0)
    log = TrialLog(log_of(tmp_path / "trial.duckdb", "slack"))
    (played,) = log.played()
    control = msgspec.structs.replace(played.about, arm="random:slack")
    log.keep(another(tmp_path / "one.duckdb", "t-random"), "t-random", control)
    with onlooker(log.path) as there:
        document = judged(log, DESIGN, "slack")
        there.communicate("")
    assert [one["policy"] for one in document["verdicts"]] == ["slack"]
    assert any("verdicts cannot be written" in note for note in document["notes"])
    assert log._ask("SELECT * FROM verdicts") == []


def test_runs_that_are_left_are_those_planned_that_are_not_there(tmp_path: Path) -> None:
    (played,) = TrialLog(log_of(tmp_path / "trial.duckdb", "slack")).played()
    assert _left(DESIGN, [played]) == _left(DESIGN, [played, played]) == DESIGN.runs - 1


def test_a_log_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "old.duckdb"
    path.touch()
    with pytest.raises(InputError, match="--resume"):
        trial_job._new_path(path)


@pytest.mark.parametrize(
    ("violations_pp", "excess_pp", "said"),
    [(35.0, 2.6, True), (35.0, 20.0, False), (4.0, 0.1, False), (35.0, None, False)],
)
def test_violations_that_are_no_merge_s_doing_are_said_to_be(
    violations_pp: float, excess_pp: float | None, said: bool
) -> None:
    row = {"arm": "slack", "violations_pp": violations_pp, "excess_pp": excess_pp}
    nobody = {"arm": "none", "violations_pp": 90.0, "excess_pp": 0.0}
    found = not_by_merges([row, nobody])
    assert bool(found) is said
    if said:
        assert found[0].startswith("35 % of requests violate, of which windows added 2.6: the rest")


def test_time_left_is_said_in_words() -> None:
    assert [left(s) for s in (10, 700, 12_000)] == ["under a minute", "12 min", "3 h 20 min"]
