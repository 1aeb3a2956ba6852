"""What switchback runs show so far: the gain, how far it is known, and what may be claimed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from calibration.switchback.outcomes import (
    LEAST_PAST,
    Bools,
    Floats,
    counted_harm,
    fair_bets,
    is_capped,
    worst_bets,
)
from calibration.switchback.wealth import last_log_wealth, log_wealth

ALPHA = 0.05
LEAST_GAIN = -9.0
"""A policy of more than ten times the harm of random moments is not told from one of just that."""
HALVINGS = 40

Verdict = Literal["placement gain", "placement loss", "no claim"]


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """The intervals of one run, in order.

    Attributes:
        harm: [n] requests that the merge which ended each harmed; NaN of the last ones, whose coin
            was tossed and whose harm is not settled, or never was since the run ended.
        by_policy: [n] the coins.
        share: probability of the policy's arm.
        began_us: [n] when each coin was tossed, rising: several runs are put in this order.
    """

    harm: Floats
    by_policy: Bools
    share: float
    began_us: npt.NDArray[np.int64]

    @property
    def settled(self) -> Bools:
        """[n] whose harm is known."""
        return ~np.isnan(self.harm)

    def bets(self, gain: float = 0.0, *, on_loss: bool = False) -> Floats:
        """[n] what each pays on a gain above `gain`, or on one below; at the worst while open."""
        paid = fair_bets(self.harm, self.by_policy, self.share, gain) * (-1.0 if on_loss else 1.0)
        worst = worst_bets(self.by_policy, self.share, gain, on_loss=on_loss)
        worst[:LEAST_PAST] = 0.0
        return np.where(self.settled, paid, worst)


@dataclass(frozen=True, slots=True)
class Arm:
    """One arm: its merges, their mean harm in requests (None without any), how many were capped."""

    merges: int
    mean_harm: float | None
    capped: int


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """All runs together.

    Attributes:
        policy, random: the two arms, harm as counted and not capped.
        gain: placement gain, the share of the random arm's harm that the policy spares, by capped
            harm in units of the usual one; None while nothing can be told.
        low, high: its 95% confidence sequence, valid whenever one looks; None where open.
        e_gain: [n] wealth of who bets that the policy spares harm, after each interval up to the
            last that is settled: 20 or more ever, by chance, in at most 5% of runs without a gain,
            however often one looks.
        e_loss: [n] wealth of who bets that it does more harm.
    """

    policy: Arm
    random: Arm
    gain: float | None
    low: float | None
    high: float | None
    e_gain: Floats
    e_loss: Floats

    @property
    def merges(self) -> int:
        """Settled ones, of both arms."""
        return self.policy.merges + self.random.merges

    @property
    def verdict(self) -> Verdict:
        """What may be claimed: what was shown once stays shown, and a later look may show it."""
        if reached(self.e_gain) is not None:
            return "placement gain"
        return "no claim" if reached(self.e_loss) is None else "placement loss"


def reached(e_values: Floats) -> int | None:
    """After how many intervals an e-value was first 20 or more; None if it never was."""
    shown = np.flatnonzero(e_values >= 1 / ALPHA)
    return int(shown[0]) + 1 if len(shown) else None


def judge(runs: Sequence[Intervals]) -> Judged:
    """Judge runs whose coins are independent; every run's usual harm is its own.

    Intervals stand in the order of their coins. Which of them ends first is no chance: the coin has
    a part in it. So one that is open while a later one of another run is settled is not passed
    over, but counts for the worst that it can come to.
    """
    order = _order(runs)
    shown = float(np.log(2 / ALPHA))

    def bets(gain: float, *, on_loss: bool) -> Floats:
        paid = (run.bets(gain, on_loss=on_loss) for run in runs)
        return np.concatenate([np.zeros(0), *paid])[order]

    return Judged(
        policy=_arm(runs, policy=True),
        random=_arm(runs, policy=False),
        gain=_gain(runs),
        low=_edge(lambda gain: last_log_wealth(bets(gain, on_loss=False)) >= shown),
        high=_edge(lambda gain: last_log_wealth(bets(gain, on_loss=True)) < shown),
        e_gain=np.exp(log_wealth(bets(0.0, on_loss=False))),
        e_loss=np.exp(log_wealth(bets(0.0, on_loss=True))),
    )


def _order(runs: Sequence[Intervals]) -> npt.NDArray[np.int64]:
    """The intervals of all runs by their coins' time, up to the last that is settled."""
    began_us = np.concatenate([np.zeros(0, np.int64), *(run.began_us for run in runs)])
    settled = np.concatenate([np.zeros(0, np.bool_), *(run.settled for run in runs)])
    order = np.argsort(began_us, kind="stable")
    known = np.flatnonzero(settled[order])
    return order[: known[-1] + 1 if len(known) else 0]


def _gain(runs: Sequence[Intervals]) -> float | None:
    """1 less the ratio of the arms' mean counted harms; None where an arm has none to compare."""
    counted = np.concatenate([np.zeros(0), *(counted_harm(run.harm) for run in runs)])
    by_policy = np.concatenate([np.zeros(0, np.bool_), *(run.by_policy for run in runs)])
    own, other = (counted[(by_policy == arm) & ~np.isnan(counted)] for arm in (True, False))
    if not len(own) or not other.sum() > 0:
        return None
    return float(1.0 - own.mean() / other.mean())


def _edge(holds: Callable[[float], bool]) -> float | None:
    """Up to which gain something holds that holds for all gains below one, and for none above.

    None where it does not hold from -9 on, or still does at 1.
    """
    below, above = LEAST_GAIN, 1.0 - 1e-9
    if not holds(below) or holds(above):
        return None
    for _ in range(HALVINGS):
        middle = (below + above) / 2
        below, above = (middle, above) if holds(middle) else (below, middle)
    return (below + above) / 2


def _arm(runs: Sequence[Intervals], *, policy: bool) -> Arm:
    own = [(run.by_policy == policy) & run.settled for run in runs]
    harm = np.concatenate([np.zeros(0), *(r.harm[o] for r, o in zip(runs, own, strict=True))])
    capped = sum(int(is_capped(r.harm)[o].sum()) for r, o in zip(runs, own, strict=True))
    return Arm(len(harm), float(harm.mean()) if len(harm) else None, capped)
