"""How long an inner step takes, for a trainer that does not say so itself."""

from slackwater.clock import US_PER_S

# Of the slowest step, with each faster one.
FORGET = 0.9

# A step that has ended, and when the one after it began, in microseconds.
Mark = tuple[int, int]


class Pace:
    """Time from one step report to the next, without what lay between that is no training.

    A pause begins when a learner is told to merge and ends when it has; `resume` also marks the
    end of a wait inside a report.

    Attributes:
        mark: since when the step under way is counted; None while it is no training.
    """

    __slots__ = ("mark",)

    def __init__(self) -> None:
        self.mark: Mark | None = None

    def resume(self, step: int, now_us: int) -> None:
        """Training of the step after `step` begins at `now_us`."""
        self.mark = step, now_us

    def pause(self) -> None:
        """What follows is no training."""
        self.mark = None


def step_seconds(mark: Mark, step: int, now_us: int) -> float | None:
    """Seconds a step took since the mark, per step when some were skipped.

    None when step or clock did not go on.
    """
    before, since_us = mark
    if step <= before or now_us <= since_us:
        return None
    return (now_us - since_us) / (step - before) / US_PER_S


def slower_of(slow_s: float | None, step_time_s: float | None) -> float | None:
    """The time of a learner's slower steps, one more step considered.

    The slowest so far, less a tenth with each faster one: what it took once, it may take again.
    """
    if slow_s is None or step_time_s is None:
        return slow_s if step_time_s is None else step_time_s
    return max(step_time_s, FORGET * slow_s)
