"""What the page draws and the figures lack: traffic and envelopes as plain values."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calibration.gate import mean_envelope, rank_of

BARS = 60
POINTS = 2000
"""Points of traffic drawn for a run: more than a screen has, few enough for a small page."""
SHARES = {"p05_pp": 0.05, "median_pp": 0.5, "p95_pp": 0.95}


def envelope_picture(
    load: str,
    policy: str,
    draws_pp: Sequence[npt.NDArray[np.float64]],
    policy_pp: Sequence[float],
) -> dict[str, Any]:
    """The mean over the runs of the matched random cost, as a histogram with its percentiles.

    `draws_pp` [runs][draws] are costs of random schedules with the policy's own budget in each
    run, in percentage points of requests, and `policy_pp` [runs] the policy's own. `rank` is that
    of the policy's mean among those drawn.
    """
    costs = mean_envelope(draws_pp)
    # No more bars than costs there are: whole numbers would else leave gaps between them.
    counts, edges = np.histogram(costs, bins=min(BARS, len(np.unique(costs))))
    return {
        "load": load,
        "policy": policy,
        "draws": len(costs),
        "rank": rank_of(policy_pp, draws_pp),
        "mean_pp": float(costs.mean()),
        "least_pp": float(costs.min()),
        "most_pp": float(costs.max()),
        **{name: float(np.quantile(costs, share)) for name, share in SHARES.items()},
        "counts": counts.tolist(),
        "edges_pp": edges.tolist(),
    }


def traffic_picture(
    load: str, run: str, counts: npt.NDArray[np.int64], cell_s: float, sidecars: int
) -> dict[str, Any]:
    """Arrivals of one run in even steps: [cells] counts, summed where there are very many."""
    cells = max(1, -(-len(counts) // POINTS))
    whole = len(counts) // cells * cells
    return {
        "load": load,
        "run": run,
        "seconds": len(counts) * cell_s,
        "sidecars": sidecars,
        "step_s": cells * cell_s,
        "counts": counts[:whole].reshape(-1, cells).sum(axis=1).tolist(),
    }
