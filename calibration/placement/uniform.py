"""Exactly uniform schedules, gap by gap.

Each gap is proposed by the tilted walk and accepted in proportion to what it leaves to complete.
"""

import numpy as np

from calibration.placement.compiled import Floats, Ints, compiled
from calibration.placement.corridor import Corridor
from calibration.placement.walk import walk_of

# After so many refusals the gap is drawn from its whole law at once: bounded work, same law.
PROPOSALS = 64
GUIDES_PER_STEP = 4
# The largest figure within reach is found to within rounding; this keeps it an upper bound.
HEADROOM = 1.0 + 1e-6


def draw(corridor: Corridor, budget: int, draws: int, rng: np.random.Generator) -> Ints:
    """Independent schedules, uniform over the feasible ones: start cells [draws, budget].

    The array is stored merge by merge (Fortran order). Bias: docs/placement.md bounds the total
    variation distance from the uniform law, below 1e-8 for any grid that fits into memory.
    """
    starts = np.empty((budget, draws), dtype=np.int64)
    if budget == 0 or draws == 0:
        return starts.T
    walk = walk_of(corridor, budget)
    weights = walk.base * walk.powers[:-1]
    cumulative, guide = proposals(weights)
    states = np.zeros(draws, dtype=np.int64)
    for merge, row in enumerate(walk.rows_down(), start=1):
        mode = row.first + int(row.values.argmax())
        take_step(states, row.values, row.first, mode, weights, cumulative, guide, rng)
        starts[merge - 1] = walk.cells(merge, states)
    return starts.T


def proposals(weights: Floats) -> tuple[Floats, Ints]:
    """The steps' cumulative probabilities, and where to begin the search for each slice of it."""
    cumulative = np.cumsum(weights)
    cumulative[-1] = 1.0
    slices = np.arange(GUIDES_PER_STEP * len(cumulative)) / (GUIDES_PER_STEP * len(cumulative))
    return cumulative, np.searchsorted(cumulative, slices, side="right").astype(np.int64)


@compiled
def take_step(
    states: Ints,
    values: Floats,
    first: int,
    mode: int,
    weights: Floats,
    cumulative: Floats,
    guide: Ints,
    rng: np.random.Generator,
) -> None:
    """Move every state by one step x of law proportional to theta^x * values[state + x]."""
    span, slices = len(cumulative) - 1, len(guide)
    for d in range(len(states)):
        state = states[d]
        # `values` rises up to its mode and falls after it, so its largest figure within reach is
        # at the mode or at the end of the reach that is nearer to it.
        top = HEADROOM * values[min(max(mode, state), state + span) - first]
        taken = -1
        for _ in range(PROPOSALS):
            u = rng.random()
            x = guide[int(u * slices)]
            while cumulative[x] <= u:
                x += 1
            place = state + x - first
            if 0 <= place < len(values) and rng.random() * top < values[place]:
                taken = x
                break
        if taken < 0:
            taken = whole_law(state - first, values, weights, rng.random())
        states[d] = state + taken


@compiled
def whole_law(offset: int, values: Floats, weights: Floats, u: float) -> int:
    """One step by inversion over its whole law; `offset` is the state's place in `values`."""
    least, most = max(0, -offset), min(len(weights), len(values) - offset)
    total = 0.0
    for x in range(least, most):
        total += weights[x] * values[offset + x]
    reached, last = 0.0, least
    for x in range(least, most):
        weight = weights[x] * values[offset + x]
        reached += weight
        if weight > 0.0:
            last = x
        if reached > u * total:
            break
    return last
