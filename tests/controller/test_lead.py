import pytest

from controller.lead import CommandLead
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
    return lead.lead_s


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
    assert lead.lead_s == 1.0
