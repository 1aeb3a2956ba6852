"""Policies and their controls measured side by side: a verdict on measured requests alone."""

from calibration.paired.excess import ServedRun, excess_violations
from calibration.paired.judged import Asked, Judged, judge_pairs
from calibration.paired.outcome import RunOutcome

__all__ = ["Asked", "Judged", "RunOutcome", "ServedRun", "excess_violations", "judge_pairs"]
