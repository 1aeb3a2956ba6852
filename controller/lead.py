"""How long a command takes to reach the learners, measured by their answers."""

from collections import OrderedDict
from collections.abc import Iterable

from controller.learners import LearnerState
from slackwater.clock import US_PER_S
from slackwater.events import SKIPPED_LATE, Accepted, MergeReport, Skipped

MARGIN = 1.5
FORGET = 0.9
KEPT_ORDERS = 64
# Of the way to H_max: what remains is room enough to command a merge in.
MOST = 0.5


class CommandLead:
    """The lead to give the next command: never below the setting, longer where answers were slow.

    A command that comes late costs a merge, one that is early costs a little freshness; so the
    slowest answer counts, with a margin, and is forgotten by a tenth with each faster one. As only
    a command brings an answer, no answer may lengthen the lead to where none can be given.
    """

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._slowest_s = 0.0
        self._orders: OrderedDict[str, int] = OrderedDict()
        self._answered: set[tuple[str, str]] = set()

    def lead_s(self, learners: Iterable[LearnerState], max_gap_steps: int) -> float:
        """Event time to allow between a decision and the step it names, in seconds.

        What answers add ends at half of the time that the fastest of these learners takes to H_max.
        """
        learnt_s = MARGIN * self._slowest_s
        times_s = [state.step_time.mean for state in learners if state.step_time.mean]
        if times_s:
            learnt_s = min(learnt_s, MOST * max_gap_steps * min(times_s))
        return max(self._least_s, learnt_s)

    def ordered(self, merge_id: str, at_us: int) -> None:
        """Note when a command was decided."""
        self._orders[merge_id] = at_us
        if len(self._orders) > KEPT_ORDERS:
            self._orders.popitem(last=False)
            self._answered = {a for a in self._answered if a[0] in self._orders}

    def observe(self, report: MergeReport) -> None:
        """Take a learner's answer to a command; of anything else it learns nothing."""
        ordered_us = self._orders.get(report.merge_id)
        answer = (report.merge_id, report.learner)
        if ordered_us is None or answer in self._answered or not _is_answer(report):
            return
        self._answered.add(answer)
        took_s = (report.at_us - ordered_us) / US_PER_S
        self._slowest_s = max(took_s, FORGET * self._slowest_s)


def _is_answer(report: MergeReport) -> bool:
    """Accepted, or refused for coming too late."""
    if isinstance(report, Skipped):
        return (report.reason or "").partition(":")[0] == SKIPPED_LATE
    return isinstance(report, Accepted)
