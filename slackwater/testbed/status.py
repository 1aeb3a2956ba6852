"""One moment of a run as the screens show it: where it is, and the latest look at its log."""

from dataclasses import dataclass, field

from slackwater.testbed.plan import Plan
from slackwater.testbed.snapshot import Snapshot
from slackwater.testbed.supervisor import Phase


@dataclass(frozen=True, slots=True)
class Status:
    """What both screens draw from.

    Attributes:
        plan: what the run is to do.
        phase: where it is.
        played_s: wall seconds since the replay began, None before.
        since_start_s: wall seconds since the command began.
        snapshot: the latest look at the run log, None before the first.
        now_us: event time now, None before the clock is fixed.
        restarts: how often parts that died were started again, by name.
        pids: process ids of the learners, by name.
    """

    plan: Plan
    phase: Phase
    played_s: float | None
    since_start_s: float
    snapshot: Snapshot | None = None
    now_us: int | None = None
    restarts: dict[str, int] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)

    @property
    def lag_s(self) -> float | None:
        """Wall seconds that the run log is behind; None when it cannot be told."""
        newest_us = self.snapshot.counts["newest_us"] if self.snapshot else None
        if newest_us is None or self.now_us is None or self.phase is not Phase.RUNNING:
            return None
        return max(0.0, float(self.now_us - newest_us) / 1e6 / self.plan.speed)

    @property
    def event_s(self) -> str:
        """The unit of event time: named apart where it is not that of the wall."""
        return "s" if self.plan.speed == 1 else "event s"

    @property
    def wall_s(self) -> str:
        """The unit of wall time."""
        return "s" if self.plan.speed == 1 else "wall s"
