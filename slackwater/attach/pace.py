"""How long an inner step takes, for a trainer that does not say so itself."""

from slackwater.clock import US_PER_S


class Pace:
    """Event time from one step report to the next, without what lay between that is no training.

    A pause begins when a learner is told to merge and ends when it has; `resume` also marks the
    end of a wait inside a report. Where no step was measured the figure is None.
    """

    def __init__(self) -> None:
        self._since: tuple[int, int] | None = None

    def seconds(self, step: int, now_us: int) -> float | None:
        """Seconds of event time a step took since the last mark, per step when some were skipped.

        None without a mark, and when step or clock did not go on.
        """
        if self._since is None:
            return None
        before, since_us = self._since
        if step <= before or now_us <= since_us:
            return None
        return (now_us - since_us) / (step - before) / US_PER_S

    def resume(self, step: int, now_us: int) -> None:
        """Training of the step after `step` begins at `now_us`."""
        self._since = step, now_us

    def pause(self) -> None:
        """What follows is no training."""
        self._since = None
