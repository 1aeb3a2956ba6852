"""A schedule as a tilted random walk: small numbers in place of astronomically large counts.

The gaps above the minimum, x_k = gap_k - min_gap, are integers in [0, span], and a schedule is
feasible when their sum lies in [least, most]. Walking with independent steps of weight
proportional to theta^x and weighing the end by theta^-sum leaves every schedule equally likely,
whatever theta is; the theta that aims at the target keeps all figures between 0 and 1.
Runs whose slack is over half of what it can be are walked mirrored (x -> span - x): theta <= 1.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from calibration.placement.compiled import Floats, Ints, compiled
from calibration.placement.corridor import Corridor

# States that the walk has less than this chance to complete from are left out: the share of
# schedules that this loses is below budget * 1e-40 / (chance to complete from the start).
NEGLIGIBLE = 1e-40
BISECTIONS = 200


class Row(NamedTuple):
    """Values at the states first, first + 1, ... (the slack spent so far), other states are 0."""

    first: int
    values: Floats


@dataclass(frozen=True, slots=True)
class Walk:
    """The tilted walk of `budget` steps in [0, span] that must end in [least, most]."""

    budget: int
    span: int
    least: int
    most: int
    theta: float
    step_cells: int
    direction: int

    @property
    def powers(self) -> Floats:
        """theta^0 ... theta^(span + 1)."""
        return np.asarray(self.theta ** np.arange(self.span + 2, dtype=np.float64))

    @property
    def base(self) -> float:
        """The probability of the step 0, so that base * theta^x sums to 1."""
        return float(1.0 / self.powers[:-1].sum())

    def cells(self, merge: int, states: Ints) -> Ints:
        """The start cells of merge number `merge` (1 is the first) for slack spent so far."""
        return merge * self.step_cells + self.direction * states

    def end(self) -> Row:
        """Weights of the states after the last step."""
        exponent = self.most - np.arange(self.least, self.most + 1)
        return Row(self.least, np.asarray(self.theta ** exponent.astype(np.float64)))

    def domain(self, left: int) -> tuple[int, int]:
        """First and last state that `left` steps can still complete from and that are reachable."""
        reached = (self.budget - left) * self.span
        return max(self.least - left * self.span, 0), min(reached, self.most)

    def before(self, row: Row, left: int, negligible: float = NEGLIGIBLE) -> Row:
        """From the completion row with `left - 1` steps to go to the one with `left`."""
        first, last = self.domain(left)
        first = max(first, row.first - self.span)
        last = min(last, row.first + len(row.values) - 1)
        values = window_sums(row.values, row.first, first, last, self.powers, self.base)
        kept = np.flatnonzero(values > negligible)
        return Row(first + int(kept[0]), values[kept[0] : kept[-1] + 1])

    def rows_down(self) -> Iterator[Row]:
        """Completion rows with budget - 1, ..., 1, 0 steps to go, in O(sqrt(budget)) memory."""
        block = math.isqrt(self.budget - 1) + 1
        marks, row = [self.end()], self.end()
        for left in range(1, self.budget):
            row = self.before(row, left)
            if left % block == 0:
                marks.append(row)
        for number, mark in reversed(list(enumerate(marks))):
            rows = [mark]
            for left in range(number * block + 1, min((number + 1) * block, self.budget)):
                rows.append(self.before(rows[-1], left))
            yield from reversed(rows)


def walk_of(corridor: Corridor, budget: int) -> Walk:
    """The walk whose completions are the feasible schedules of a budget of at least 1."""
    least, most = corridor.slack(budget)
    span = corridor.max_gap_cells - corridor.min_gap_cells
    step_cells, direction = corridor.min_gap_cells, 1
    if 2 * least > budget * span:
        least, most = budget * span - most, budget * span - least
        step_cells, direction = corridor.max_gap_cells, -1
    span = min(span, most)
    theta = _aim(span, most / budget)
    return Walk(budget, span, least, most, theta, step_cells, direction)


def _aim(span: int, mean: float) -> float:
    """The theta <= 1 that gives one step in [0, span] this mean; 1 where the mean is larger."""
    if 2 * mean >= span:
        return 1.0
    steps = np.arange(span + 1, dtype=np.float64)
    low, high = 0.0, 1.0
    for _ in range(BISECTIONS):
        theta = (low + high) / 2
        weights = theta**steps
        low, high = (theta, high) if weights @ steps < mean * weights.sum() else (low, theta)
    return (low + high) / 2


@compiled
def window_sums(
    values: Floats, first: int, out_first: int, out_last: int, powers: Floats, base: float
) -> Floats:
    """out[i] = base * sum over x in [0, span] of theta^x * values[i + x], for i in the out range.

    Blocks of span + 1 states: each window is the end of one block and the beginning of the next,
    so that only positive terms are added and nothing cancels. O(1) operations a state.
    """
    size, theta = len(powers) - 1, powers[1]
    length = out_last - out_first + 1
    blocks = (length - 1) // size + 2
    source = np.zeros(blocks * size)
    shift = first - out_first
    for i in range(max(0, -shift), min(len(values), len(source) - shift)):
        source[i + shift] = values[i]
    out = np.empty((blocks - 1) * size)
    for block in range(blocks - 1):
        start = block * size
        tail = 0.0
        for i in range(size - 1, -1, -1):
            tail = source[start + i] + theta * tail
            out[start + i] = tail
        head = 0.0
        for i in range(1, size):
            head += powers[i - 1] * source[start + size + i - 1]
            out[start + i] += powers[size - i] * head
    return base * out[:length]
