"""What is played when: blocks of the arms in random order, arrivals and moments of merges."""

from collections.abc import Iterator

import msgspec
import numpy as np

from calibration.effect.observed import ARMS, Arm
from sidecar.load import Scheduled
from slackwater.clock import US_PER_S
from slackwater.errors import InputError

LONGEST_BLOCK_S = 15.0
"""Short ones make many rounds, which intervals are made from: a shared machine grows slower and
faster by a fifth from one half minute to the next."""
SHORTEST_BLOCK_S = 10.0
WANTED_ROUNDS = 6
"""So many pairs of blocks can show that two arms served the same load, at 5%."""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """One block to play.

    Attributes:
        number: in the order of playing, from 0.
        round: its blocks have the same arrivals.
        arm: which.
    """

    number: int
    round: int
    arm: Arm


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that is drawn at random comes from here and `seed`.

    Attributes:
        arms: those that are played; all but `nothing` where the learners are not ours to stop.
        rounds: each plays every arm once, in random order.
        block_s: what is measured of a block.
        settle_s: before that, under the same load, not measured.
        rate_per_s: arrivals, a Poisson process.
        prompt_tokens, output_tokens: of every request.
        pause_s: from a merge's end to the next one's start, drawn evenly between these.
        discarded: merges before the first block, which run slow and are not measured.
        warm_up_s: of load before those.
        seed: of all of it.
    """

    arms: tuple[Arm, ...] = ARMS
    rounds: int
    block_s: float
    settle_s: float = 2.0
    rate_per_s: float
    prompt_tokens: int = 64
    output_tokens: int = 16
    pause_s: tuple[float, float] = (1.0, 4.0)
    discarded: int = 2
    warm_up_s: float = 5.0
    seed: int = 0

    def __post_init__(self) -> None:
        whole = {
            "rounds": self.rounds,
            "--prompt-tokens": self.prompt_tokens,
            "--output-tokens": self.output_tokens,
        }
        for name, value in whole.items():
            if value < 1:
                msg = f"{name} is {value}; it must be 1 or more"
                raise InputError(msg)
        if self.seed < 0:
            msg = f"--seed is {self.seed}; it must be 0 or more"
            raise InputError(msg)
        if not 0 < self.rate_per_s <= 10_000:
            msg = f"--rate is {self.rate_per_s:g}; it must be above 0, at most 10000 requests/s"
            raise InputError(msg)
        if not (0 < self.block_s < 1e6 and 0 <= self.settle_s < 1e6):
            msg = f"a block of {self.settle_s:g} + {self.block_s:g} s is no time; take more"
            raise InputError(msg)

    @property
    def length_s(self) -> float:
        """Of one block, settling included."""
        return self.settle_s + self.block_s

    @property
    def lasts_s(self) -> float:
        """Of all blocks."""
        return self.rounds * len(self.arms) * self.length_s

    def planned(self) -> Iterator[Planned]:
        """All blocks, in order."""
        number = 0
        for one in range(self.rounds):
            for place in self._rng(one, 0).permutation(len(self.arms)):
                yield Planned(number=number, round=one, arm=self.arms[place])
                number += 1

    def schedule(self, block: Planned) -> list[Scheduled]:
        """The requests of a block: the same in every arm of a round."""
        return self.arrivals(self._rng(block.round, 1), self.length_s)

    def arrivals(self, rng: np.random.Generator, length_s: float) -> list[Scheduled]:
        """A Poisson process of so many seconds: given their number, arrivals are uniform."""
        count = rng.poisson(self.rate_per_s * length_s)
        after_us = np.sort(rng.integers(0, round(length_s * US_PER_S), count))
        return [
            Scheduled(f"r{i}", int(at), self.prompt_tokens, self.output_tokens)
            for i, at in enumerate(after_us)
        ]

    def pauses(self, block: Planned) -> Iterator[float]:
        """Seconds to wait before each merge of a block: before the first, then after each end."""
        rng = self._rng(block.round, 2)
        while True:
            yield float(rng.uniform(*self.pause_s))

    def _rng(self, number: int, what: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number, what])


def fitting(minutes: float, arms: tuple[Arm, ...], settle_s: float = 2.0) -> tuple[int, float]:
    """Rounds, and seconds that each block measures, for so many minutes.

    Blocks of 15 s, or shorter ones where that makes six rounds; never under 10 s. Raises
    `InputError` for less time than a single round takes.
    """
    total_s = minutes * 60
    if not total_s < 1e8:
        msg = f"--minutes is {minutes:g}; it must be a number of minutes"
        raise InputError(msg)
    wanted_s = total_s / WANTED_ROUNDS / len(arms) - settle_s
    block_s = float(np.clip(wanted_s, SHORTEST_BLOCK_S, LONGEST_BLOCK_S))
    rounds = int(total_s / (len(arms) * (block_s + settle_s)) + 0.01)
    if rounds < 1:
        least = len(arms) * (SHORTEST_BLOCK_S + settle_s) / 60
        msg = f"--minutes is {minutes:g}; one round of short blocks takes {least:g}"
        raise InputError(msg)
    return rounds, round(total_s / rounds / len(arms) - settle_s, 3)
