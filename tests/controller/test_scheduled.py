"""The control `scheduled`: the steps drawn beforehand, by the path that every policy takes."""

from closed_loop import Loop
from msgspec.structs import replace
from worlds import bins

from controller.engine import Engine
from controller.policies import CONTROLS, POLICIES, policy_named
from controller.settings import ControllerSettings
from slackwater.events import Step


class Counted(Loop):
    """A learner that tells how many merges its weights have been through."""

    def _report_step(self, at_us: int) -> Step:
        return replace(super()._report_step(at_us), epoch=len(self.gaps))


def loop(*scheduled: int, told: type[Loop] = Counted, **corridor: int) -> Loop:
    settings = ControllerSettings(
        **{"min_gap_steps": 40, "max_gap_steps": 200, **corridor}, scheduled_steps=scheduled
    )
    engine = Engine(settings, [policy_named("scheduled")], run_id="r")
    return told(engine, bins("s", [3] * 400)).run(300)


def test_merges_stand_at_the_steps_drawn() -> None:
    made = loop(90, 200, 331)
    assert made.gaps[:3] == [90, 110, 131]
    assert set(made.reasons[:3]) == {"scheduled_step"}


def test_after_the_schedule_nothing_but_h_max_merges() -> None:
    made = loop(90)
    assert made.gaps[0] == 90
    assert set(made.gaps[1:]) == {200}
    assert "schedule_done" in {decision.reason for decision in made.decisions}


def test_the_corridor_holds_for_a_schedule_that_breaks_it() -> None:
    made = loop(90, 100, 500)
    assert all(40 <= gap <= 200 for gap in made.gaps)


def test_without_a_count_of_merges_it_waits() -> None:
    made = loop(90, told=Loop)
    assert set(made.gaps) == {200}
    assert "epoch_unknown" in {decision.reason for decision in made.decisions}


def test_it_is_no_policy_to_be_compared() -> None:
    assert not CONTROLS.keys() & POLICIES.keys()
