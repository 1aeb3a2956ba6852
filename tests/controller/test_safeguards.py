"""What no policy may do: leave the corridor, read silence as idleness, load harm on one sidecar."""

import random
from typing import get_type_hints

import pytest
from closed_loop import Loop
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import BIN_US, STEP_US, T0, bins, engine, run, steps

from controller.harm import MIN_WINDOWS, HarmLedger
from controller.policies import POLICIES
from controller.settings import ControllerSettings
from controller.signals import Load, Part
from slackwater.attach.orders import MergeOrder
from slackwater.attach.protocol import Protocol
from slackwater.corridor import Corridor
from slackwater.events import BinRow, MergeNow, Pause, Resume

FALLBACKS = get_type_hints(ControllerSettings)["fallback"].__args__
NEED_LOAD = sorted(name for name, policy in POLICIES.items() if policy.needs_load)
BLIND_FROM_TICK = 4


@st.composite
def worlds(draw: st.DrawFn) -> list[BinRow]:
    """Two sidecars, one steady and one in bursts; either may be silent for a while."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    rows = bins("a", [rng.randint(2, 4) for _ in range(240)])
    rows += bins("b", [rng.choice([0, 1, 12]) for _ in range(240)])
    silent, since = draw(st.sampled_from(["a", "b", "ab", "", ""])), draw(st.integers(0, 240))
    until = since + draw(st.integers(0, 240))
    index = {row: (row.start_us - T0) // BIN_US for row in rows}
    return [r for r in rows if r.sidecar not in silent or not since <= index[r] < until]


@st.composite
def people(draw: st.DrawFn) -> list[Pause | Resume | MergeNow]:
    kinds = st.lists(st.sampled_from([Pause, Resume, MergeNow]), max_size=4)
    return [
        kind(run_id="r", at_us=T0 + draw(st.integers(1, 60_000_000)), group="default")
        for kind in draw(kinds)
    ]


@settings(max_examples=25, deadline=None)
@given(
    policy=st.sampled_from(sorted(POLICIES)),
    rows=worlds(),
    people=people(),
    bound=st.sampled_from([None, 1.01, 1.2, 3.0]),
    fallback=st.sampled_from(FALLBACKS),
    lead_s=st.sampled_from([0.0, 1.0, 7.0, 30.0]),
)
def test_every_gap_lies_in_the_corridor_whatever_the_policy_bound_fallback_or_person(
    policy: str,
    rows: list[BinRow],
    people: list[Pause | Resume | MergeNow],
    bound: float | None,
    fallback: str,
    lead_s: float,
) -> None:
    made = engine(
        policy, max_burden=bound, fallback=fallback, command_lead_s=lead_s, fixed_steps=250
    )
    loop = Loop(made, rows).run(240, people)
    assert loop.gaps
    assert all(100 <= gap <= 400 for gap in loop.gaps), loop.gaps


@pytest.mark.parametrize(("last_step", "reason"), [(399, "h_max"), (900, "h_max_overdue")])
def test_learners_take_what_a_paused_group_is_commanded(last_step: int, reason: str) -> None:
    """The second: their own merge at step 400 came to nothing."""
    world = [*steps("a", last_step), Pause(run_id="r", at_us=T0 + 1, group="default")]
    made = run(engine("slack"), world, last_step * STEP_US / 1e6 + 0.5)
    command = next(c for _, c in made if c is not None and c.reason == reason)
    said: list[tuple[str, str]] = []
    learner = Protocol("a", ["a"], Corridor(100, 400), lambda *words: said.append(words[:2]))
    learner.paused = True
    stood = max(step.step for step in steps("a", last_step) if step.at_us <= command.at_us)
    for step in range(1, stood + 1):
        order = learner.at_step(step, T0 + step * STEP_US)
        if order is not None:
            assert isinstance(order, MergeOrder)
            learner.skipped(order, "absent: b")
    said.clear()
    assert learner.command(command, command.at_us)
    assert said == [("accepted", command.merge_id)]


def blind(policy: str, fallback: str, ticks: int = 300) -> Loop:
    """Sidecar `b` falls silent for good after some seconds, under load."""
    rows = [*bins("a", [8] * 300), *bins("b", [8] * BLIND_FROM_TICK)]
    return Loop(engine(policy, fallback=fallback, fixed_steps=250), rows).run(ticks)


@pytest.mark.parametrize("policy", NEED_LOAD)
@pytest.mark.parametrize("fallback", FALLBACKS)
def test_stale_signal_is_decided_by_the_fallback_that_is_set_and_says_so(
    policy: str, fallback: str
) -> None:
    loop = blind(policy, fallback)
    after = [d for d in loop.decisions if d.at_us > T0 + (BLIND_FROM_TICK + 10) * BIN_US]
    judged = [d for d in after if d.reason.startswith("signal_stale")]
    assert judged
    assert all(d.stale == ["b"] and d.candidates is None for d in judged)
    merges = [d.reason for d in judged if d.action == "merge"]
    if fallback == "h_max":
        assert {d.reason for d in judged} == {"signal_stale"}
        assert set(loop.reasons) <= {"h_max", "own"}
        return
    assert all(d.reason.startswith(f"signal_stale:{fallback}:") for d in judged)
    assert merges
    alone = {d.reason for d in Loop(engine(fallback, fixed_steps=250), []).run(300).decisions}
    assert {reason.split(":", 2)[2] for reason in merges} <= alone


def test_fixed_fallback_keeps_its_period_while_blind() -> None:
    loop = blind("wa_forecast", "fixed_h", ticks=400)
    assert set(loop.reasons) == {"signal_stale:fixed_h:period_due"}
    assert set(loop.gaps) == {250}


def test_h_max_fallback_opens_the_fewest_windows_while_blind() -> None:
    windows = {fallback: len(blind("slack", fallback, 800).gaps) for fallback in FALLBACKS}
    assert all(windows["h_max"] < n for name, n in windows.items() if name != "h_max")


@pytest.mark.parametrize("policy", NEED_LOAD)
def test_load_that_nobody_has_ever_told_is_decided_by_the_fallback_too(policy: str) -> None:
    for fallback, reason in (
        ("h_max", "load_unknown"),
        ("fixed_h", "load_unknown:fixed_h:before_period"),
    ):
        results = run(engine(policy, fallback=fallback), steps("a", 200), 9.0)
        assert reason in {d.reason for d, _ in results}


def test_policies_that_need_no_load_need_no_fallback() -> None:
    loop = blind("fixed_h", "random_deferral")
    assert not [d for d in loop.decisions if "signal_stale" in d.reason]


def load(after_s: float = 0.0, **parts: tuple[float, float]) -> Load:
    """A load of sidecars, each (rate_per_s, requests served lately), nothing in flight."""
    made = tuple(
        Part(name, rate, 0.0, served, round(rate * after_s))
        for name, (rate, served) in parts.items()
    )
    return Load(0.0, 0.0, 0.0, 0.0, 0.0, (), made)


def one_window(made: HarmLedger, merge_id: str, opened: Load, ended: Load) -> None:
    """One learner's merge, seen under these loads, counted at time 0."""
    made.open(merge_id, "x", 0, opened, 8.0)
    made.end(merge_id, "x")
    made.count(0, ended, {"x"})


def ledger(windows: int, half_life_s: float = 1e9, **parts: tuple[float, float]) -> HarmLedger:
    """A ledger of so many windows of 8 s under one load, all counted at time 0."""
    made = HarmLedger(half_life_s)
    for i in range(windows):
        one_window(made, f"m{i}", load(**parts), load(8.0, **parts))
    return made


EVEN = {"a": (5.0, 1000.0), "b": (5.0, 1000.0)}
SKEWED = {"a": (9.0, 1000.0), "b": (1.0, 1000.0)}


def test_burden_is_share_of_harm_over_share_of_requests_with_the_window_included() -> None:
    burden = ledger(4, **EVEN).burden(10, load(**SKEWED), 8.0)
    assert burden is not None
    assert (burden.sidecar, burden.now) == ("a", pytest.approx(1.0))
    assert burden.then == pytest.approx(((4 * 40 + 72) / 400) / 0.5)
    assert burden.within(1.2)
    assert not burden.within(1.1)


def test_a_window_that_brings_the_worst_off_back_is_within_any_bound() -> None:
    burden = ledger(4, **SKEWED).burden(10, load(**EVEN), 8.0)
    assert burden is not None
    assert burden.then > 1.2
    assert burden.window == pytest.approx(1.0)
    assert burden.within(1.0001)


def test_a_window_that_lowers_a_burden_beyond_the_bound_hardly_at_all_is_not_enough() -> None:
    calm = {"a": (8.0, 1000.0), "b": (2.0, 1000.0)}
    burden = ledger(4, **SKEWED).burden(10, load(**calm), 8.0)
    assert burden is not None
    assert burden.now is not None
    assert 1.2 < burden.then < burden.now
    assert not burden.within(1.2)


def test_nothing_is_judged_before_there_is_enough_harm() -> None:
    assert ledger(int(MIN_WINDOWS) - 1, **SKEWED).burden(10, load(**SKEWED), 8.0) is None
    rare = {"a": (0.1, 50.0), "b": (0.01, 50.0)}
    assert ledger(4, **rare).burden(10, load(**rare), 8.0) is None


def test_a_small_sidecar_is_not_judged_by_a_handful_of_its_requests() -> None:
    served = {"big": (50.0, 10_000.0), "small": (1.0, 10.0)}
    burden = ledger(4, **served).burden(10, load(**served), 8.0)
    assert burden is not None
    assert burden.sidecar == "big"


def test_unknown_harm_is_booked_for_nobody_and_judges_nothing() -> None:
    known = load(**SKEWED)
    stale = Load(None, None, None, None, 9.0, ("b",), known.parts[:1])
    made = HarmLedger(1e9)
    for i in range(18):
        opened, ended = (stale, known) if i % 2 else (known, stale)
        one_window(made, f"m{i}", opened, ended)
    assert made.burden(10, known, 8.0) is None
    assert ledger(9, **SKEWED).burden(10, stale, 8.0) is None


def test_harm_is_counted_as_it_happened_not_as_it_was_forecast() -> None:
    made = HarmLedger(1e9)
    for i in range(4):
        one_window(made, f"m{i}", load(**SKEWED), load(8.0, **EVEN))
    burden = made.burden(10, load(**EVEN), 8.0)
    assert burden is not None
    assert (burden.now, burden.then) == (pytest.approx(1.0), pytest.approx(1.0))


def test_a_window_that_would_harm_nobody_is_not_judged() -> None:
    idle = load(a=(0.0, 1000.0), b=(0.0, 1000.0))
    assert ledger(4, **SKEWED).burden(10, idle, 8.0) is None


def test_harm_fades_and_is_forgiven() -> None:
    made = ledger(40, half_life_s=1.0, **SKEWED)
    burdens = [made.burden(us, load(**EVEN), 8.0) for us in (0, 3_000_000)]
    assert burdens[0] is not None
    assert burdens[1] is not None
    assert burdens[1].then < burdens[0].then
    assert made.burden(10_000_000, load(**EVEN), 8.0) is None


def uneven(number: int) -> list[BinRow]:
    """`a` steady, `b` silent in requests but for bursts of 5 s in every 20 s."""
    burst = [16 if i % 80 < 20 else 0 for i in range(number)]
    return [*bins("a", [4] * number), *bins("b", burst)]


def test_bound_on_harm_is_kept_by_waiting_and_logged_with_its_figures() -> None:
    made = engine("slack", max_burden=1.05)
    loop = Loop(made, uneven(800)).run(800)
    held = [d for d in loop.decisions if d.reason == "harm_bound"]
    assert held
    for decision in held:
        assert decision.action == "wait"
        assert decision.threshold == 1.05
        assert decision.score == decision.terms["burden_then:a"] > 1.05
        assert decision.terms["burden_window:a"] > 1.05
        assert decision.terms["burden_now:a"] > 0
    free = Loop(engine("slack"), uneven(800)).run(800)
    assert "harm_bound" not in {d.reason for d in free.decisions}


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_person_and_h_max_are_above_the_bound_on_harm(policy: str) -> None:
    # `a` alone is ever busy when anybody merges: any window makes it worse, and none is allowed.
    rows = [*bins("a", [20] * 400), *bins("b", [0] * 400)]
    rows += bins("b", [40] * 8, start_us=T0 + 400 * BIN_US)
    now = MergeNow(run_id="r", at_us=T0 + 75_000_000, group="default")
    made = engine(policy, max_burden=1.0001, fixed_steps=150)
    loop = Loop(made, rows).run(400, [now])
    assert all(100 <= gap <= 400 for gap in loop.gaps)
