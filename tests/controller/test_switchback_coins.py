"""Switchback: coins come of the seed alone, and the random arm looks at no traffic."""

import random

import pytest
from worlds import T0, bins, engine, finished, run, steps

from controller.switchback import LEAST_POOL, Switchback, switchback_key
from slackwater.corridor import Corridor
from slackwater.events import Decision, MergeCommand, Pause

CORRIDOR = Corridor(100, 400)
CALM = [1] * 400
BUSY = [random.Random(5).randint(0, 14) for _ in range(400)]


def assignments(number, gap=150, **given):
    made = Switchback(**{"key": "k", "policy_share": 0.5, "control": "matched"} | given)
    return [made.follow({"a": i * gap}, CORRIDOR) for i in range(number)]


def test_same_key_gives_the_same_coins_and_moments_and_another_key_others():
    assert assignments(60) == assignments(60)
    assert [a.arm for a in assignments(60)] != [a.arm for a in assignments(60, key="l")]
    keys = {switchback_key(s, r, g) for s in (1, 2) for r in ("a", "b") for g in ("x", "y")}
    assert len(keys) == 8


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_coin_has_the_share_that_is_set(share):
    own = [a.arm == "policy" for a in assignments(2000, policy_share=share)]
    assert abs(sum(own) / 2000 - share) < 4 * (share * (1 - share) / 2000) ** 0.5


def test_an_interval_keeps_its_coin_until_the_next_merge():
    made = Switchback("k", 0.5, "uniform")
    first = made.follow({"a": 0}, CORRIDOR)
    assert made.follow({"a": 0}, CORRIDOR) is first
    assert made.follow({"a": 120}, CORRIDOR).interval == 1


def numbers(*ticks):
    """The interval at each tick, of what the learners tell of their last merges."""
    made = Switchback("k", 0.5, "uniform")
    return [made.follow(last_merges, CORRIDOR).interval for last_merges in ticks]


def test_learners_that_count_steps_of_their_own_make_one_interval_of_a_merge():
    assert numbers(
        {"a": 0, "b": 0},
        {"a": 151, "b": 0},
        {"a": 151, "b": 132},
        {"a": 151, "b": 132},
        {"b": 132, "a": 302},
        {"a": 302, "b": 264},
    ) == [0, 1, 1, 1, 2, 2]


def test_a_learner_that_stands_still_or_comes_later_begins_no_interval():
    assert numbers(
        {"a": 0, "b": 0},
        {"a": 150},  # Nobody has heard of b for a while.
        {"a": 150, "b": 0},
        {"a": 150, "b": 140},
        {"a": 150, "b": 140, "c": 0},
        {"a": 150, "b": 140, "c": 10},  # It has taken the others' weights.
        {"a": 300, "b": 280, "c": 160},
    ) == [0, 1, 1, 1, 1, 1, 2]


def test_a_learner_that_missed_a_merge_tells_of_the_next_with_the_others():
    assert numbers(
        {"a": 0, "b": 0}, {"a": 150, "b": 0}, {"a": 300, "b": 300}, {"a": 300, "b": 300}
    ) == [0, 1, 2, 2]


def test_where_all_that_merged_have_left_those_who_are_there_tell():
    assert numbers({"a": 0}, {"a": 0, "b": 0}, {"b": 0}, {"b": 150}, {"b": 300}) == [0, 0, 0, 1, 2]


def test_a_learner_that_starts_anew_from_an_older_state_has_not_merged_by_that():
    assert numbers({"a": 0}, {"a": 300}, {"a": 150}, {"a": 300}, {"a": 450}) == [0, 1, 1, 2, 3]


def test_uniform_moments_reach_both_ends_of_the_corridor_evenly():
    drawn = [a.drawn_gap_steps for a in assignments(4000, control="uniform", policy_share=0.1)]
    drawn = [gap for gap in drawn if gap is not None]
    assert (min(drawn), max(drawn)) == (100, 400)
    assert abs(sum(drawn) / len(drawn) - 250) < 6


def test_matched_moments_are_gaps_that_the_policy_had():
    made = assignments(200, gap=150)
    own, pool = 0, None
    for assigned in made:
        if assigned.arm == "random" and own >= LEAST_POOL:
            pool = assigned.drawn_gap_steps
            assert pool == 150
        own += assigned.arm == "policy"
    assert pool == 150


def test_gaps_beyond_the_corridor_are_no_pattern_for_random_moments():
    drawn = [a.drawn_gap_steps for a in assignments(300, gap=700) if a.drawn_gap_steps is not None]
    assert len(set(drawn)) > 50
    assert max(drawn) <= 400


def merged(counts, until_s=50.0, seed=0, policy="slack", extra=(), **settings):
    """A run of one learner that makes every merge commanded, and takes a second for each."""
    made = engine(policy, switchback="uniform", seed=seed, **settings)
    for observation in [*bins("s", counts), *extra]:
        made.observe(observation)
    decided: list[tuple[Decision, MergeCommand | None]] = []
    step = last = 0
    command, resume_us = None, 0
    for number in range(1, round(until_s * 20)):
        at_us = T0 + number * 50_000
        if at_us >= resume_us:
            step += 1
            made.observe(one_step(at_us, step, last))
        if command is not None and step == command.at_step and at_us >= resume_us:
            resume_us, last = at_us + 1_000_000, step
            made.observe(finished(command, resume_us)[0])
            command = None
        if number % 5 == 0:
            for decision, order in made.advance(at_us):
                decided.append((decision, order))
                command = order or command
    return decided


def one_step(at_us, step, last):
    [made] = steps("a", 1, last_merge=last, first=step)
    return type(made)(
        **{f: getattr(made, f) for f in made.__struct_fields__ if f not in {"at_us", "v"}},
        at_us=at_us,
    )


def arms(decided):
    return {d.interval_number: d.arm for d, _ in decided if d.arm}


def test_coins_and_random_moments_are_the_same_whatever_the_traffic():
    calm, busy = merged(CALM), merged(BUSY)
    shared = arms(calm).keys() & arms(busy).keys()
    assert len(shared) >= 3
    assert {n: arms(calm)[n] for n in shared} == {n: arms(busy)[n] for n in shared}
    drawn = [
        {d.interval_number: d.drawn_gap_steps for d, _ in decided if d.drawn_gap_steps}
        for decided in (calm, busy)
    ]
    both = drawn[0].keys() & drawn[1].keys()
    assert both
    assert all(drawn[0][n] == drawn[1][n] for n in both)


@pytest.mark.parametrize("counts", [CALM, BUSY, []], ids=["calm", "busy", "load unknown"])
def test_random_interval_merges_at_its_step_whatever_the_load(counts):
    made = merged(counts)
    commands = [(d, c) for d, c in made if c is not None and d.arm == "random"]
    assert commands
    for decision, command in commands:
        gap = command.at_step - (decision.step - decision.gap_steps)
        assert decision.reason in {"drawn_step", "h_max"}
        assert gap == max(decision.drawn_gap_steps, 100)


def test_policy_interval_is_decided_by_the_policy_alone():
    reasons = {d.reason for d, _ in merged(BUSY, fallback="fixed_h") if d.arm == "policy"}
    assert not reasons & {"drawn_step", "drawn_later"}
    assert reasons & {"calm_enough", "calmer_expected"}


def test_pause_and_h_max_come_before_the_coin_and_count_in_its_arm():
    paused = Pause(run_id="r", at_us=T0 + 100_000, group="default")
    made = merged(CALM, 70.0, extra=[paused])
    assert [c.reason for _, c in made if c] == ["h_max"] * sum(c is not None for _, c in made)
    assert len({d.arm for d, c in made if c}) == 2


def test_shadows_know_no_coin():
    made = engine("slack", "fixed_h", switchback="matched")
    decided = run(made, [*bins("s", CALM), *steps("a", 399)], 19.0)
    assert {d.policy for d, _ in decided if d.arm is not None} == {"slack"}


def test_without_a_switchback_decisions_have_no_arm():
    decided = run(engine("slack"), [*bins("s", CALM), *steps("a", 399)], 19.0)
    assert {(d.arm, d.interval_number, d.policy_share) for d, _ in decided} == {(None, None, None)}


def test_restart_that_replays_the_observations_goes_on_with_the_same_coins():
    world = [*bins("s", BUSY), *steps("a", 399)]
    whole = run(engine("slack", switchback="matched", seed=3), world, 19.0)
    anew = engine("slack", switchback="matched", seed=3)
    early = [d for d, _ in run(anew, world, 8.0)]
    late = [d for d, _ in anew.advance(T0 + 19_000_000)]
    assert early + late == [d for d, _ in whole]
