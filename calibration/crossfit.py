"""The predictable ceiling: what an oracle still gains where it could not see the noise.

On constant Poisson traffic an oracle "gains" a third, by choosing the windows in which chance left
gaps. Requests split at random into halves share the rate and not the chance: a schedule chosen on
one half and paid by the other gains only what the rate explains.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.placement import Grid
from calibration.placement.corridor import whole
from slackwater.errors import InputError

Halves = Callable[[np.random.Generator], tuple[Grid, Grid]]


@dataclass(frozen=True, slots=True)
class Ceiling:
    """The cross-fit oracle's gain.

    Attributes:
        gain: (matched random mean - cost) / matched random mean, of all halves together; None
            where matched random costs nothing, so that there is nothing to gain.
        standard_error: of `gain`, from the splits alone (not from the trace); None for one split.
        splits: how many random splits, each used both ways.
    """

    gain: float | None
    standard_error: float | None
    splits: int


def predictable_ceiling(
    halves: Halves, budget: int, rng: np.random.Generator, splits: int = 20
) -> Ceiling:
    """Choose on one half and score on the other, both ways, over `splits` random splits.

    Raises:
        InputError: the budget does not fit, or splits is below 1.
    """
    splits = whole("splits", splits)
    if splits < 1:
        msg = f"splits is {splits}: it must be at least 1"
        raise InputError(msg)
    figures = np.array([_both_ways(*halves(rng), budget) for _ in range(splits)])
    saved, paid = figures[:, 0], figures[:, 1]
    if paid.sum() == 0:
        return Ceiling(None, None, splits)
    gain = float(saved.sum() / paid.sum())
    if splits == 1:
        return Ceiling(gain, None, splits)
    spread = float((saved - gain * paid).std(ddof=1) / paid.mean())
    return Ceiling(gain, spread / splits**0.5, splits)


def count_halves(
    requests_per_cell: npt.ArrayLike, window_cells: int, min_gap_cells: int, max_gap_cells: int
) -> Halves:
    """Halves of a grid of counts: each request goes to either half with probability 1/2.

    Raises:
        InputError: the counts are not whole numbers from 0 on.
    """
    counts = np.asarray(requests_per_cell)
    if not np.issubdtype(counts.dtype, np.integer) or (counts < 0).any():
        msg = "requests_per_cell must be whole numbers from 0 on: only requests can be split"
        raise InputError(msg)

    def split(rng: np.random.Generator) -> tuple[Grid, Grid]:
        one = rng.binomial(counts, 0.5)
        gaps = (window_cells, min_gap_cells, max_gap_cells)
        return Grid(one, *gaps), Grid(counts - one, *gaps)

    return split


def request_halves(build: Callable[[npt.NDArray[np.bool_]], Grid], requests: int) -> Halves:
    """Halves for any serving model: `build` makes the grid of the requests that a mask selects."""

    def split(rng: np.random.Generator) -> tuple[Grid, Grid]:
        mask = rng.random(requests) < 0.5
        return build(mask), build(~mask)

    return split


def _both_ways(one: Grid, other: Grid, budget: int) -> tuple[float, float]:
    """What was saved against matched random, and what matched random paid, on both halves."""
    saved = paid = 0.0
    for chosen_on, scored_on in ((one, other), (other, one)):
        mean = scored_on.mean(budget)
        _, starts = chosen_on.optimum(budget)
        saved += mean - float(scored_on.costs(starts))
        paid += mean
    return saved, paid
