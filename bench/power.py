"""Power of the switchback's test: fleets that place by the rule of `slack` on generated traffic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.fleets import Looked, look, slack_fleet
from calibration.profile import decode_profile
from calibration.protocol import corridor_of
from calibration.serving.overlap import Counting, Overlap
from calibration.simulate import CELL_S
from calibration.switchback import ALPHA, fair_bets, log_wealth
from controller.switchback import Control, Switchback
from replay_producer.generators import generate
from slackwater.cli.evaluate_figures import figures, read_file
from slackwater.cli.evaluate_sources import served

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

LOOKS = (60, 80, 100, 120, 150, 200, 300)
FLEETS_A_TRACE = 128
GAPS_S = (18.0, 72.0)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a merge does here.

    Attributes:
        window_s: how long it lasts, whole cells.
        counting: which requests it harms: of the overlap model.
        violating: share of them that miss the objective in a merge; None where it is not known.
        origin: of these figures, for people.
    """

    window_s: float = 8.0
    counting: Counting = "in_service"
    violating: float | None = None
    origin: str = "windows of the paper"


PAPER = Effect()


def effect_of(path: Path) -> Effect:
    """The effect of a calibrated profile, read as `evaluate --profile` does.

    Violations are those measured of requests that met a merge. Raises `InputError`.
    """
    read = figures("overlap", path, (), None, None)
    model = read.model
    assert isinstance(model, Overlap)
    measured = decode_profile(read_file(path, "--profile"), f"--profile {path}").measurement
    return Effect(
        window_s=read.window_s,
        counting=model.counting,
        violating=None if measured is None else measured.merging_effect.violating,
        origin=read.line(),
    )


def traces_of(regime: str, traces: int, merges: int, effect: Effect = PAPER) -> list[Looked]:
    """Traces of a regime, each long enough for so many merges, as `slack` sees them."""
    duration_s = merges * 56.0
    corridor = corridor_of(duration_s, effect.window_s, *GAPS_S, CELL_S)
    made = (generate(regime, duration_s, seed=seed) for seed in range(traces))
    return [look(served(one, duration_s), corridor, CELL_S, effect.counting) for one in made]


def power_of(
    looked: Sequence[Looked],
    regime: str,
    control: Control,
    merges: int,
    violating: float | None = None,
) -> dict[str, Any]:
    """Shares of fleets whose gain has been claimed after so many merges.

    With `violating` the harm is those of the harmed that miss the objective, each by that chance.
    """
    harms, arms = fleets_of(looked, regime, 0.5, control, merges)
    if violating is not None:
        rng = np.random.default_rng(0)
        harms = rng.binomial(harms.astype(np.int64), violating).astype(np.float64)
    shown = crossed(log_wealth(fair_bets(harms, arms, 0.5)))
    own, other = (float(harms[arms == arm].mean()) for arm in (True, False))
    times = np.where(shown.any(axis=1), shown.argmax(axis=1) + 1, np.inf)
    eighty = float(np.sort(times)[math.ceil(0.8 * len(times)) - 1])
    return {
        "fleets": len(harms),
        "harm_a_merge": float(harms.mean()),
        "mean_gain": 1 - own / other,
        "power": {str(n): float(shown[:, n - 1].mean()) for n in LOOKS if n <= merges},
        "merges_for_80_percent": None if math.isinf(eighty) else int(eighty),
    }


def carry_over(looked: Sequence[Looked], regime: str, merges: int) -> dict[str, float]:
    """Mean harm a merge of fleets that are all policy, all random, and half of each by arm."""
    alone = [float(fleets_of(looked, regime, p, "matched", merges)[0].mean()) for p in (1.0, 0.0)]
    harms, arms = fleets_of(looked, regime, 0.5, "matched", merges)
    mixed = [float(harms[arms == arm].mean()) for arm in (True, False)]
    return {
        "policy_alone": alone[0],
        "random_alone": alone[1],
        "gain_alone": 1 - alone[0] / alone[1],
        "policy_mixed": mixed[0],
        "random_mixed": mixed[1],
        "gain_mixed": 1 - mixed[0] / mixed[1],
    }


def fleets_of(
    looked: Sequence[Looked], regime: str, share: float, control: Control, merges: int
) -> tuple[Floats, Bools]:
    """[fleets, merges] harm and coins of those fleets that came to so many merges."""
    harm, coins = [], []
    for trace, seen in enumerate(looked):
        for fleet in range(FLEETS_A_TRACE):
            key = f"{regime} {trace} {fleet}"
            run = slack_fleet(seen, Switchback(key, share, control), merges)
            if len(run.harm) == merges:
                harm.append(run.harm)
                coins.append(run.by_policy)
    return np.array(harm), np.array(coins)


def crossed(log_wealths: Floats) -> Bools:
    """[fleets, merges] whether the wealth has been 20 by then."""
    return np.asarray(np.maximum.accumulate(log_wealths, axis=1) >= math.log(1 / ALPHA))
