"""Errors and power of the switchback's sequential test, looked at after every merge.

    python -m bench.switchback [--part errors|power|carry-over]... [--fleets 2000] [--merges 500]
        [--traces 16] [--regime NAME]... [--profile FILE] [--json FILE]

Fleets without an effect come in worlds of traffic and of policies that do not look at it. Fleets
with one place by the rule of `slack` on generated traffic, several fleets a trace, each with coins
of its own. Beside the e-value stands what looking costs a test that is made for one look.

`--profile` simulates the effect that `slackwater calibrate` measured: windows of its length, and
beside the requests that meet a window those of them that miss the objective, as often as they did.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict
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
    outcomes,
    periodic,
    shortest,
    slow,
    soon,
    telegraph,
    tosses,
)
from bench.power import (
    FLEETS_A_TRACE,
    LOOKS,
    PAPER,
    Effect,
    carry_over,
    crossed,
    effect_of,
    power_of,
    traces_of,
)
from calibration.switchback import ALPHA, LEAST_PAST, counted_harm, fair_bets, log_wealth
from controller.switchback import Control
from slackwater.errors import InputError

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
PARTS = ("errors", "power", "carry-over")
PROFILED = ("power", "carry-over")
"""The parts that a profile's effect has a part in."""
REGIMES = ("bursty", "aperiodic", "constant")
MOST_MERGES = 300


def main() -> None:
    """Run the simulations, print a table of each, write JSON."""
    parser = _parser()
    options = parser.parse_args()
    parts = PROFILED if options.profile and not options.part else options.part or PARTS
    if options.profile and not set(parts) <= set(PROFILED):
        parser.error(f"--profile is about {' and '.join(PROFILED)}; leave the other --part out")
    try:
        effect = PAPER if options.profile is None else effect_of(options.profile)
        result = simulated(options, list(parts), effect)
    except InputError as error:
        parser.error(str(error))
    show(result)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", choices=PARTS, help="of the three; several")
    parser.add_argument("--fleets", type=int, default=2000, help="fleets of each null world")
    parser.add_argument("--merges", type=int, default=500, help="merges of each fleet")
    parser.add_argument("--traces", type=int, default=16, help="traces of each kind of traffic")
    parser.add_argument("--regime", action="append", choices=REGIMES, help="one kind; several")
    parser.add_argument("--profile", type=Path, help="what `slackwater calibrate` wrote")
    parser.add_argument("--json", type=Path, default=Path("results/switchback.json"))
    return parser


def simulated(options: argparse.Namespace, parts: Sequence[str], effect: Effect) -> dict[str, Any]:
    """All that was asked for; raises `InputError` for an effect that fits no corridor."""
    began, longest = time.monotonic(), min(options.merges, MOST_MERGES)
    errors: dict[str, Any] = {}
    powers: dict[str, Any] = {}
    carried: dict[str, Any] = {}
    if "errors" in parts:
        drawn = tosses(options.fleets, options.merges)
        for name, world in (TRUE_NULLS | OTHER_LAWS).items():
            errors[name] = error_of(world, drawn) | {"null": name in TRUE_NULLS}
    for regime in options.regime or REGIMES if {"power", "carry-over"} & set(parts) else ():
        looked = traces_of(regime, options.traces, longest, effect)
        if "power" in parts:
            powers |= _powers(looked, regime, longest, effect)
        if "carry-over" in parts:
            carried[regime] = carry_over(looked, regime, longest)
    return {
        "schema_version": 1,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "fleets": options.fleets,
        "merges": options.merges,
        "traces": options.traces,
        "fleets_a_trace": FLEETS_A_TRACE,
        "alpha": ALPHA,
        "effect": asdict(effect),
        "errors": errors,
        "powers": powers,
        "carry_over": carried,
        "seconds": time.monotonic() - began,
    }


def _powers(
    looked: Sequence[Looked], regime: str, merges: int, effect: Effect
) -> dict[str, dict[str, Any]]:
    found = {}
    for control in get_args(Control):
        found[f"{regime}, {control}"] = power_of(looked, regime, control, merges)
        if effect.violating is not None:
            violating = power_of(looked, regime, control, merges, effect.violating)
            found[f"{regime}, {control}, violations"] = violating
    return found


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


def show(result: dict[str, Any]) -> None:
    console = Console(width=110)
    for rows, table in (
        ("errors", _errors_table),
        ("powers", _powers_table),
        ("carry_over", _carry_over_table),
    ):
        if result[rows]:
            console.print(table(result))


def _errors_table(result: dict[str, Any]) -> Table:
    table = Table(
        title=f"claims in {result['fleets']:,} fleets without an effect, a look after each of "
        f"{result['merges']} merges"
    )
    for name in ("world", "gain %", "loss %", "z-test %", "mean gain %"):
        table.add_column(name, justify="left" if name == "world" else "right")
    for name, row in result["errors"].items():
        shares = (f"{100 * row[key]:.2f}" for key in ("gain", "loss", "naive", "mean_gain"))
        table.add_row(name, *shares)
    return table


def _powers_table(result: dict[str, Any]) -> Table:
    table = Table(
        title="claims of a gain, in % of fleets that place by the rule of slack; "
        f"{result['effect']['origin']}"
    )
    looks = [str(n) for n in LOOKS if n <= min(result["merges"], MOST_MERGES)]
    for name in ("traffic, control", "fleets", "harm a merge", "gain %", *looks, "80% at"):
        table.add_column(name, justify="left" if name == "traffic, control" else "right")
    for name, row in result["powers"].items():
        powers = (f"{100 * row['power'][n]:.1f}" for n in looks)
        eighty = str(row["merges_for_80_percent"] or "-")
        gain = f"{100 * row['mean_gain']:.1f}"
        table.add_row(name, str(row["fleets"]), f"{row['harm_a_merge']:.1f}", gain, *powers, eighty)
    return table


def _carry_over_table(result: dict[str, Any]) -> Table:
    table = Table(title="harm a merge, where all intervals are one arm's and where half are")
    table.add_column("traffic")
    for name in ("policy alone", "random alone", "gain %", "policy", "random", "gain %"):
        table.add_column(name, justify="right")
    for regime, row in result["carry_over"].items():
        shown = [100 * v if name.startswith("gain") else v for name, v in row.items()]
        table.add_row(regime, *(f"{value:.1f}" for value in shown))
    return table


if __name__ == "__main__":
    main()
