"""Which merges are running, from the learners' reports: when the sidecars are to be slowed.

A merge runs from the first `started` to the last `finished` of the learners that take part: those
that accepted or started it and did not skip. A learner that dies reports nothing more, so a
window ends by itself after 60 s of event time, and is counted as timed out.
"""

from dataclasses import dataclass, field

from slackwater.events import Accepted, Finished, MergesEvent, Skipped, Started

WINDOW_LIMIT_US = 60_000_000


@dataclass(slots=True)
class _Merge:
    expected: set[str] = field(default_factory=set)
    finished: set[str] = field(default_factory=set)
    opened_us: int | None = None
    timed_out: bool = False

    @property
    def running(self) -> bool:
        """Some learner started it and not all that take part have finished."""
        started = self.opened_us is not None and not self.timed_out
        return started and not self.expected <= self.finished


class MergeWindows:
    """The merges of one run and group, by merge id.

    Attributes:
        opened: windows that began.
        timed_out: windows that ended because no more reports came.
    """

    def __init__(self, limit_us: int = WINDOW_LIMIT_US) -> None:
        self._limit_us = limit_us
        self._merges: dict[str, _Merge] = {}
        self.opened = 0
        self.timed_out = 0

    @property
    def any_running(self) -> bool:
        """True while at least one merge runs."""
        return any(merge.running for merge in self._merges.values())

    def report(self, event: MergesEvent, now_us: int) -> None:
        """Take one report, read at `now_us` (event time)."""
        merge = self._merges.setdefault(event.merge_id, _Merge())
        if isinstance(event, Accepted | Started):
            merge.expected.add(event.learner)
        if isinstance(event, Started) and merge.opened_us is None:
            merge.opened_us = now_us
            self.opened += 1
        if isinstance(event, Finished):
            merge.finished.add(event.learner)
        if isinstance(event, Skipped):
            merge.expected.discard(event.learner)

    def expire(self, now_us: int) -> None:
        """End the windows that have been open for longer than the limit."""
        for merge in self._merges.values():
            opened_us = merge.opened_us
            if merge.running and opened_us is not None and now_us - opened_us >= self._limit_us:
                merge.timed_out = True
                self.timed_out += 1
