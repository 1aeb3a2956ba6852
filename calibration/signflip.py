"""The paired sign-flip test: exact where it can be, never p = 0, ties counted.

Under the null hypothesis a run's difference is as likely to have one sign as the other, so every
pattern of signs is equally likely (Fisher, 1935). p is the share of patterns at least as extreme
as the one observed, which is one of them. The interval collects the shifts that the two-sided
test would not reject; its ends are order statistics of the means of all subsets of the
differences (Hartigan, 1969), so it agrees with the test to the last digit.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slackwater.errors import InputError

Alternative = Literal["less", "greater", "two-sided"]
Floats = NDArray[np.float64]

EXACT_RUNS = 20
"""Up to this many runs all 2^n patterns are counted."""
RESAMPLES = 99_999
"""Random patterns for more runs than that."""


@dataclass(frozen=True, slots=True)
class SignFlip:
    """What the test says about the mean of n paired differences.

    Attributes:
        n: runs.
        mean: mean difference, in the differences' unit.
        p_value: in (0, 1].
        exact: all patterns were counted; False after random ones.
        alternative: the side tested.
    """

    n: int
    mean: float
    p_value: float
    exact: bool
    alternative: Alternative


def paired(first: ArrayLike, second: ArrayLike) -> Floats:
    """[n] first - second, run by run; raises `InputError` when the numbers of runs differ."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.shape != b.shape:
        msg = f"{a.size} runs against {b.size}; pairs need the same runs in both"
        raise InputError(msg)
    return _checked(a - b)


def sign_flip(
    differences: ArrayLike, alternative: Alternative, rng: np.random.Generator | None = None
) -> SignFlip:
    """Test whether the mean of the paired differences is 0.

    >>> sign_flip([-1.065, 0.226, -1.461, -0.365, -2.306], "less").p_value
    0.0625

    Beyond 20 runs `rng` draws 99,999 patterns and p = (k + 1) / (m + 1). Raises `InputError` for
    no runs, figures that are not finite, or many runs without `rng`.
    """
    values = _checked(np.asarray(differences, dtype=np.float64))
    exact = len(values) <= EXACT_RUNS
    sums = _subset_sums(values)[0] * 2 - values.sum() if exact else _random_sums(values, rng)
    extreme = _as_extreme(sums, float(values.sum()), alternative, float(np.abs(values).sum()))
    count = int(np.count_nonzero(extreme))
    p_value = count / len(sums) if exact else (count + 1) / (len(sums) + 1)
    return SignFlip(len(values), float(values.mean()), p_value, exact, alternative)


def _as_extreme(
    sums: Floats, observed: float, alternative: Alternative, scale: float
) -> NDArray[np.bool_]:
    # Equal sums differ in their last digits by the order of addition: those are ties.
    slack = 1e-12 * scale
    if alternative == "less":
        return sums <= observed + slack
    if alternative == "greater":
        return sums >= observed - slack
    return np.abs(sums) >= abs(observed) - slack


def interval(
    differences: ArrayLike, confidence: float = 0.95, rng: np.random.Generator | None = None
) -> tuple[float, float] | None:
    """The mean difference's interval: the shifts that the two-sided test does not reject.

    None when there are too few runs for any shift to be rejected: under 6 at 95%, under 5 at 90%.
    Beyond 20 runs the subsets are `rng`'s 99,999 random ones. Raises as `sign_flip` does.
    """
    values = _checked(np.asarray(differences, dtype=np.float64))
    if len(values) <= EXACT_RUNS:
        sums, sizes = _subset_sums(values)
        means = np.sort(sums[1:] / sizes[1:])
    else:
        chosen = _coins(len(values), rng)
        chosen = chosen[chosen.any(axis=1)]
        means = np.sort((chosen @ values) / chosen.sum(axis=1))
    # p(shift) = (1 + subset means on its far side) / patterns; accepted while above the tail.
    k = int((len(means) + 1) * (1 - confidence) / 2 + 1e-9)
    return (float(means[k - 1]), float(means[-k])) if k else None


def _subset_sums(values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """[2^n] sum and size of every subset, the empty one first."""
    sums, sizes = np.zeros(1), np.zeros(1, dtype=np.int64)
    for value in values:
        sums = np.concatenate([sums, sums + value])
        sizes = np.concatenate([sizes, sizes + 1])
    return sums, sizes


def _random_sums(values: Floats, rng: np.random.Generator | None) -> Floats:
    return np.asarray(2 * (_coins(len(values), rng) @ values) - values.sum())


def _coins(n: int, rng: np.random.Generator | None) -> Floats:
    if rng is None:
        msg = f"{n} runs are too many to count every pattern; give a random generator"
        raise InputError(msg)
    return rng.integers(0, 2, size=(RESAMPLES, n)).astype(np.float64)


def _checked(values: Floats) -> Floats:
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all():
        msg = "paired differences must be one finite number a run, of at least one run"
        raise InputError(msg)
    return values
