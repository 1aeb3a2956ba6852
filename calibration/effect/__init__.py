"""Effect transfer: what real merges do to the latency of a real server, with intervals.

Three arms are played in randomised blocks: nothing but the server, learners that do not merge, and
learners that merge. The unit of resampling is the round, one block of each arm close together in
time: what one merge does to its requests is one observation, however many those are, and merges of
a block have the machine of those seconds in common.
"""

from calibration.effect.agreement import Agreement, agreement
from calibration.effect.contrast import Contrast, contrast
from calibration.effect.intervals import Interval
from calibration.effect.measured import Measured, MeasuredEffect, measure
from calibration.effect.observed import Account, Arm, Block, Observed, Window
from calibration.effect.spread import Spread, spread

__all__ = [
    "Account",
    "Agreement",
    "Arm",
    "Block",
    "Contrast",
    "Interval",
    "Measured",
    "MeasuredEffect",
    "Observed",
    "Spread",
    "Window",
    "agreement",
    "contrast",
    "measure",
    "spread",
]
