"""Correction for the number of policies tried: Holm's, and the sharper max-T over shared runs."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slackwater.errors import InputError

EXACT_RUNS = 14
RESAMPLES = 19_999


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p values, in the order given (Holm, 1979): valid whatever the dependence.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def max_t(differences: ArrayLike, rng: np.random.Generator | None = None) -> NDArray[np.float64]:
    """[policies] two-sided adjusted p values from differences [runs, policies] on the same runs.

    Step-down max-T (Westfall and Young, 1993) over sign flips common to all policies of a run: it
    learns from the data how alike the policies are, where Holm assumes the worst. Exact up to 14
    runs; `rng` draws 19,999 patterns beyond. The statistic is sum(d) / sqrt(sum(d^2)), which
    orders patterns as the t statistic does. Raises `InputError` for many runs without `rng`.
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 2 or not values.size or not np.isfinite(values).all():
        msg = "max-T needs one finite difference for each run and policy"
        raise InputError(msg)
    scale = np.sqrt((values**2).sum(axis=0))
    unit = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
    patterns = np.abs(_signs(len(values), rng) @ unit)
    observed = np.abs(unit.sum(axis=0))
    order = np.argsort(-observed, kind="stable")
    adjusted, floor = np.empty(len(order)), 0.0
    for k, policy in enumerate(order):
        largest = patterns[:, order[k:]].max(axis=1)
        floor = max(floor, float(np.mean(largest >= observed[policy] - 1e-12)))
        adjusted[policy] = floor
    return adjusted


def _signs(n: int, rng: np.random.Generator | None) -> NDArray[np.float64]:
    """Patterns of signs [patterns, n]; the first is the one observed, so that p is never 0."""
    if n <= EXACT_RUNS:
        bits = np.arange(2**n)[:, None] >> np.arange(n) & 1
        return np.asarray(1.0 - 2.0 * bits, dtype=np.float64)
    if rng is None:
        msg = f"{n} runs are too many to count every pattern; give a random generator"
        raise InputError(msg)
    drawn = 1.0 - 2.0 * rng.integers(0, 2, size=(RESAMPLES, n))
    return np.concatenate([np.ones((1, n)), drawn])
