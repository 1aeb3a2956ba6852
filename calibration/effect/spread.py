"""How times lie about their mean: what the closed-loop model makes its batches of."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

PARTS = 100
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Spread:
    """Times as a mean and as what parts of them are, over it.

    Attributes:
        mean_s: of the parts.
        scatter: [100] the middle of each hundredth of the times, shortest first, over `mean_s`.
    """

    mean_s: float
    scatter: tuple[float, ...]


def spread(times_s: ArrayLike) -> Spread | None:
    """The spread of these times; None when there is none, or a hundredth of them never ended.

    A time that never ended is infinite. No mean can hold it, and without it the others would tell
    of a server that answers all.
    """
    times = np.asarray(times_s, dtype=np.float64)
    if not len(times):
        return None
    middles = (np.arange(PARTS) + 0.5) / PARTS
    parts = np.quantile(times, middles, method="inverted_cdf")
    if not np.isfinite(parts).all():
        return None
    mean_s = float(parts.mean())
    return Spread(mean_s, tuple(np.round(parts / mean_s, DIGITS).tolist()))
