"""Up to where the observations of a merge group are complete: its watermark.

Time goes on when every source has been heard up to it. A source that falls silent must not stop
the group for ever: once others have been heard for `silence_s` of wall time without a word of
it, time goes on without it, and its signal ages. That choice changes when a tick is decided,
never what it decides: a tick sees what was observed up to its own time, whoever sent it.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass

from slackwater.clock import US_PER_S
from slackwater.events import Bins, Heartbeat, MergeReport, Step

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Source:
    watermark_us: int
    heard_s: float


@dataclass(slots=True)
class _Told:
    """Merge reports that a learner's process said it had sent: at first (`since_us`), and last."""

    first: int
    newest: int
    since_us: int


class Progress:
    """Watermarks of the sidecars and learners of one group.

    Args:
        silence_s: wall seconds after which a silent source is no longer waited for.
        expect_sidecars, expect_learners: how many must have been heard before time starts, unless
            `silence_s` passes first; 0 waits for none.
        monotonic: wall clock in seconds.
        skew_s: a source whose event time is further behind the newest is not waited for.
    """

    def __init__(
        self,
        silence_s: float,
        expect_sidecars: int,
        expect_learners: int,
        monotonic: Callable[[], float],
        skew_s: float = 60.0,
    ) -> None:
        self._skew_us = round(skew_s * US_PER_S)
        self._behind: set[tuple[str, str]] = set()
        self._silence_s = silence_s
        self._expect = {"sidecar": expect_sidecars, "learner": expect_learners}
        self._monotonic = monotonic
        self._sources: dict[tuple[str, str], _Source] = {}
        self._reports: dict[str, dict[tuple[str, str], int]] = {}
        self._told: dict[str, _Told] = {}
        self._held: dict[str, dict[int, int]] = {}
        self._first_s: float | None = None
        self._newest_s: float | None = None

    def hear_bins(self, bins: Bins) -> None:
        """Each sidecar of the partition is complete up to its own watermark."""
        for sidecar, watermark_us in bins.watermarks_us.items():
            self._hear("sidecar", sidecar, watermark_us)

    def hear_learner(self, event: Step | Heartbeat) -> None:
        """A learner is complete up to its event once the merge reports before it are here too."""
        learner, sent = event.learner, event.reports_sent or 0
        if isinstance(event, Heartbeat) and event.final:
            self._sources.pop(("learner", learner), None)
            self._behind.discard(("learner", learner))
            self._forget(learner, event.at_us)
            return
        told = self._told.get(learner)
        if told is None or sent < told.newest:
            # It was started, maybe anew, and counts anew. Reports older than its first word here
            # are a former process's or will not come: they neither count nor are waited for.
            self._forget(learner, event.at_us)
            told = self._told[learner] = _Told(sent, sent, event.at_us)
        told.newest = sent
        held = self._held.setdefault(learner, {})
        needed = sent - told.first
        held[needed] = max(event.at_us, held.get(needed, 0))
        self._release(learner)

    def hear_report(self, report: MergeReport) -> None:
        """Take a merge report of a learner; one that comes twice counts once.

        Whether it counts is for its time to say, not for the order in which two topics came.
        """
        told = self._told.get(report.learner)
        if told is not None and report.at_us < told.since_us:
            return
        seen = self._reports.setdefault(report.learner, {})
        seen[report.merge_id, type(report).__name__] = report.at_us
        self._release(report.learner)

    def watermark_us(self) -> int | None:
        """Event time up to which everything is here; None until time may start."""
        if self._first_s is None or self._newest_s is None:
            return None
        if not self._complete() and self._monotonic() - self._first_s <= self._silence_s:
            return None
        speaking = {
            key: s.watermark_us
            for key, s in self._sources.items()
            if self._newest_s - s.heard_s <= self._silence_s
        }
        return min(self._in_step(speaking).values(), default=None)

    def _in_step(self, speaking: dict[tuple[str, str], int]) -> dict[tuple[str, str], int]:
        """Without those whose clocks are far behind the others': they would hold everybody."""
        newest_us = max(speaking.values(), default=0)
        lags_us = {key: newest_us - us for key, us in speaking.items()}
        behind = {key for key, lag_us in lags_us.items() if lag_us > self._skew_us}
        for kind, name in behind - self._behind:
            seconds = lags_us[kind, name] / US_PER_S
            text = "%s %s is %.0f s behind the others, by its clock: time goes on without it"
            log.warning(text, kind, name, seconds)
        # Who is silent for a while, or just below the bound, has not caught up: it is told once.
        caught_up = {key for key, lag_us in lags_us.items() if lag_us <= self._skew_us / 2}
        for kind, name in self._behind & caught_up:
            log.info("%s %s is with the others again", kind, name)
        self._behind = (self._behind - caught_up) | behind
        return {k: us for k, us in speaking.items() if k not in behind}

    def _complete(self) -> bool:
        kinds = [kind for kind, _ in self._sources]
        return all(kinds.count(kind) >= number for kind, number in self._expect.items())

    def _forget(self, learner: str, before_us: int) -> None:
        """Its process has ended, or another has begun: what it did before is over."""
        self._held.pop(learner, None)
        self._told.pop(learner, None)
        seen = self._reports.get(learner, {})
        self._reports[learner] = {key: us for key, us in seen.items() if us >= before_us}

    def _release(self, learner: str) -> None:
        held, seen = self._held.get(learner, {}), len(self._reports.get(learner, ()))
        ready = [needed for needed in held if needed <= seen]
        if ready:
            # One microsecond less: another event of the same instant may follow.
            self._hear("learner", learner, max(held.pop(needed) for needed in ready) - 1)

    def _hear(self, kind: str, name: str, watermark_us: int) -> None:
        now_s = self._now_after_any_quiet()
        is_new = (kind, name) not in self._sources
        source = self._sources.setdefault((kind, name), _Source(watermark_us, now_s))
        if is_new or watermark_us > source.watermark_us:
            source.watermark_us = max(source.watermark_us, watermark_us)
            source.heard_s = now_s

    def _now_after_any_quiet(self) -> float:
        """Wall time now. After a time when nobody was heard, everybody's silence starts anew.

        Then it was this process or the broker that stood still, not the sources: what they said
        meanwhile is on its way, in no particular order.
        """
        now_s = self._monotonic()
        if self._first_s is None:
            self._first_s = now_s
        if self._newest_s is not None and now_s - self._newest_s > self._silence_s / 2:
            for source in self._sources.values():
                source.heard_s = now_s
        self._newest_s = now_s
        return now_s
