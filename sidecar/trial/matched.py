"""A matched random schedule in inner steps: as many merges, all feasible places alike likely."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from calibration.placement import Grid
from calibration.placement.corridor import Corridor


@dataclass(frozen=True, slots=True)
class Matched:
    """What a control is told.

    Attributes:
        steps: of its merges, rising.
        min_gap_steps, max_gap_steps: the corridor it was drawn from: the design's, widened where
            the policy's own merges did not keep to that (a learner that came late).
        forced_gap_steps: H_max of the run itself, beyond the drawn corridor by all the steps that
            the policy's run came to: a step drawn at the corridor's end is commanded as drawn,
            and learners that come further than the policy's are not forced to one merge more.
    """

    steps: tuple[int, ...]
    min_gap_steps: int
    max_gap_steps: int
    forced_gap_steps: int


def matched(
    own: Sequence[int], last_step: int, corridor: tuple[int, int], rng: np.random.Generator
) -> Matched:
    """Draw a schedule with as many merges as `own`, the steps at which a policy merged.

    Args:
        own: rising; counted from the start, as if a merge had ended there.
        last_step: that the learners reached in the policy's run.
        corridor: its least and its largest gap.
        rng: of the draw.
    """
    least, most = corridor
    steps = np.asarray(own, dtype=np.int64)
    cells = max(last_step, 1, *(step + 1 for step in own)) if len(own) else max(last_step, 1)
    gaps = np.diff(steps, prepend=0)
    rest = cells - int(steps[-1] if len(steps) else 0)
    low = max(1, min([least, *gaps.tolist()]))
    high = max([most, rest, *gaps.tolist()])
    # A merge takes no inner step, so a window is one cell: the step at which it begins.
    grid = Grid.in_corridor(Corridor(cells, 1, low, high), np.zeros(cells))
    drawn = grid.draw(len(steps), 1, rng)[0]
    return Matched(tuple(int(step) for step in drawn), low, high, high + cells)
