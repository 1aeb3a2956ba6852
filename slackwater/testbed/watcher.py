"""Looks at the run log from a thread, so that a slow answer never holds up the supervisor."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.errors import SlackwaterError
from slackwater.testbed.snapshot import Query, Snapshot
from slackwater.testbed.snapshot import take as whole

EVERY_S = 0.5
FRESH_S = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot, when it was begun and when its answer came, on the monotonic clock."""

    snapshot: Snapshot
    at_s: float
    answered_s: float


class Watcher:
    """Takes snapshots while the run log answers.

    Args:
        query: runs SQL on the run log that is being written.
        speed: seconds of event time per second of wall time.
        hold: asks for no more merges than H_max forces.
        monotonic: seconds.
        take: reads a snapshot; `snapshot.brief` costs the writer far less than all of it.
        every_s: wall seconds between two of them.
        fresh_s: one whose answer came longer ago says nothing any more.
    """

    def __init__(
        self,
        query: Query,
        speed: float,
        hold: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
        take: Callable[[Query, float], Snapshot] = whole,
        every_s: float = EVERY_S,
        fresh_s: float = FRESH_S,
    ) -> None:
        self._fresh_s = fresh_s
        self._take = take
        self._every_s = every_s
        self._query = query
        self._speed = speed
        self._hold = hold
        self._monotonic = monotonic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="run-log-watcher", daemon=True)
        self._held_at_s: float | None = None
        self.look: Look | None = None

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more; waits for the answer that is on its way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def hold_merges(self) -> None:
        """Ask for no more merges than H_max forces."""
        self._hold()
        self._held_at_s = self._monotonic()

    def pending_merges(self) -> int | None:
        """Merges under way; None when the log has not been seen since they were held."""
        look = self._fresh()
        if look is None or self._held_at_s is None or look.at_s < self._held_at_s:
            return None
        return int(look.snapshot.merge_counts["pending"])

    def missing(self, summaries: dict[str, dict[str, Any]]) -> int | None:
        """Events acknowledged and not logged yet; None when the log cannot be seen."""
        look = self._fresh()
        if look is None:
            return None
        return max(0, acknowledged(summaries) - logged(look.snapshot.counts))

    def _fresh(self) -> Look | None:
        look = self.look
        return look if look and self._monotonic() - look.answered_s < self._fresh_s else None

    def _run(self) -> None:
        while not self._stop.wait(self._every_s):
            began_s = self._monotonic()
            try:
                snapshot = self._take(self._query, self._speed)
            except SlackwaterError:
                # Not there yet, or busy: `pending_merges` and `missing` then say that they do
                # not know, and the supervisor's limits end the wait.
                continue
            self.look = Look(snapshot, began_s, self._monotonic())


def acknowledged(summaries: dict[str, dict[str, Any]]) -> int:
    """Events that the broker acknowledged to the parts that send them, as they say at their end."""
    return sum(summary.get("acked", 0) for summary in summaries.values())


def logged(counts: dict[str, Any]) -> int:
    """Rows of the tables that hold what the replay and the learners send."""
    kinds = ("requests", "loads", "learner_steps", "heartbeats", "merges", "dead")
    return sum(counts[kind] for kind in kinds)
