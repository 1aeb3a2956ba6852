"""Errors and power of the switchback's sequential test, looked at after every merge.

`python -m bench.switchback [--fleets 2000] [--merges 500] [--traces 16] [--json FILE]`

Fleets without an effect come in worlds of traffic and of policies that do not look at it. Fleets
with one place by the rule of `slack` on generated traffic, several fleets a trace, each with coins
of its own. Beside the e-value stands what looking costs a test that is made for one look.
"""

import argparse
import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from bench.fleets import (
    Looked,
    World,
    constant,
    daily,
    even,
    fixed,
    look,
    outcomes,
    periodic,
    shortest,
    slack_fleet,
    slow,
    soon,
    telegraph,
    tosses,
)
from calibration.protocol import corridor_of
from calibration.simulate import CELL_S
from calibration.switchback import ALPHA, LEAST_PAST, counted_harm, fair_bets, log_wealth
from controller.switchback import Control, Switchback
from replay_producer.generators import generate
from slackwater.cli.evaluate_sources import served

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Traffic and policy without an effect: the null is true.
TRUE_NULLS = {
    "constant, matched": World(constant, soon),
    "periodic bursts, matched": World(periodic, soon),
    "periodic bursts, fixed 30 s, matched": World(periodic, fixed),
    "aperiodic bursts, matched": World(telegraph, soon),
    "aperiodic bursts, even gaps, uniform": World(telegraph, even, matched=False),
    "slow drift, matched": World(slow, soon),
    "daily wave, matched": World(daily, soon),
    "heavy tails, matched": World(telegraph, soon, sigma=1.0),
    "aperiodic bursts, 4 of 5 to the policy": World(telegraph, soon, share=0.8),
}
# Another law of gaps: moments differ without a look at traffic, and the null holds on average only.
OTHER_LAWS = {
    "aperiodic bursts, H_min, uniform": World(telegraph, shortest, matched=False),
    "slow drift, H_min, uniform": World(slow, shortest, matched=False),
    "periodic bursts, fixed 30 s, uniform": World(periodic, fixed, matched=False),
    "slow drift, H_min, matched": World(slow, shortest),
}
LOOKS = (60, 80, 100, 120, 150, 200, 300)
FLEETS_A_TRACE = 128
GAPS_S = (18.0, 72.0)
MOST_MERGES = 300


def main() -> None:
    """Run the simulations, print two tables, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fleets", type=int, default=2000, help="fleets of each null world")
    parser.add_argument("--merges", type=int, default=500, help="merges of each fleet")
    parser.add_argument("--traces", type=int, default=16, help="traces of each kind of traffic")
    parser.add_argument("--json", type=Path, default=Path("results/switchback.json"))
    options = parser.parse_args()
    began = time.monotonic()
    drawn = tosses(options.fleets, options.merges)
    errors = {
        name: error_of(world, drawn) | {"null": name in TRUE_NULLS}
        for name, world in (TRUE_NULLS | OTHER_LAWS).items()
    }
    longest = min(options.merges, MOST_MERGES)
    powers = {}
    for regime in ("bursty", "aperiodic", "constant"):
        looked = traces_of(regime, options.traces, longest)
        for control in get_args(Control):
            powers[f"{regime}, {control}"] = power_of(looked, regime, control, longest)
    result = {
        "schema_version": 1,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "fleets": options.fleets,
        "merges": options.merges,
        "traces": options.traces,
        "fleets_a_trace": FLEETS_A_TRACE,
        "alpha": ALPHA,
        "errors": errors,
        "powers": powers,
        "seconds": time.monotonic() - began,
    }
    show(result)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


def error_of(world: World, drawn: Floats, seed: int = 0) -> dict[str, Any]:
    """Shares of a world's fleets in which a test ever claimed an effect, by looking at each merge.

    `gain` and `loss` of the e-values; `naive` of a z-test at 5%, one-sided, from the 20th merge on.
    """
    harm, coins = outcomes(world, drawn, np.random.default_rng([seed, 1]))
    bets = fair_bets(harm, coins, world.share)
    own, other = (float(harm[coins == arm].mean()) for arm in (True, False))
    return {
        "gain": float(crossed(log_wealth(bets))[:, -1].mean()),
        "loss": float(crossed(log_wealth(-bets))[:, -1].mean()),
        "naive": float(naive(counted_harm(harm), coins)[:, -1].mean()),
        "mean_gain": 1 - own / other,
    }


def crossed(log_wealths: Floats) -> Bools:
    """[fleets, merges] whether the wealth has been 20 by then."""
    return np.asarray(np.maximum.accumulate(log_wealths, axis=1) >= math.log(1 / ALPHA))


def naive(harm: Floats, coins: Bools) -> Bools:
    """[fleets, merges] whether a z-test of the two arms' means has been below 5% by then."""
    used = harm[:, LEAST_PAST:]
    shown = np.zeros(used.shape, np.bool_)
    with np.errstate(invalid="ignore", divide="ignore"):
        means, errors = [], []
        for arm in (True, False):
            mine = coins[:, LEAST_PAST:] == arm
            count = np.cumsum(mine, axis=1)
            mean = np.cumsum(used * mine, axis=1) / count
            square = np.cumsum(used**2 * mine, axis=1) / count
            means.append(mean)
            errors.append((square - mean**2) / (count - 1))
        z = (means[1] - means[0]) / np.sqrt(errors[0] + errors[1])
        shown[:, 20:] = z[:, 20:] > 1.6449
    return np.asarray(np.logical_or.accumulate(shown, axis=1))


def traces_of(regime: str, traces: int, merges: int) -> list[Looked]:
    """Traces of a regime, each long enough for so many merges, as `slack` sees them."""
    duration_s = merges * 56.0
    corridor = corridor_of(duration_s, 8.0, *GAPS_S, CELL_S)
    made = (generate(regime, duration_s, seed=seed) for seed in range(traces))
    return [look(served(trace, duration_s), corridor, CELL_S) for trace in made]


def power_of(looked: list[Looked], regime: str, control: Control, merges: int) -> dict[str, Any]:
    """Shares of fleets by the rule of `slack` whose gain has been claimed after so many merges."""
    harm, coins = [], []
    for trace, seen in enumerate(looked):
        for fleet in range(FLEETS_A_TRACE):
            key = f"{regime} {trace} {fleet}"
            run = slack_fleet(seen, Switchback(key, 0.5, control), merges)
            if len(run.harm) == merges:
                harm.append(run.harm)
                coins.append(run.by_policy)
    harms, arms = np.array(harm), np.array(coins)
    shown = crossed(log_wealth(fair_bets(harms, arms, 0.5)))
    own, other = (float(harms[arms == arm].mean()) for arm in (True, False))
    times = np.where(shown.any(axis=1), shown.argmax(axis=1) + 1, np.inf)
    eighty = float(np.sort(times)[math.ceil(0.8 * len(times)) - 1])
    return {
        "fleets": len(harms),
        "mean_gain": 1 - own / other,
        "power": {str(n): float(shown[:, n - 1].mean()) for n in LOOKS if n <= merges},
        "merges_for_80_percent": None if math.isinf(eighty) else int(eighty),
    }


def show(result: dict[str, Any]) -> None:
    console = Console(width=110)
    table = Table(
        title=f"claims in {result['fleets']:,} fleets without an effect, a look after each of "
        f"{result['merges']} merges"
    )
    for name in ("world", "gain %", "loss %", "z-test %", "mean gain %"):
        table.add_column(name, justify="left" if name == "world" else "right")
    for name, row in result["errors"].items():
        shares = (f"{100 * row[key]:.2f}" for key in ("gain", "loss", "naive", "mean_gain"))
        table.add_row(name, *shares)
    console.print(table)
    table = Table(title="claims of a gain, in % of fleets that place by the rule of slack")
    looks = [str(n) for n in LOOKS if n <= min(result["merges"], MOST_MERGES)]
    for name in ("traffic, control", "fleets", "gain %", *looks, "80% at"):
        table.add_column(name, justify="left" if name == "traffic, control" else "right")
    for name, row in result["powers"].items():
        powers = (f"{100 * row['power'][n]:.1f}" for n in looks)
        eighty = str(row["merges_for_80_percent"] or "-")
        table.add_row(name, str(row["fleets"]), f"{100 * row['mean_gain']:.1f}", *powers, eighty)
    console.print(table)


if __name__ == "__main__":
    main()
