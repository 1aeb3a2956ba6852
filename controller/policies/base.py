"""The contract of a policy: one tick's view in, one choice out, nothing remembered."""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from controller.view import Timing, View


@dataclass(frozen=True, slots=True)
class Choice:
    """What a policy wants at one tick, and why.

    `at_step` asks for a later step than the first reachable one; `score`, `threshold` and `terms`
    are the figures behind the choice, for the log.
    """

    merge: bool
    reason: str
    at_step: int | None = None
    score: float | None = None
    threshold: float | None = None
    terms: dict[str, float] = field(default_factory=dict)


class Policy(Protocol):
    """A rule that chooses when to merge, within the corridor.

    The decider has already dealt with what no policy may choose: a pause, the corridor, a merge
    under way, a request by a person, a signal that is stale.
    """

    name: ClassVar[str]
    needs_load: ClassVar[bool]

    def choose(self, view: View, timing: Timing) -> Choice:
        """Choose from the view alone: the same view gives the same choice."""
        ...
