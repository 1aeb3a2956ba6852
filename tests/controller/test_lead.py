import msgspec
import pytest
from closed_loop import Loop
from worlds import bins, engine

from controller.lead import CommandLead
from controller.learners import LearnerState
from slackwater.events import Accepted, MergeReport, Skipped

T0 = 1_750_000_000_000_000


def answer(
    kind: type[MergeReport], after_s: float, reason: str = "x", learner: str = "a"
) -> MergeReport:
    return kind(
        run_id="r", at_us=T0 + round(after_s * 1e6), group="g", learner=learner, merge_id="m",
        step=1, reason=reason,
    )  # fmt: skip


def lead_after(*answers: MergeReport) -> float:
    lead = CommandLead(least_s=1.0)
    lead.ordered("m", T0)
    for report in answers:
        lead.observe(report)
    return lead.lead_s([], 400)


def test_lead_is_the_setting_while_answers_are_quick() -> None:
    assert lead_after() == 1.0
    assert lead_after(answer(Accepted, 0.3)) == 1.0


def test_slow_answer_lengthens_the_lead_and_is_forgotten_slowly() -> None:
    assert lead_after(answer(Accepted, 2.0)) == pytest.approx(3.0)
    assert lead_after(answer(Accepted, 2.0), answer(Accepted, 0.1, learner="b")) == pytest.approx(
        2.7
    )


def test_refusal_for_lateness_counts_others_do_not() -> None:
    late = "late: this learner is at step 9"
    assert lead_after(answer(Skipped, 2.0, late)) == pytest.approx(3.0)
    assert lead_after(answer(Skipped, 2.0, "corridor: no")) == 1.0


def test_only_the_first_answer_of_a_learner_counts() -> None:
    dropped = answer(Skipped, 9.0, "late: the learner went past that step")
    assert lead_after(answer(Accepted, 0.2), dropped) == 1.0


def test_answers_to_other_commands_say_nothing() -> None:
    lead = CommandLead(least_s=1.0)
    lead.observe(answer(Accepted, 9.0))
    assert lead.lead_s([], 400) == 1.0


def test_what_answers_add_leaves_half_of_the_way_of_the_fastest_to_h_max() -> None:
    lead = CommandLead(least_s=1.0)
    lead.ordered("m", T0)
    lead.observe(answer(Accepted, 12.0))
    pair = [LearnerState(1, 0, 0, 0, 0) for _ in range(2)]
    for state, step_time_s in zip(pair, (0.03, 0.04), strict=True):
        state.step_time.update(step_time_s, 1.0)
    assert lead.lead_s(pair, 512) == pytest.approx(512 * 0.03 / 2)
    assert lead.lead_s(pair, 10_000) == pytest.approx(18.0)


def test_one_very_late_answer_does_not_end_commanding() -> None:
    def live(*people: MergeReport) -> Loop:
        return Loop(engine("fixed_h", fixed_steps=250), bins("s", [4] * 400)).run(400, people)

    # Late by 14 s, which asks for a lead of 21 s: H_max comes every 20 s.
    usual = live()
    first = next(d for d in usual.decisions if d.action == "merge")
    late = answer(Skipped, (first.at_us - T0) / 1e6 + 14.0, "late: this learner is at step 500")
    found = live(msgspec.structs.replace(late, merge_id=f"m{first.at_us}"))
    assert len(found.gaps) == len(usual.gaps) > 4
    assert set(found.gaps) == {250}
    assert set(found.reasons) == {"period_due"}
