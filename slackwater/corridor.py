"""The corridor: which step a merge may be placed at, given the last one. The only such rule."""

from dataclasses import dataclass

from slackwater.errors import InputError


@dataclass(frozen=True, slots=True)
class Corridor:
    """The allowed distance from one merge to the next, in inner steps.

    Attributes:
        min_gap_steps: H_min; no commanded merge comes sooner.
        max_gap_steps: H_max; a merge comes by then, commanded or not.
    """

    min_gap_steps: int = 128
    max_gap_steps: int = 512

    def __post_init__(self) -> None:
        if not 1 <= self.min_gap_steps <= self.max_gap_steps:
            msg = (
                f"gaps from {self.min_gap_steps} to {self.max_gap_steps} steps are no corridor; "
                "min_gap_steps must be at least 1 and at most max_gap_steps"
            )
            raise InputError(msg)

    def first(self, last_merge_step: int) -> int:
        """The earliest step at which the next merge may start."""
        return last_merge_step + self.min_gap_steps

    def last(self, last_merge_step: int) -> int:
        """The step at which H_max forces a merge."""
        return last_merge_step + self.max_gap_steps
