"""Up to where the observations of a merge group are complete: its watermark.

Time goes on when every source has been heard up to it. A source that falls silent must not stop
the group for ever: once others have been heard for `silence_s` of wall time without a word of
it, time goes on without it, and its signal ages. That choice changes when a tick is decided,
never what it decides: a tick sees what was observed up to its own time, whoever sent it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from slackwater.events import Bins, Heartbeat, MergeReport, Step


@dataclass(slots=True)
class _Source:
    watermark_us: int
    heard_s: float


class Progress:
    """Watermarks of the sidecars and learners of one group.

    Args:
        silence_s: wall seconds after which a silent source is no longer waited for.
        expect_sidecars, expect_learners: how many must have been heard before time starts, unless
            `silence_s` passes first; 0 waits for none.
        monotonic: wall clock in seconds.
    """

    def __init__(
        self,
        silence_s: float,
        expect_sidecars: int,
        expect_learners: int,
        monotonic: Callable[[], float],
    ) -> None:
        self._silence_s = silence_s
        self._expect = {"sidecar": expect_sidecars, "learner": expect_learners}
        self._monotonic = monotonic
        self._sources: dict[tuple[str, str], _Source] = {}
        self._reports_seen: dict[str, int] = {}
        self._held: dict[str, list[tuple[int, int]]] = {}
        self._first_s: float | None = None
        self._newest_s: float | None = None

    def hear_bins(self, bins: Bins) -> None:
        """Each sidecar of the partition is complete up to its own watermark."""
        for sidecar, watermark_us in bins.watermarks_us.items():
            self._hear("sidecar", sidecar, watermark_us)

    def hear_learner(self, event: Step | Heartbeat) -> None:
        """A learner is complete up to its event once the merge reports before it are here too."""
        if isinstance(event, Heartbeat) and event.final:
            self._sources.pop(("learner", event.learner), None)
            self._held.pop(event.learner, None)
            return
        needed = event.reports_sent or 0
        self._held.setdefault(event.learner, []).append((needed, event.at_us))
        self._release(event.learner)

    def hear_report(self, report: MergeReport) -> None:
        """Count a merge report of a learner."""
        self._reports_seen[report.learner] = self._reports_seen.get(report.learner, 0) + 1
        self._release(report.learner)

    def watermark_us(self) -> int | None:
        """Event time up to which everything is here; None until time may start."""
        if self._first_s is None or self._newest_s is None:
            return None
        if not self._complete() and self._monotonic() - self._first_s <= self._silence_s:
            return None
        speaking = [
            s.watermark_us
            for s in self._sources.values()
            if self._newest_s - s.heard_s <= self._silence_s
        ]
        return min(speaking, default=None)

    def _complete(self) -> bool:
        kinds = [kind for kind, _ in self._sources]
        return all(kinds.count(kind) >= number for kind, number in self._expect.items())

    def _release(self, learner: str) -> None:
        held, seen = self._held.get(learner, []), self._reports_seen.get(learner, 0)
        ready = [at_us for needed, at_us in held if needed <= seen]
        if ready:
            # One microsecond less: another event of the same instant may follow.
            self._hear("learner", learner, max(ready) - 1)
            self._held[learner] = [h for h in held if h[0] > seen]

    def _hear(self, kind: str, name: str, watermark_us: int) -> None:
        now_s = self._now_after_any_quiet()
        source = self._sources.setdefault((kind, name), _Source(watermark_us, now_s))
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
