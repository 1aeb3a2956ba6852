"""Latencies by round, and figures of them under resampling of the rounds."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

QUANTILES = (0.5, 0.95, 0.99)
DRAWS = 2_000
CHUNK = 1_000_000


@dataclass(frozen=True, eq=False)
class Sample:
    """Latencies, each of a round of blocks.

    Attributes:
        latency_s: [n] infinite where no answer ever came.
        weight: [n] how much each counts.
        round: [n] place of its round among all those that were played.
        merges: how many merges the requests have met; 0 for a sample without merges.
    """

    latency_s: Floats
    weight: Floats
    round: Ints
    merges: int = 0

    def __len__(self) -> int:
        return int(np.count_nonzero(self.weight))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Figures of a sample: row 0 as observed, then one row a draw; NaN where there is nothing.

    Attributes:
        requests: in the sample.
        merges: that they have met.
        rounds: that hold any of the requests.
        quantiles: [1 + draws, 3] latency at `QUANTILES`.
        violating: [1 + draws] share of requests over the objective.
    """

    requests: int
    merges: int
    rounds: int
    quantiles: Floats
    violating: Floats


def draw_rounds(rounds: int, rng: np.random.Generator, draws: int = DRAWS) -> Floats:
    """[1 + draws, rounds] how often each round is drawn, with replacement; row 0 has each once.

    A round holds one block of each arm, close together in time. It is drawn with all of them: what
    the machine was like then is in all arms of it, and no reason for them to differ.
    """
    shares = np.full(rounds, 1 / rounds) if rounds else np.zeros(0)
    drawn = rng.multinomial(rounds, shares, size=draws) if rounds else np.zeros((draws, 0))
    return np.concatenate([np.ones((1, rounds)), drawn])


def drawn(sample: Sample, slo_s: float, counts: Floats) -> Drawn:
    """The figures of a sample, its rounds counted as often as each row of `counts` says."""
    order = np.argsort(sample.latency_s, kind="stable")
    order = order[sample.weight[order] > 0]
    latency_s, of_round = sample.latency_s[order], sample.round[order]
    weight, within = sample.weight[order], int(np.searchsorted(latency_s, slo_s, side="right"))
    quantiles, violating = [], []
    step = max(1, CHUNK // max(1, len(latency_s)))
    for first in range(0, len(counts), step):
        some = counts[first : first + step]
        # A column of zeros before the first, so that there is one without any request too.
        reached = np.zeros((len(some), len(latency_s) + 1))
        np.cumsum(some[:, of_round] * weight, axis=1, out=reached[:, 1:])
        total = np.where(reached[:, -1] > 0, reached[:, -1], np.nan)
        quantiles.append(_quantiles(latency_s, reached, total))
        violating.append(1 - reached[:, within] / total)
    return Drawn(
        len(latency_s),
        sample.merges,
        len(np.unique(of_round)),
        np.concatenate(quantiles),
        np.concatenate(violating),
    )


def _quantiles(latency_s: Floats, reached: Floats, total: Floats) -> Floats:
    """[rows, 3] the least latency with so large a share of the weight at or below it."""
    found = np.full((len(total), len(QUANTILES)), np.nan)
    if not len(latency_s):
        return found
    # Sums of weights differ in their last digits: a share that is reached is reached.
    bars = np.outer(total, QUANTILES) * (1 - 1e-12)
    for row in np.flatnonzero(~np.isnan(total)):
        found[row] = latency_s[np.searchsorted(reached[row, 1:], bars[row])]
    return found
