"""The e-process: what a gambler owns who bets on the policy, at odds fair without an effect.

A stake `s` on an interval that pays `x`, at least -1, multiplies the wealth by `1 + s x`. Each part
of the wealth keeps one stake for ever: that, and not the cleverest stake of the moment, makes the
test valid for effects that come and go (docs/switchback.md has the proof).
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STAKES = (0.95, 0.475, 0.2375, 0.11875, 0.059375)
"""Shares of the wealth that are bet; each has an equal part of the wealth to begin with."""


def log_wealth(bets: Floats) -> Floats:
    """[..., n] the natural logarithm of the wealth after each interval; it was 1 at the start.

    The parts keep apart: the wealth is the mean over the stakes of `prod(1 + s x)`.

    >>> float(np.exp(log_wealth(np.array([1.0])))[0]) == 1 + sum(STAKES) / len(STAKES)
    True
    """
    parts = (np.cumsum(np.log1p(stake * bets), axis=-1) for stake in STAKES)
    return np.asarray(np.logaddexp.reduce(list(parts), axis=0) - np.log(len(STAKES)))


def last_log_wealth(bets: Floats) -> float:
    """`log_wealth` after the last of [n] intervals, whose order does not matter to it."""
    parts = [float(np.log1p(stake * bets).sum()) for stake in STAKES]
    return float(np.logaddexp.reduce(parts) - np.log(len(STAKES)))
