"""Switchback: a coin gives each corridor interval to the policy or to a moment drawn beforehand.

An interval runs from one merge to the next. Its coin, and in the random arm the gap at whose end it
is to merge, are drawn as it begins and from a seed alone: no traffic that is still to come has a
part in them, and a job that starts anew, or an offline replay, draws the same.
"""

import random
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from slackwater.corridor import Corridor

Arm = Literal["policy", "random"]
Control = Literal["matched", "uniform"]

POOL_GAPS = 64
LEAST_POOL = 8


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the coin said of one interval.

    Attributes:
        interval: its number, from 0.
        arm: whose it is.
        policy_share: probability that it would be the policy's.
        drawn_gap_steps: in the random arm, inner steps from the last merge to the moment drawn.
    """

    interval: int
    arm: Arm
    policy_share: float
    drawn_gap_steps: int | None


@dataclass(slots=True)
class Switchback:
    """Assigns the intervals of one run of one merge group.

    Attributes:
        key: names the run's coins: equal keys toss alike.
        policy_share: probability of the policy's arm.
        control: `uniform`: the random arm's gap is drawn evenly from the corridor; `matched`: from
            the last 64 gaps that the policy's intervals had, once there are 8, and evenly before.
        assigned: the current interval's.
    """

    key: str
    policy_share: float
    control: Control
    assigned: Assignment | None = None
    _merged: dict[str, int] = field(default_factory=dict)
    _behind: set[str] = field(default_factory=set)
    _gaps: deque[int] = field(default_factory=lambda: deque(maxlen=POOL_GAPS))

    def follow(self, last_merges: Mapping[str, int], corridor: Corridor) -> Assignment:
        """The assignment of the interval that this tick is in; a merge begins another.

        Learners count their own steps, and tell of one merge at ticks of their own: who tells of
        it later, or takes its weights later, or comes later, begins no interval by that.

        Args:
            last_merges: of each learner that is present, its step at its last merge.
            corridor: of the gaps.
        """
        ended = self._gaps_ended(last_merges)
        if self.assigned is None:
            self._behind.clear()
            self.assigned = self._toss(0, corridor)
        elif ended:
            if self.assigned.arm == "policy":
                self._remember(max(ended), corridor)
            self.assigned = self._toss(self.assigned.interval + 1, corridor)
        return self.assigned

    def _gaps_ended(self, last_merges: Mapping[str, int]) -> list[int]:
        """Gaps, each in its learner's steps, that a merge since the last tick has ended."""
        known = [name for name in last_merges if name in self._merged]
        # Where none is left that was in the last merge, the next is told by who is there.
        telling = [name for name in known if name not in self._behind] or known
        merged = {n for n in known if last_merges[n] > self._merged[n]}
        gaps = [last_merges[n] - self._merged[n] for n in telling if n in merged]
        # A learner that counts fewer steps than before has started anew.
        new = {n for n, step in last_merges.items() if step < self._merged.get(n, step + 1)}
        self._merged.update(last_merges)
        self._behind = (set(self._merged) if gaps else self._behind | new) - merged
        return gaps

    def _remember(self, gap_steps: int, corridor: Corridor) -> None:
        """Keep the gap of a policy's interval, whatever ended it; what the corridor forbids not."""
        if corridor.min_gap_steps <= gap_steps <= corridor.max_gap_steps:
            self._gaps.append(gap_steps)

    def _toss(self, interval: int, corridor: Corridor) -> Assignment:
        rng = coin_of(self.key, interval)
        if rng.random() < self.policy_share:
            return Assignment(interval, "policy", self.policy_share, None)
        return Assignment(interval, "random", self.policy_share, self._draw(rng.random(), corridor))

    def _draw(self, uniform: float, corridor: Corridor) -> int:
        if self.control == "matched" and len(self._gaps) >= LEAST_POOL:
            return self._gaps[int(uniform * len(self._gaps))]
        width = corridor.max_gap_steps - corridor.min_gap_steps + 1
        return corridor.min_gap_steps + int(uniform * width)


def coin_of(key: str, interval: int) -> random.Random:
    """The random numbers of one interval: the first is its coin, the second its moment."""
    return random.Random(f"switchback:{key}:{interval}")  # noqa: S311


def switchback_key(seed: int, run_id: str, group: str) -> str:
    """What names a run's coins; with the run's id in it, runs of one seed toss independently."""
    return f"{seed}:{run_id}:{group}"
