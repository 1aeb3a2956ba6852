"""What a learner is told: merge orders, and the corridor they must keep to."""

from dataclasses import dataclass

from slackwater.errors import InputError

H_MAX = "h_max"


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


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """Merge now: every participant has promised to, or H_max forces all of them.

    Attributes:
        merge_id: the command's id, or `hmax-STEP`.
        step: the learner's own step at which the merge stands.
        steps_since_merge: inner steps since the last merge that was done.
        epoch: how many merges this learner has done before.
        reason: the command's reason, or `h_max`.
        participants: the learners that merge together.
    """

    merge_id: str
    step: int
    steps_since_merge: int
    epoch: int
    reason: str
    participants: tuple[str, ...]

    @property
    def forced(self) -> bool:
        """True when H_max made this order and no command did."""
        return self.reason == H_MAX
