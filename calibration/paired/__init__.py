"""Policies and their controls measured side by side: a verdict on measured requests alone."""

from calibration.paired.judged import Asked, Judged, judge_pairs
from calibration.paired.outcome import RunOutcome

__all__ = ["Asked", "Judged", "RunOutcome", "judge_pairs"]
