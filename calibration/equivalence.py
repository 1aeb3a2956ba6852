"""Load match: two arms served the same load when their difference lies within stated margins.

A test that finds no difference shows nothing; equivalence has to be shown (TOST: two one-sided
tests, Schuirmann 1987). Each side is a sign-flip test of the runs' log ratios against a margin.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.signflip import interval, sign_flip
from slackwater.errors import InputError

ALPHA = 0.05


@dataclass(frozen=True, slots=True)
class Margins:
    """How far the arms' mean loads may lie apart, as a share: 0.05 is a ratio of 1/1.05 to 1.05."""

    arrivals: float = 0.05
    tokens: float = 0.05

    def __post_init__(self) -> None:
        if not (0 < self.arrivals < 1 and 0 < self.tokens < 1):
            msg = f"{self}: margins are shares above 0 and below 1, such as 0.05"
            raise InputError(msg)


@dataclass(frozen=True, slots=True)
class ArmLoad:
    """What one arm served, run by run, runs in the same order in every arm; None is unknown."""

    arrivals: Sequence[float | None]
    tokens: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """One figure of one arm against the baseline.

    Attributes:
        arm: name of the arm.
        figure: `arrivals` or `tokens`.
        n: runs.
        ratio: geometric mean of arm / baseline; None when unknown.
        low: lower end of the ratio's 90% interval; None with too few runs.
        high: its upper end.
        p_value: the larger of the two one-sided p values; None when unknown.
        margin: the stated one.
        matched: shown to be equivalent.
        reason: why, or why not.
    """

    arm: str
    figure: str
    n: int
    ratio: float | None
    low: float | None
    high: float | None
    p_value: float | None
    margin: float
    matched: bool
    reason: str


@dataclass(frozen=True, slots=True)
class LoadMatch:
    """All figures of all arms against the baseline; matched when every one of them is."""

    baseline: str
    figures: tuple[Equivalence, ...]

    @property
    def matched(self) -> bool:
        """True when each figure of each arm was shown to be equivalent."""
        return bool(self.figures) and all(figure.matched for figure in self.figures)

    @property
    def reason(self) -> str:
        """The first figure that fails, or that all hold."""
        if not self.figures:
            return "no arm was compared"
        failed = [f for f in self.figures if not f.matched]
        return failed[0].reason if failed else f"all arms match {self.baseline!r}"


def load_match(
    arms: Mapping[str, ArmLoad],
    baseline: str,
    margins: Margins | None = None,
    rng: np.random.Generator | None = None,
) -> LoadMatch:
    """Compare each arm's arrivals and tokens with the baseline's (a no-merge run, as a rule).

    `rng` is for more than 20 runs. Raises `InputError` for a baseline that is no arm.
    """
    if baseline not in arms:
        msg = f"no arm is named {baseline!r}; there are {', '.join(arms) or 'none'}"
        raise InputError(msg)
    stated, base = margins or Margins(), arms[baseline]
    found: list[Equivalence] = []
    for name, arm in arms.items():
        if name != baseline:
            found.append(
                equivalent(name, "arrivals", arm.arrivals, base.arrivals, stated.arrivals, rng)
            )
            found.append(equivalent(name, "tokens", arm.tokens, base.tokens, stated.tokens, rng))
    return LoadMatch(baseline, tuple(found))


def equivalent(
    arm: str,
    figure: str,
    ours: Sequence[float | None],
    base: Sequence[float | None],
    margin: float,
    rng: np.random.Generator | None = None,
) -> Equivalence:
    """TOST of the mean log ratio of paired runs at 5%: unknown, zero or unpaired: not matched.

    Runs whose figures are the same in each pair replayed one recording: matched, however few.
    """
    problem = _problem(arm, figure, ours, base)
    if problem:
        return Equivalence(arm, figure, len(ours), None, None, None, None, margin, False, problem)
    logs = np.log(np.asarray(ours, dtype=np.float64) / np.asarray(base, dtype=np.float64))
    bound = math.log1p(margin)
    p_value = max(
        sign_flip(logs + bound, "greater", rng).p_value,
        sign_flip(logs - bound, "less", rng).p_value,
    )
    return _judged(arm, figure, logs, p_value, margin, rng)


def _judged(
    arm: str,
    figure: str,
    logs: NDArray[np.float64],
    p_value: float,
    margin: float,
    rng: np.random.Generator | None,
) -> Equivalence:
    same, ratio = bool((logs == 0).all()), float(np.exp(logs.mean()))
    ends = interval(logs, 1 - 2 * ALPHA, rng)
    low, high = (math.exp(ends[0]), math.exp(ends[1])) if ends else (None, None)
    matched = same or p_value <= ALPHA
    shown = f"{figure} of {arm!r} are {ratio:.4f} times the baseline's over {len(logs)} runs"
    if same:
        reason = f"{figure} of {arm!r} equal the baseline's in each of {len(logs)} runs"
    elif matched:
        reason = f"{shown}, within {margin:.0%} (p = {p_value:.4f})"
    elif ends is None:
        reason = f"{shown}; 5 or more are needed to show equivalence at 5%"
    else:
        reason = f"{shown}, 90% interval {low:.4f} to {high:.4f}: not within {margin:.0%}"
    return Equivalence(arm, figure, len(logs), ratio, low, high, p_value, margin, matched, reason)


def _problem(
    arm: str, figure: str, ours: Sequence[float | None], base: Sequence[float | None]
) -> str | None:
    if len(ours) != len(base):
        return f"{figure} of {arm!r}: {len(ours)} runs against {len(base)}; the same are needed"
    if not ours:
        return f"{figure} of {arm!r}: no runs"
    unknown = sum(value is None for value in (*ours, *base))
    if unknown:
        return f"{figure} of {arm!r} are unknown in {unknown} of {2 * len(ours)} figures"
    if not all(value is not None and 0 < value < math.inf for value in (*ours, *base)):
        return f"{figure} of {arm!r}: a run without any load cannot be compared"
    return None
