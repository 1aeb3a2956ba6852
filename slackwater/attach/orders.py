"""What a learner is told: merge orders."""

from dataclasses import dataclass

from slackwater.events import H_MAX


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
        moment_us: the moment that the command named instead of a step, event time; then the
            others come at steps of their own. None otherwise.
    """

    merge_id: str
    step: int
    steps_since_merge: int
    epoch: int
    reason: str
    participants: tuple[str, ...]
    moment_us: int | None = None

    @property
    def forced(self) -> bool:
        """True when H_max made this order: this learner's own, or a command for H_max."""
        return self.reason == H_MAX

    @property
    def meeting(self) -> str:
        """What all who take part must come for, in words that are equal for all of them.

        A commanded merge has its id. Learners that H_max forces may each count steps of their own,
        so the merge is then known by the epoch alone.
        """
        return f"{H_MAX if self.forced else self.merge_id} after {self.epoch} merges"
