"""From harm and coins to bets: one number an interval that nobody can steer without an effect.

An interval of the corridor runs from one merge to the next. Its outcome is the harm of the merge
that ends it; a coin, with odds known beforehand, gave it to the policy or to a random moment.
All functions take arrays whose last axis is the intervals in order, so that thousands of fleets can
be judged at once.
"""

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MEMORY = 64
"""Intervals that the usual harm is the mean of."""
LEAST_PAST = 6
"""Intervals without a bet, at first: of fewer, no usual harm can be told."""
CAP = 3.0
"""A merge counts for at most so many times the usual harm."""


def usual_harm(harm: Floats) -> Floats:
    """The mean harm of the last 64 intervals before each; NaN for the first 6.

    >>> usual_harm(np.array([1.0, 1, 1, 1, 1, 7, 5])).tolist()[5:]
    [nan, 2.0]
    """
    count = harm.shape[-1]
    total = np.concatenate([np.zeros((*harm.shape[:-1], 1)), np.cumsum(harm, axis=-1)], axis=-1)
    index = np.arange(count)
    first = np.maximum(0, index - MEMORY)
    past = total[..., index] - total[..., first]
    return np.where(index >= LEAST_PAST, past / np.maximum(1, index - first), np.nan)


def counted_harm(harm: Floats) -> Floats:
    """[..., n] the harm in units of the usual one, at most `CAP`; NaN while none is usual."""
    usual = usual_harm(harm)
    known = np.where(usual > 0, usual, np.nan)
    return np.asarray(np.minimum(harm / known, CAP))


def is_capped(harm: Floats) -> Bools:
    """[..., n] whether an interval's harm counts for less than it was."""
    return np.asarray(harm > CAP * usual_harm(harm))


def fair_bets(harm: Floats, by_policy: Bools, share: float, gain: float = 0.0) -> Floats:
    """What each interval pays on a bet that the policy spares more than `gain`; never below -1.

    With the harm Y0 that the interval would have had by a random moment and Y1 by the policy, both
    capped, m the usual one and A the coin, the estimate

        (1 - A) (Y0 - m) / (1 - share) - A (Y1 - m) / share

    has the mean Y0 - Y1 over the coin, whatever m is: m only takes away what both would have had.
    A gain to be beaten multiplies Y0 by 1 - gain; one below 0 divides Y1 by it instead, so that the
    bound stays the same. The estimate is divided by its largest size, known before the interval.

    Args:
        harm: [..., n] requests, 0 or more.
        by_policy: [..., n] the coins.
        share: probability of the policy's arm.
        gain: placement gain, a share of the random arm's harm, below 1.

    Returns:
        [..., n] from -1 to 1; 0, which is no bet, while no harm is usual.
    """
    counted = counted_harm(harm)
    return np.where(np.isnan(counted), 0.0, _paid(counted, by_policy, share, gain))


def worst_bets(by_policy: Bools, share: float, gain: float = 0.0, *, on_loss: bool) -> Floats:
    """[..., n] the least that each interval can pay, whatever its harm turns out to be.

    Args:
        by_policy: [..., n] the coins.
        share: probability of the policy's arm.
        gain: as in `fair_bets`.
        on_loss: of the opposite bet, on more harm.
    """
    counted = np.where(by_policy == on_loss, 0.0, CAP)
    return _paid(counted, by_policy, share, gain) * (-1.0 if on_loss else 1.0)


def _paid(counted: Floats, by_policy: Bools, share: float, gain: float) -> Floats:
    paid = np.where(
        by_policy,
        -(min(1.0, 1.0 / (1.0 - gain)) * counted - 1.0) / share,
        (min(1.0, 1.0 - gain) * counted - 1.0) / (1.0 - share),
    )
    largest = max(1.0, CAP - 1.0) / min(share, 1.0 - share)
    return np.asarray(paid / largest)
