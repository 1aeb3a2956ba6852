"""Switchback runs: placement gain from a fleet's own traffic, by coins, at any number of looks."""

from calibration.switchback.judged import ALPHA, Arm, Intervals, Judged, judge, reached
from calibration.switchback.outcomes import CAP, LEAST_PAST, counted_harm, fair_bets, usual_harm
from calibration.switchback.wealth import log_wealth

__all__ = [
    "ALPHA",
    "CAP",
    "LEAST_PAST",
    "Arm",
    "Intervals",
    "Judged",
    "counted_harm",
    "fair_bets",
    "judge",
    "log_wealth",
    "reached",
    "usual_harm",
]
