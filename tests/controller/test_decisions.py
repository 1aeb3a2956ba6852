import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import BIN_US, STEP_US, T0, bins, engine, finished, run, steps

from controller.policies import POLICIES, policy_named
from controller.settings import ControllerSettings, ScoreWeights
from slackwater.errors import InputError
from slackwater.events import Decision, MergeCommand, MergeNow, Pause, Resume, Step
from slackwater.policies import POLICY_NAMES

CALM_THEN_BUSY = [2] * 60 + [12] * 200
ALL = pytest.mark.parametrize("policy", sorted(POLICIES))


def person(kind: type[Pause | Resume | MergeNow], at_s: float) -> Pause | Resume | MergeNow:
    return kind(run_id="r", at_us=T0 + round(at_s * 1e6), group="default")


def first_command(results: list[tuple[Decision, MergeCommand | None]]) -> MergeCommand:
    return next(c for _, c in results if c is not None)


def test_the_command_line_names_every_policy() -> None:
    assert tuple(POLICIES) == POLICY_NAMES


@ALL
def test_every_command_lies_in_the_corridor_and_ahead_of_the_learners(policy: str) -> None:
    made = engine(policy)
    world = [*bins("s", [random.Random(3).randint(0, 9) for _ in range(400)]), *steps("a", 420)]
    results = run(made, world, 21.0)
    command = first_command(results)
    assert 100 <= command.at_step <= 400
    assert command.at_step > (command.at_us - T0) // STEP_US
    assert command.merge_id == f"m{command.at_us}"
    assert command.deadline_us > T0 + command.at_step * STEP_US


@ALL
def test_h_max_always_forces_a_merge_in_time_for_the_learners(policy: str) -> None:
    made = engine(policy, stale_after_s=0.1)
    results = run(made, [*bins("s", [3] * 4), person(Pause, 0.5), *steps("a", 420)], 21.0)
    commands = [c for _, c in results if c is not None]
    assert [c.reason for c in commands] == ["h_max"]
    assert commands[0].at_step == 400
    assert commands[0].at_us < T0 + 400 * STEP_US


@ALL
def test_future_observations_change_no_earlier_decision(policy: str) -> None:
    rng = random.Random(11)
    past, learners = [rng.randint(0, 9) for _ in range(40)], steps("a", 420)
    early = 10.0
    results = []
    for future in ([0] * 60, [30] * 60):
        world = [*bins("s", past + future), *learners]
        results.append(
            [d for d, _ in run(engine(policy), world, 25.0) if d.at_us <= T0 + early * 1e6]
        )
    assert results[0] == results[1]
    assert len(results[0]) == 40


@ALL
@settings(max_examples=30)
@given(data=st.data())
def test_order_and_batches_of_delivery_change_nothing(policy: str, data: st.DataObject) -> None:
    world = [
        *bins("s", CALM_THEN_BUSY[:80]),
        *bins("t", [3] * 80),
        *steps("a", 300),
        *steps("b", 300),
    ]
    expected = run(engine(policy), world, 15.0)
    shuffled = data.draw(st.permutations(world))
    made, got = engine(policy), []
    cut = data.draw(st.integers(0, 15))
    early = [o for o in shuffled if _known_us(o) <= T0 + cut * 1_000_000]
    for observation in early:
        made.observe(observation)
    got += list(made.advance(T0 + cut * 1_000_000))
    for observation in [o for o in shuffled if _known_us(o) > T0 + cut * 1_000_000]:
        made.observe(observation)
    got += list(made.advance(T0 + 15_000_000))
    assert got == expected
    assert made.late_observations == 0


def _known_us(observation: object) -> int:
    return observation.at_us if isinstance(observation, Step) else observation.start_us + BIN_US  # type: ignore[attr-defined]


def test_stale_sidecar_is_never_read_as_idle() -> None:
    made = engine("wa_forecast", "slack", "wa_diloco", "pressure_gate", "adaptive_load")
    world = [*bins("a", [8] * 30), *bins("b", [8] * 100), *steps("x", 399)]
    results = run(made, world, 19.0)
    after = [d for d, _ in results if d.at_us > T0 + 10_000_000]
    judged = [d for d in after if not d.reason.startswith(("h_max", "merge_pending"))]
    assert judged
    assert {d.reason for d in judged} == {"signal_stale"}
    assert all(d.stale == ["a"] and d.score is None and d.candidates is None for d in judged)


def test_sidecar_that_has_gone_for_good_holds_no_decision_up() -> None:
    made = engine("wa_forecast", sidecar_gone_s=8.0)
    world = [*bins("gone", [8] * 8), *bins("b", [8] * 60), *steps("x", 250)]
    reasons = {d.reason for d, _ in run(made, world, 12.0) if d.at_us > T0 + 10_250_000}
    assert "signal_stale" not in reasons


def test_policies_that_do_not_look_at_load_go_on_without_it() -> None:
    command = first_command(run(engine("fixed_h", fixed_steps=200), steps("a", 300), 15.0))
    assert (command.reason, command.at_step) == ("period_due", 200)


@pytest.mark.parametrize("policy", ["wa_forecast", "slack"])
def test_merge_waits_through_a_burst_for_the_calm_after_it(policy: str) -> None:
    calm, burst = [1] * 17, [12] * 40
    world = [*bins("s", calm + burst + [1] * 20), *steps("a", 399)]
    command = first_command(run(engine(policy), world, 19.0))
    assert command.at_us > T0 + len(calm + burst) * BIN_US
    assert command.reason in {"score_above", "calm_enough"}


def test_pause_holds_resume_releases() -> None:
    world = [*bins("s", [3] * 100), *steps("a", 399)]
    held = run(engine("fixed_h", fixed_steps=150), [*world, person(Pause, 1.0)], 15.0)
    assert all(c is None for _, c in held)
    assert {d.reason for d, _ in held if d.at_us > T0 + 8_000_000} == {"paused"}
    released = [*world, person(Pause, 1.0), person(Resume, 12.0)]
    command = first_command(run(engine("fixed_h", fixed_steps=150), released, 15.0))
    assert command.at_us >= T0 + 12_000_000


def test_merge_now_merges_once_at_the_first_reachable_step_after_h_min() -> None:
    world = [*bins("s", [3] * 100), *steps("a", 399), person(MergeNow, 1.0)]
    results = run(engine("fixed_h", fixed_steps=399), world, 15.0)
    commands = [c for _, c in results if c is not None]
    assert [c.reason for c in commands] == ["merge_now"]
    assert 100 <= commands[0].at_step <= 106


def test_no_second_command_while_a_participant_has_not_settled_the_first() -> None:
    made = engine("fixed_h", fixed_steps=120)
    world = [*steps("a", 300), *steps("b", 300)]
    command = first_command(run(made, world, 6.0))
    one_done = finished(command, T0 + 6_500_000)[:1]
    results = run(made, one_done, 7.0)
    assert {d.reason for d, _ in results} == {"merge_pending"}


def test_gap_counts_from_a_merge_as_soon_as_it_is_reported() -> None:
    made = engine("fixed_h", fixed_steps=120)
    command = first_command(run(made, steps("a", 120), 5.9))
    results = run(made, finished(command, T0 + 6_010_000), 8.0)
    assert results[-1][0].reason == "h_min"
    assert results[-1][0].gap_steps is not None
    assert results[-1][0].gap_steps < 100


def test_window_is_measured_from_the_merges_reported() -> None:
    made = engine("fixed_h", fixed_steps=120)
    command = first_command(run(made, [*steps("a", 300)], 6.0))
    results = run(made, finished(command, T0 + 7_000_000, seconds=3.5), 8.0)
    assert results[0][0].window_s == 2.0
    assert results[-1][0].window_s == 3.5


def test_missing_learners_are_waited_for() -> None:
    results = run(engine("fixed_h", expect_learners=2), steps("a", 399), 19.0)
    assert {d.reason for d, _ in results} == {"learners_missing"}


def test_merges_go_on_with_a_quorum_once_all_have_been_there() -> None:
    made = engine("fixed_h", fixed_steps=150, expect_learners=3, learner_stale_s=2.0)
    everybody = [step for name in "abc" for step in steps(name, 60)]
    left = [step for name in "ab" for step in steps(name, 180, first=61)]
    results = run(made, [*everybody, *left], 10.0)
    command = first_command(results)
    assert command.participants == ["a", "b"]


def test_less_than_a_quorum_is_waited_for() -> None:
    made = engine("fixed_h", fixed_steps=150, expect_learners=3, learner_stale_s=2.0)
    everybody = [step for name in "abc" for step in steps(name, 60)]
    results = run(made, [*everybody, *steps("a", 180, first=61)], 10.0)
    assert [c for _, c in results if c] == []
    assert results[-1][0].reason == "learners_missing"


def test_a_command_says_which_epoch_it_is_for_where_all_learners_agree_on_one() -> None:
    for epochs, expected in (((4, 4), 4), ((4, 5), None), ((None, None), None)):
        world = [
            msgspec.structs.replace(step, epoch=epoch)
            for name, epoch in zip("ab", epochs, strict=True)
            for step in steps(name, 180)
        ]
        command = first_command(run(engine("fixed_h", fixed_steps=150), world, 8.0))
        assert command.epoch == expected


def test_decision_shows_what_it_saw() -> None:
    decision = run(engine("slack"), [*bins("s", [3] * 40), *steps("a", 250)], 9.0)[-1][0]
    assert decision.candidates is not None
    assert decision.candidates.overlap[0] == pytest.approx(2 + 12.0 * 2.0)
    assert len(decision.candidates.overlap) == len(decision.candidates.overlap_sd)
    spreads = decision.candidates.overlap_sd
    assert spreads == sorted(spreads)
    last_us = decision.candidates.first_us + round((len(spreads) - 1) * 0.25e6)
    assert abs(last_us - (T0 + 400 * STEP_US)) <= 500_000


def test_unknown_policy_names_those_that_exist() -> None:
    with pytest.raises(InputError, match="wa_forecast"):
        policy_named("best")


def test_corridor_upside_down_is_refused() -> None:
    with pytest.raises(ValueError, match="min <= max"):
        ControllerSettings(min_gap_steps=10, max_gap_steps=5)


@pytest.mark.parametrize("sign", [-1, 1])
def test_staleness_counts_with_the_sign_that_is_set(sign: int) -> None:
    made = engine("wa_forecast", weights=ScoreWeights(staleness_sign=sign, staleness_scale_s=10.0))
    results = run(made, [*bins("s", [3] * 40), *steps("a", 250)], 9.0)
    scored = next(d for d, _ in results if d.score is not None)
    assert scored.terms["staleness"] * sign > 0


def test_merge_that_h_max_forced_in_vain_is_commanded_at_the_next_chance() -> None:
    results = run(engine("slack"), steps("a", 900), 40.0)
    overdue = [c for d, c in results if d.reason == "h_max_overdue" and c is not None]
    assert overdue
    assert overdue[0].at_step > 400


def test_learner_that_reports_no_step_time_is_timed_by_its_steps() -> None:
    untimed = [msgspec.structs.replace(s, step_time_s=None) for s in steps("a", 250)]
    decision = run(engine("fixed_h", fixed_steps=399), untimed, 9.0)[-1][0]
    assert decision.step_time_s == pytest.approx(STEP_US / 1e6)


def test_gap_is_what_the_learners_report_and_never_beyond_h_max() -> None:
    results = run(engine("fixed_h", fixed_steps=399), steps("a", 399), 25.0)
    gaps = [(d.step, d.gap_steps) for d, _ in results if d.gap_steps is not None]
    assert all(gap == step for step, gap in gaps)
    assert max(gap for _, gap in gaps) <= 400
    assert all(d.first_reachable_step > d.step for d, _ in results if d.step is not None)


@pytest.mark.parametrize(("pressures", "merges"), [((0.4, 0.3), True), ((0.9, 0.0), False)])
def test_pressure_gate_looks_at_the_learner_under_most_pressure(
    pressures: tuple[float, float], merges: bool
) -> None:
    world: list[object] = [*bins("s", [3] * 60)]
    for name, pressure in zip("ab", pressures, strict=True):
        world += [msgspec.structs.replace(s, network_pressure=pressure) for s in steps(name, 250)]
    results = run(engine("pressure_gate"), world, 9.0)
    assert any(d.reason == "pressure_low" for d, _ in results) is merges


def test_merge_at_h_max_answers_a_request_to_merge_now() -> None:
    made = engine("fixed_h", fixed_steps=399)
    results = run(made, [*steps("a", 395), person(MergeNow, 19.4)], 19.9)
    command = first_command(results)
    again = run(
        made,
        [*finished(command, T0 + 21_000_000), *steps("a", 150, last_merge=400, first=401)],
        27.0,
    )
    assert all(c is None for _, c in again)


def test_tokens_target_follows_the_corridor_when_none_is_set() -> None:
    command = first_command(run(engine("adaptive_tokens"), steps("a", 399), 19.0))
    assert command.reason == "tokens_reached"
    assert abs(command.at_step - 250) < 30


def test_hours_without_an_observation_are_not_decided_tick_by_tick() -> None:
    hour_us = 3_600 * 1_000_000
    late = [msgspec.structs.replace(s, at_us=s.at_us + hour_us) for s in steps("a", 50)]
    whole = run(engine("fixed_h"), [*steps("a", 50), *late], 4000.0)
    assert len(whole) < 2 * 4 * 65
    made = engine("fixed_h")
    pieces = run(made, steps("a", 50), 1000.0) + run(made, late, 4000.0)
    assert pieces == whole


def test_wide_corridor_is_recorded_in_few_candidates() -> None:
    world = [*bins("s", [3] * 40), *steps("a", 250)]
    decision = run(engine("slack", max_gap_steps=40_000), world, 9.0)[-1][0]
    assert decision.candidates is not None
    assert 100 < len(decision.candidates.overlap) <= 128
