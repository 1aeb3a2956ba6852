"""Samples of a calibration: requests that met a merge, and what they are to be compared with."""

import numpy as np
from numpy.typing import NDArray

from calibration.effect.observed import Arm, Observed
from calibration.effect.sample import Sample

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

STRETCH_S = 5.0
"""Requests without a merge are resampled in stretches of about this length."""


def in_windows(observed: Observed) -> Sample:
    """Requests that met a merge: arrived in its window, or were in service during it.

    A request that met two merges stands in both clusters. One that was sent while its block was
    settling counts when it lasts into a window: it is the long ones that do.
    """
    counted = np.flatnonzero(np.isin(observed.block, observed.of_arm("merges")))
    arrival_s, end_s = observed.arrival_s[counted], observed.end_s[counted]
    found, cluster = [], []
    for number, window in enumerate(observed.windows):
        met = (
            (observed.block[counted] == window.block)
            & (arrival_s < window.end_s)
            & (end_s > window.start_s)
        )
        found.append(counted[met])
        cluster.append(np.full(int(met.sum()), number, np.int64))
    rows = np.concatenate(found) if found else np.zeros(0, np.int64)
    clusters = np.concatenate(cluster) if cluster else np.zeros(0, np.int64)
    return Sample(observed.latency_s[rows], np.ones(len(rows)), clusters, len(observed.windows))


def as_if_merged(observed: Observed) -> Sample:
    """Requests of the learners that do not merge, each weighed by its chance to meet a window.

    A window meets long requests more often than short ones, merge or not: one of latency L meets a
    window of length W laid at random in proportion to W + L. Without the weights a merge that
    changes nothing would seem to make requests longer.
    """
    sample, rows = _stretches(observed, "learners")
    taken_s = observed.end_s[rows] - observed.arrival_s[rows]
    return Sample(
        sample.latency_s, mean_window_s(observed) + taken_s, sample.cluster, sample.clusters
    )


def stretches(observed: Observed, arm: Arm) -> Sample:
    """All requests of an arm, in clusters of about 5 s."""
    return _stretches(observed, arm)[0]


def mean_window_s(observed: Observed) -> float:
    """Mean length of the windows; 0 without one."""
    lengths = [window.end_s - window.start_s for window in observed.windows]
    return float(np.mean(lengths)) if lengths else 0.0


def _stretches(observed: Observed, arm: Arm) -> tuple[Sample, Ints]:
    rows = np.flatnonzero(observed.counted(arm))
    cluster, clusters = stretch_of(observed, arm, observed.block[rows], observed.arrival_s[rows])
    return Sample(observed.latency_s[rows], np.ones(len(rows)), cluster, clusters), rows


def stretch_of(observed: Observed, arm: Arm, block: Ints, at_s: Floats) -> tuple[Ints, int]:
    """The number of the stretch that holds each moment of these blocks, and how many there are."""
    cluster, clusters = np.zeros(len(at_s), np.int64), 0
    for number in observed.of_arm(arm):
        start_s, end_s = observed.blocks[number].start_s, observed.blocks[number].end_s
        parts = max(1, round((end_s - start_s) / STRETCH_S))
        own = block == number
        place = np.floor((at_s[own] - start_s) / max(end_s - start_s, 1e-9) * parts)
        cluster[own] = clusters + np.clip(place, 0, parts - 1).astype(np.int64)
        clusters += parts
    return cluster, clusters
