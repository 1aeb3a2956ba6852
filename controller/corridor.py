"""The corridor: which step a merge may be placed at, given the last one. The only such rule."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Corridor:
    """The allowed gaps [min_steps, max_steps] between the starts of two merges, in inner steps."""

    min_steps: int
    max_steps: int

    def first(self, last_merge_step: int) -> int:
        """The earliest step the next merge may start at."""
        return last_merge_step + self.min_steps

    def last(self, last_merge_step: int) -> int:
        """The step at which H_max forces a merge."""
        return last_merge_step + self.max_steps

    def allows(self, at_step: int, last_merge_step: int) -> bool:
        """True when a merge at `at_step` keeps the gap within the corridor."""
        return self.first(last_merge_step) <= at_step <= self.last(last_merge_step)


def steps_in(duration_s: float, step_time_s: float) -> int:
    """Whole inner steps that begin within `duration_s`: the one conversion of seconds to steps."""
    return math.ceil(duration_s / step_time_s)
