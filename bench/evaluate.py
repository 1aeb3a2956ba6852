"""Seconds to evaluate 12 policies on 5 hours of traffic with 10,000 draws a budget.

`python -m bench.evaluate [--hours 5] [--draws 10000] [--json FILE]`

Aperiodic bursts at the regime's own rate, served unmerged and cut into runs of 600 s. Every
policy with its usual settings, and `slack` again with another: 12 schedules to make and to score
in each run. Compilation is done beforehand on a small run.
"""

import argparse
import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.table import Table

from calibration.contender import Entrant
from calibration.evidence import verdicts
from calibration.experiment import Source, evaluate
from calibration.protocol import Protocol, corridor_of
from calibration.serving import Overlap
from calibration.simulate import CELL_S, corridor_settings
from controller.policies import POLICIES, policy_named
from controller.settings import ControllerSettings
from replay_producer.generators import generate
from slackwater.cli.evaluate_sources import served

RUN_S = 600.0
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "slack, tau 12 s": ("slack", {"stopping_tau_s": 12.0}),
}


def main() -> None:
    """Run the benchmark, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=5.0, help="hours of traffic")
    parser.add_argument("--draws", type=int, default=10_000, help="schedules for each budget")
    parser.add_argument("--json", type=Path, default=Path("results/evaluate.json"))
    options = parser.parse_args()
    protocol = Protocol(
        corridor=corridor_of(RUN_S, 8.0, 18.0, 72.0, CELL_S),
        cell_s=CELL_S,
        model=Overlap(),
        draws=options.draws,
        seed=0,
    )
    bench(protocol, hours=2 * RUN_S / 3600)
    result = bench(protocol, options.hours)
    show(result)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


def bench(protocol: Protocol, hours: float) -> dict[str, Any]:
    began, cpu = time.monotonic(), time.process_time()
    duration_s = hours * 3600
    trace = generate("aperiodic", duration_s, seed=1)
    firsts = range(0, round(duration_s / CELL_S), protocol.corridor.cells)
    source = Source("aperiodic", served(trace, duration_s), tuple(firsts))
    served_s = time.monotonic() - began
    entered = entrants(protocol)
    scored = [one for one in evaluate([source], entered, protocol) if one is not None]
    evaluated_s = time.monotonic() - began
    verdicts(scored, "slack", CELL_S, np.random.default_rng(0))
    return {
        "schema_version": 1,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "hours": hours,
        "requests": len(trace),
        "runs": len(scored),
        "policies": len(entered),
        "draws": protocol.draws,
        "serving_s": served_s,
        "scoring_s": evaluated_s - served_s,
        "verdicts_s": time.monotonic() - began - evaluated_s,
        "total_s": time.monotonic() - began,
        "cpu_s": time.process_time() - cpu,
    }


def entrants(protocol: Protocol) -> list[Entrant]:
    usual = corridor_settings(ControllerSettings(), protocol.corridor)
    entered = [Entrant(name, policy_named(name), usual) for name in POLICIES]
    for name, (policy, changes) in VARIANTS.items():
        settings = msgspec.structs.replace(usual, **changes)
        entered.append(Entrant(name, policy_named(policy), settings))
    return entered


def show(result: dict[str, Any]) -> None:
    table = Table(
        title=f"{result['policies']} policies on {result['hours']:g} h, "
        f"{result['requests']:,} requests, {result['runs']} runs, {result['draws']:,} draws"
    )
    table.add_column("part")
    table.add_column("seconds", justify="right")
    for name in ("serving", "scoring", "verdicts", "total", "cpu"):
        table.add_row(name, f"{result[f'{name}_s']:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
