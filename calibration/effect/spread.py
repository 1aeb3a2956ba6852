"""How times lie about their mean: what the closed-loop model makes its batches of."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

PARTS = 50


@dataclass(frozen=True, slots=True)
class Spread:
    """Times as a mean and as what parts of them are, over it.

    Attributes:
        mean_s: of the parts.
        scatter: [50] the middle of each fiftieth of the times, shortest first, over `mean_s`.
    """

    mean_s: float
    scatter: tuple[float, ...]


def spread(times_s: ArrayLike) -> Spread | None:
    """The spread of the times that are finite; None when none is.

    A request that was never answered has no time: the model says nothing of such.
    """
    known = np.asarray(times_s, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return None
    parts = np.quantile(known, (np.arange(PARTS) + 0.5) / PARTS)
    return Spread(float(parts.mean()), tuple((parts / parts.mean()).tolist()))
