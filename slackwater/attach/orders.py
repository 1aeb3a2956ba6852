"""What a learner is told: merge orders."""

from dataclasses import dataclass

H_MAX = "h_max"


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """Merge now: every participant has promised to, or H_max forces all of them.

    Attributes:
        merge_id: the command's id, or `hmax-STEP`.
        step: the learner's own step at which the merge stands.
        steps_since_merge: inner steps since the last merge that was done.
        epoch: how many merges the shared weights have been through.
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
