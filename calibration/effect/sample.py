"""Latencies in clusters, and figures of them under resampling of the clusters."""

from collections.abc import Iterator
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
    """Latencies, each of a cluster.

    Attributes:
        latency_s: [n] infinite where no answer ever came.
        weight: [n] how much each counts.
        cluster: [n] from 0 to `clusters` - 1.
        clusters: how many there are, those without a request included.
    """

    latency_s: Floats
    weight: Floats
    cluster: Ints
    clusters: int

    def __len__(self) -> int:
        return int(np.count_nonzero(self.weight))


@dataclass(frozen=True, eq=False)
class Drawn:
    """Figures of a sample: row 0 as observed, then one row a draw; NaN where there is nothing.

    Attributes:
        requests: in the sample.
        clusters: that were drawn from.
        quantiles: [1 + draws, 3] latency at `QUANTILES`.
        violating: [1 + draws] share of requests over the objective.
    """

    requests: int
    clusters: int
    quantiles: Floats
    violating: Floats


def drawn(sample: Sample, slo_s: float, rng: np.random.Generator, draws: int = DRAWS) -> Drawn:
    """The figures of a sample, observed and with its clusters drawn anew with replacement."""
    order = np.argsort(sample.latency_s, kind="stable")
    order = order[sample.weight[order] > 0]
    latency_s, cluster = sample.latency_s[order], sample.cluster[order]
    weight, within = sample.weight[order], int(np.searchsorted(latency_s, slo_s, side="right"))
    quantiles, violating = [], []
    for counts in _counts(sample.clusters, draws, rng, len(latency_s)):
        # A column of zeros before the first, so that there is one without any request too.
        reached = np.zeros((len(counts), len(latency_s) + 1))
        np.cumsum(counts[:, cluster] * weight, axis=1, out=reached[:, 1:])
        total = np.where(reached[:, -1] > 0, reached[:, -1], np.nan)
        quantiles.append(_quantiles(latency_s, reached, total))
        violating.append(1 - reached[:, within] / total)
    return Drawn(
        len(latency_s), sample.clusters, np.concatenate(quantiles), np.concatenate(violating)
    )


def _counts(clusters: int, draws: int, rng: np.random.Generator, requests: int) -> Iterator[Floats]:
    """How often each cluster was drawn: [rows, clusters], the first row as observed."""
    yield np.ones((1, clusters))
    step = max(1, CHUNK // max(1, requests))
    for first in range(0, draws, step):
        rows = min(step, draws - first)
        shares = np.full(clusters, 1 / clusters) if clusters else np.zeros(0)
        chosen = rng.multinomial(clusters, shares, size=rows) if clusters else np.zeros((rows, 0))
        yield chosen.astype(np.float64)


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
