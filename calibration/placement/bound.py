"""What a wrong forecast can cost: at most 2 K e (docs/placement.md, Proposition B)."""

from dataclasses import dataclass

import numpy as np

from calibration.placement.grid import Grid
from slackwater.errors import InputError


@dataclass(frozen=True, slots=True)
class Degradation:
    """How much dearer the schedule that looked best was than the one that is best.

    Attributes:
        window_error: the largest error of the forecast for one window, in cost.
        excess_cost: cost of the forecast's optimum minus the optimum, both by the true costs.
        bound: 2 * budget * window_error, which `excess_cost` never exceeds.
    """

    window_error: float
    excess_cost: float
    bound: float


def degradation(truth: Grid, forecast: Grid, budget: int) -> Degradation:
    """Choose by the forecast, pay by the truth.

    Raises:
        InputError: the two grids differ in corridor or length, or the budget does not fit.
    """
    if truth.corridor != forecast.corridor:
        msg = f"the forecast's grid {forecast.corridor} differs from the true one {truth.corridor}"
        raise InputError(msg)
    best, _ = truth.optimum(budget)
    _, chosen = forecast.optimum(budget)
    error = 0.0
    if len(truth.costs_per_start):
        error = float(np.abs(truth.costs_per_start - forecast.costs_per_start).max())
    return Degradation(error, float(truth.costs(chosen)) - best, 2 * budget * error)
