"""A window's harm is counted from its first learner's start until its last one's end."""

import math
from typing import ClassVar

import pytest
from worlds import BIN_US, T0, bins, steps

from controller.engine import Engine
from controller.harm import Burden, HarmLedger
from controller.policies import Choice
from controller.settings import ControllerSettings
from controller.signals import Load, Part
from controller.view import Timing, View
from slackwater.events import Accepted, Finished, Heartbeat, MergeReport, Skipped, Started

SECOND_US = 1_000_000
# The ledger judges nothing before it remembers three windows.
WINDOWS = 4
BOTH = ("x", "y")


def seen(a: int, b: int) -> Load:
    """A load under which so many have arrived at each of two sidecars so far."""
    parts = (Part("a", 1.0, 0.0, 1000.0, a), Part("b", 1.0, 0.0, 1000.0, b))
    return Load(2.0, 0.0, 0.0, 0.0, 0.0, (), parts)


EARLY, LATE, LATER = seen(30, 0), seen(30, 90), seen(900, 90)


def opened(made: HarmLedger, number: int, *learners: str) -> str:
    for learner in learners:
        made.open(f"m{number}", learner, 0, seen(0, 0), 8.0)
    return f"m{number}"


def borne(made: HarmLedger) -> float | None:
    """The burden of `b`, which is 1.5 where 30 and 90 were harmed; None with too few windows."""
    burden = made.burden(30 * SECOND_US, seen(0, 0), 8.0)
    if burden is None or burden.now is None:
        return None
    return burden.now if burden.sidecar == "b" else 2.0 - burden.now


def test_window_lasts_until_all_who_started_have_ended() -> None:
    made = HarmLedger(1e9)
    for i in range(WINDOWS):
        merge_id = opened(made, i, *BOTH)
        made.end(merge_id, "x")
        made.count(2 * SECOND_US, EARLY, BOTH)
        made.end(merge_id, "y")
        made.count(10 * SECOND_US, LATE, BOTH)
        made.count(12 * SECOND_US, LATER, BOTH)
    assert borne(made) == pytest.approx(1.5)


def test_learner_that_never_started_ends_nothing() -> None:
    made = HarmLedger(1e9)
    for i in range(WINDOWS):
        merge_id = opened(made, i, "x")
        made.end(merge_id, "y")
        made.count(SECOND_US, EARLY, BOTH)
        made.end(merge_id, "x")
        made.count(7 * SECOND_US, LATE, BOTH)
    assert borne(made) == pytest.approx(1.5)


def test_window_of_a_learner_that_is_gone_ends_as_planned() -> None:
    made = HarmLedger(1e9)
    for i in range(WINDOWS):
        opened(made, i, "x")
        made.count(3 * SECOND_US, EARLY, ())
        made.count(8 * SECOND_US, LATE, {"x"})
        made.count(9 * SECOND_US, LATER, {"x"})
        assert borne(made) is None or i == WINDOWS - 1
        made.count(19 * SECOND_US, LATER, ())
    assert borne(made) == pytest.approx(1.5)


def test_end_told_after_the_planned_one_stands_though_another_learner_is_gone() -> None:
    made = HarmLedger(1e9)
    for i in range(WINDOWS):
        merge_id = opened(made, i, *BOTH)
        made.count(8 * SECOND_US, EARLY, BOTH)
        made.end(merge_id, "y")
        made.count(12 * SECOND_US, LATE, BOTH)
        made.count(19 * SECOND_US, LATER, {"y"})
    assert borne(made) == pytest.approx(1.5)


def test_window_that_nobody_ends_is_over_when_the_next_begins() -> None:
    made = HarmLedger(1e9)
    for i in range(WINDOWS):
        opened(made, i, "x")
        made.count(8 * SECOND_US, LATE, {"x"})
        made.count(20 * SECOND_US, LATER, {"x"})
    assert borne(made) is None
    opened(made, WINDOWS, "x")
    assert borne(made) == pytest.approx(1.5)


@pytest.mark.parametrize("at_once", [True, False])
def test_merge_that_several_learners_start_is_booked_once(at_once: bool) -> None:
    made, learners = HarmLedger(1e9), [f"l{i}" for i in range(9)]
    for learner in learners if at_once else ():
        opened(made, 0, learner)
    for learner in learners:
        made.open("m0", learner, 0, seen(0, 0), 8.0)
        made.end("m0", learner)
        made.count(0, LATE, learners)
    assert borne(made) is None


def test_start_told_twice_opens_nothing_and_started_anew_is_another_merge() -> None:
    twice, anew = HarmLedger(1e9), HarmLedger(1e9)
    for i in range(WINDOWS):
        for made, at_us in ((twice, 0), (anew, i * 20 * SECOND_US)):
            made.open("hmax-512", "x", at_us, seen(0, 0), 8.0)
            made.end("hmax-512", "x")
            made.count(at_us, LATE, {"x"})
    assert borne(twice) is None
    assert borne(anew) == pytest.approx(1.5)


class Watcher:
    """Never merges, and notes the burdens that it is shown."""

    name: ClassVar[str] = "watcher"
    needs_load: ClassVar[bool] = True

    def __init__(self) -> None:
        self.burden: Burden | None = None

    def choose(self, view: View, timing: Timing) -> Choice:
        self.burden = view.harm.burden(view.tick_us, view.load, view.window_s)
        return Choice(merge=False, reason="watching")


PERIOD_S, WINDOW_S = 20, 8
# A window of 8 s opens in each period of 20 s: `a` is busy in its first 2 s, `b` in the rest.
BINS = PERIOD_S * 4
BUSY_A = [10 if i < 8 else 1 for i in range(BINS)]
BUSY_B = [10 if 8 <= i < 32 else 1 for i in range(BINS)]
IN_SYSTEM = 2


def about(learner: str, number: int, at_s: float) -> dict[str, object]:
    at_us = T0 + round((PERIOD_S * (number + 1) + at_s) * SECOND_US)
    return {"run_id": "r", "at_us": at_us, "group": "default", "learner": learner,
            "merge_id": f"m{number}", "step": 380 * (number + 1)}  # fmt: skip


def ended(learner: str, number: int, at_s: float) -> Finished:
    return Finished(**about(learner, number, at_s), seconds=at_s, bytes_exchanged=4)


def early_word(kind: str, number: int) -> list[MergeReport | Heartbeat]:
    """What `y` says while `x` is in the window."""
    if kind == "never there":
        return [Skipped(**about("y", number, 0.1), reason="late")]
    told: list[MergeReport | Heartbeat] = [Started(**about("y", number, 0.0))]
    if kind == "ends early":
        return [*told, ended("y", number, 2.0)]
    if kind == "gives up early":
        return [*told, Skipped(**about("y", number, 2.0), reason="failed")]
    at_us = T0 + (PERIOD_S * (number + 1) + 2) * SECOND_US
    return [*told, Heartbeat(run_id="r", at_us=at_us, learner="y", final=True)]


@pytest.mark.parametrize("kind", ["never there", "ends early", "gives up early", "leaves"])
def test_engine_counts_the_whole_window_whatever_a_peer_says_before(kind: str) -> None:
    watcher = Watcher()
    settings = ControllerSettings(min_gap_steps=1, max_gap_steps=100_000, window_s=WINDOW_S)
    made = Engine(settings, [watcher], run_id="r")
    calm, periods = [1] * BINS, WINDOWS + 1
    for name, busy in (("a", BUSY_A), ("b", BUSY_B)):
        for row in bins(name, calm + busy * WINDOWS, in_system=IN_SYSTEM):
            made.observe(row)
    for learner in BOTH:
        for step in steps(learner, periods * PERIOD_S * 20):
            since_us = (step.at_us - T0) % (PERIOD_S * SECOND_US)
            if since_us > WINDOW_S * SECOND_US or step.at_us <= T0 + PERIOD_S * SECOND_US:
                made.observe(step)
    for number in range(WINDOWS):
        made.observe(Accepted(**about("x", number, -1.0)))
        made.observe(Started(**about("x", number, 0.0)))
        made.observe(ended("x", number, WINDOW_S))
        for word in early_word(kind, number):
            made.observe(word)
    for _ in made.advance(T0 + (PERIOD_S * periods - 1) * SECOND_US):
        pass
    assert watcher.burden is not None
    harm_a, harm_b = (sum(busy[: WINDOW_S * 4]) + IN_SYSTEM for busy in (BUSY_A, BUSY_B))
    ticks = (PERIOD_S * periods - 1) * SECOND_US // BIN_US
    served = [math.fsum(faded(calm + busy * WINDOWS, ticks)) for busy in (BUSY_A, BUSY_B)]
    due_b = served[1] / sum(served)
    assert watcher.burden.sidecar == "b"
    assert watcher.burden.now == pytest.approx(harm_b / (harm_a + harm_b) / due_b, rel=1e-6)


def faded(counts: list[int], ticks: int) -> list[float]:
    """Requests of each bin closed by that tick, as they count then: half after 1800 s."""
    return [
        n * 2.0 ** (-(ticks - 1 - i) * BIN_US / SECOND_US / 1800.0)
        for i, n in enumerate(counts[:ticks])
    ]
