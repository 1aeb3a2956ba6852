"""One clock domain: durations by the monotonic clock, event times by one look at the wall."""

import time
from typing import NamedTuple

NS_PER_US = 1000


class Anchor(NamedTuple):
    """A moment on both clocks. Two event times of one anchor differ by monotonic time alone.

    All processes of one host share the monotonic clock, so an anchor may be handed to another.

    Attributes:
        wall_us: microseconds since the Unix epoch.
        monotonic_ns: the monotonic clock at the same moment, nanoseconds.
    """

    wall_us: int
    monotonic_ns: int

    @classmethod
    def now(cls) -> "Anchor":
        """Look at both clocks."""
        return cls(time.time_ns() // NS_PER_US, time.monotonic_ns())

    def at(self, monotonic_ns: int) -> int:
        """Event time, microseconds since the epoch, of a moment of the monotonic clock."""
        return self.wall_us + (monotonic_ns - self.monotonic_ns) // NS_PER_US

    @property
    def off_s(self) -> float:
        """Seconds by which the wall is ahead: it was set, or the host slept, since that look."""
        return (time.time_ns() // NS_PER_US - self.now_us()) / 1e6

    def now_us(self) -> int:
        """Event time now; never goes back, whatever the wall clock does."""
        return self.at(time.monotonic_ns())
