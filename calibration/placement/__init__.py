"""Placement: which windows K merges may take, counted, drawn and optimised exactly.

The mathematics and its proofs: docs/placement.md.
"""

from calibration.placement.bound import Degradation, degradation
from calibration.placement.corridor import Corridor
from calibration.placement.grid import Grid
from calibration.placement.pmf import Pmf

__all__ = ["Corridor", "Degradation", "Grid", "Pmf", "degradation"]
