"""What was measured in one run of one arm."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """One run; those of one block served one load.

    Attributes:
        block: its number.
        arm: a policy, `random:POLICY`, or `none`, where nobody merged.
        requests: that came due.
        violations: of them, that took longer than the objective or found no answer; or how many of
            those its windows added (`excess_violations`), where a trial counts these.
        tokens: in and out, as the server counted them, or as asked for where it did not; None when
            it counted none.
        merges: that began while the load lasted and that every learner finished.
        intended: merges that a control was told to make; None of the others.
        counts: arrivals a cell, for the phases of the loads.
        place: in the order of the block, from 0; None where that is unknown.
    """

    block: int
    arm: str
    requests: int
    violations: float
    tokens: int | None
    merges: int
    intended: int | None = None
    counts: tuple[int, ...] = ()
    place: int | None = None

    @property
    def violations_pp(self) -> float:
        """Violations in percentage points of requests."""
        return 100 * self.violations / self.requests


ByArm = Mapping[str, Mapping[int, RunOutcome]]


def by_arm(outcomes: Iterable[RunOutcome]) -> dict[str, dict[int, RunOutcome]]:
    """Arm and block to outcome."""
    found: dict[str, dict[int, RunOutcome]] = {}
    for one in outcomes:
        found.setdefault(one.arm, {})[one.block] = one
    return found


def pairs(arms: ByArm, first: str, second: str) -> list[tuple[RunOutcome, RunOutcome]]:
    """Runs of two arms in the blocks that have both, in their order."""
    ours, theirs = arms.get(first, {}), arms.get(second, {})
    return [(ours[block], theirs[block]) for block in sorted(ours.keys() & theirs.keys())]


def differing(found: Sequence[tuple[RunOutcome, RunOutcome]]) -> list[int]:
    """Blocks whose control did not make as many merges as its policy."""
    return [ours.block for ours, control in found if ours.merges != control.merges]
