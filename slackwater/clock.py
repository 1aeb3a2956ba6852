"""The run clock: event time as a parameter, so that a run can go faster than the wall.

Event time starts at `origin_us` and runs `speed` times as fast as the wall. Every process of one
run shares the same three numbers, given by the environment variable `SLACKWATER_CLOCK`; live
production has no such variable and event time is the wall's.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from slackwater.errors import InputError

CLOCK_ENV = "SLACKWATER_CLOCK"
US_PER_S = 1_000_000
MAX_SPEED = 1e6


@dataclass(frozen=True, slots=True)
class RunClock:
    """Event time as a linear function of wall time.

    Attributes:
        origin_us: event time at the wall moment `wall_origin_us`, microseconds since the epoch.
        wall_origin_us: wall time at which the run starts, microseconds since the epoch.
        speed: seconds of event time per second of wall time, above 0.
        wall_us: source of wall time in microseconds; a test passes its own.
    """

    origin_us: int
    wall_origin_us: int
    speed: float = 1.0
    wall_us: Callable[[], int] = lambda: time.time_ns() // 1000

    def __post_init__(self) -> None:
        if not 0 < self.speed <= MAX_SPEED:
            msg = f"speed is {self.speed}; it must be above 0 and at most {MAX_SPEED:g} (1 is real)"
            raise InputError(msg)

    def now_us(self) -> int:
        """Event time now, in microseconds since the epoch."""
        return self.event_us(self.wall_us())

    def event_us(self, wall_us: int) -> int:
        """Event time at a moment of the wall, both in microseconds since the epoch."""
        return self.origin_us + round((wall_us - self.wall_origin_us) * self.speed)

    def wall_of(self, event_us: int) -> float:
        """Wall time, in seconds since the epoch, at which event time reaches `event_us`."""
        return (self.wall_origin_us + (event_us - self.origin_us) / self.speed) / US_PER_S

    def wall_s(self, event_s: float) -> float:
        """Seconds of wall time that `event_s` seconds of event time take."""
        return event_s / self.speed

    def encode(self) -> str:
        """The value of `SLACKWATER_CLOCK` that gives another process this clock."""
        return f"{self.origin_us},{self.wall_origin_us},{self.speed!r}"

    @classmethod
    def real(cls) -> "RunClock":
        """Event time is wall time."""
        return cls(0, 0, 1.0)

    @classmethod
    def decode(cls, text: str) -> "RunClock":
        """Read what `encode` wrote; raises `InputError` for anything else."""
        try:
            origin, wall_origin, speed = text.split(",")
            return cls(int(origin), int(wall_origin), float(speed))
        except ValueError:
            msg = (
                f"{CLOCK_ENV} is {text!r}; it must be ORIGIN_US,WALL_ORIGIN_US,SPEED "
                "(unset it to use the wall clock)"
            )
            raise InputError(msg) from None

    @classmethod
    def from_env(cls) -> "RunClock":
        """The run's clock from `SLACKWATER_CLOCK`, else the wall clock."""
        text = os.environ.get(CLOCK_ENV)
        return cls.decode(text) if text else cls.real()
