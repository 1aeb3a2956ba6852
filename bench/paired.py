"""What runs with the same seeds say: each arm beside a baseline, seed by seed, with an interval."""

import math
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from bench.pupil import LEARNERS, PARAMETERS
from calibration.signflip import interval, paired


def figures(losses: Mapping[str, Sequence[float]], arm: str, baseline: str) -> dict[str, Any]:
    """An arm's losses by seed, and their paired differences from the baseline's, nats a byte.

    The 95% interval is the sign-flip test's; None for the baseline itself and under 6 seeds. The
    standard deviation over seeds is None for one. Raises `ArithmeticError` for a loss that is not
    finite: the training diverged, and no mean would say so.
    """
    if not all(math.isfinite(loss) for loss in losses[arm]):
        msg = f"{arm}: a held-out loss is not finite: {losses[arm]}"
        raise ArithmeticError(msg)
    less = paired(losses[arm], losses[baseline])
    ends = None if arm == baseline else interval(less, rng=np.random.default_rng(0))
    return {
        "loss": list(losses[arm]),
        "mean": statistics.fmean(losses[arm]),
        "sd": statistics.stdev(losses[arm]) if len(less) > 1 else None,
        "less": less.tolist(),
        "less_mean": float(less.mean()),
        "less_interval_95": ends,
    }


def shown(found: Mapping[str, Any]) -> list[str]:
    """`figures` as cells of a table: mean, sd, difference, its interval."""
    ends = found["less_interval_95"]
    return [
        f"{found['mean']:.4f}",
        "" if found["sd"] is None else f"{found['sd']:.4f}",
        f"{found['less_mean']:+.4f}" if any(found["less"]) or ends else "",
        f"{ends[0]:+.4f} to {ends[1]:+.4f}" if ends else "",
    ]


def circumstances() -> dict[str, Any]:
    """What a reader needs to run a study again, beside its options."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "parameters": PARAMETERS,
        "learners": LEARNERS,
        "text": f"the language reference of Python {platform.python_version()}",
    }
