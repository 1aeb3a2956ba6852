"""How fresh must commands be? What placement spares, by the lead of a command and by burst lengths.

    make bench-lead ARGS="--runs 40 --leads 0.5,1,2,4"

The controller's own policies, run by the live code over aperiodic bursts (a quiet mean of twice the
busy one), decide with what the signals say then; the window opens `lead` seconds later, whatever
came meanwhile. Counted are the requests that arrive in windows, against matched random schedules:
as many merges, drawn uniformly in the same corridor. Intervals (95%) resample runs. Every run
begins without a past, as those of a trial do.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibration.contender import Entrant
from calibration.placement.corridor import Corridor
from calibration.placement.uniform import draw
from calibration.serving import requests_of
from calibration.simulate import Segment, corridor_settings, simulate
from controller.policies import policy_named
from controller.settings import ControllerSettings
from replay_producer.generators import Shape, generate
from slackwater.clock import US_PER_S

CELL_S = 0.3
E2E_S = 0.05
DRAWS = 400
RESAMPLES = 2000

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Scene:
    """One world: how long bursts last, and how old a decision is when its window opens."""

    busy_s: float
    lead_s: float


@dataclass(frozen=True)
class Counted:
    """Requests that arrived in one run's windows, and in those of its control by the mean."""

    merges: int
    own: float
    drawn: float


def main() -> None:
    """Simulate, print, write JSON."""
    options = asked()
    began_s = time.monotonic()
    rows = [
        row
        for busy_s in options.bursts
        for lead_s in options.leads
        for row in measured(Scene(busy_s, lead_s), options)
    ]
    result = {
        "schema_version": 1,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in vars(options).items()},
        "wall_s": time.monotonic() - began_s,
        "rows": rows,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


def asked() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--policies", type=names, default=["slack", "wa_forecast"])
    parser.add_argument("--leads", type=numbers, default=[0.5, 1.0, 2.0, 4.0], help="seconds")
    parser.add_argument("--bursts", type=numbers, default=[3.0, 6.0, 12.0], help="seconds")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--run-s", type=float, default=100.0)
    parser.add_argument("--rate", type=float, default=16.0, help="mean requests a second")
    parser.add_argument("--window-s", type=float, default=2.4)
    parser.add_argument("--min-gap-s", type=float, default=6.0, help="start to start")
    parser.add_argument("--max-gap-s", type=float, default=17.4, help="start to start")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path("results/lead.json"))
    return parser.parse_args()


def names(text: str) -> list[str]:
    """Of policies."""
    return text.split(",")


def numbers(text: str) -> list[float]:
    """Of seconds."""
    return [float(one) for one in text.split(",")]


def measured(scene: Scene, options: argparse.Namespace) -> list[dict[str, Any]]:
    """A row a policy, printed as it is known."""
    corridor = Corridor(
        cells(options.run_s), *map(cells, (options.window_s, options.min_gap_s, options.max_gap_s))
    )
    usual = ControllerSettings.for_windows_of(options.window_s)
    settings = corridor_settings(usual, corridor, CELL_S, scene.lead_s)
    entrants = [Entrant(name, policy_named(name), settings) for name in options.policies]
    counted: dict[str, list[Counted]] = {name: [] for name in options.policies}
    for number in range(options.runs):
        for name, one in one_run(scene, corridor, entrants, options, number).items():
            counted[name].append(one)
    rows = []
    for name, runs in counted.items():
        gain, low, high = gain_of(runs, np.random.default_rng(options.seed))
        row = {
            "policy": name,
            "busy_s": scene.busy_s,
            "quiet_s": 2 * scene.busy_s,
            "lead_s": scene.lead_s,
            "merges": float(np.mean([one.merges for one in runs])),
            "gain": gain,
            "low": low,
            "high": high,
        }
        rows.append(row)
        print(
            f"bursts of {scene.busy_s:4g} s, lead {scene.lead_s:3g} s, {name:<12} "
            f"{row['merges']:5.1f} merges, {gain:6.1%} fewer requests in windows "
            f"[{low:.1%}, {high:.1%}]",
            flush=True,
        )
    return rows


def cells(seconds: float) -> int:
    """Whole cells."""
    return max(1, round(seconds / CELL_S))


def one_run(
    scene: Scene,
    corridor: Corridor,
    entrants: Sequence[Entrant],
    options: argparse.Namespace,
    number: int,
) -> dict[str, Counted]:
    """Every policy on one load, and its control."""
    shape = Shape(quiet_s=2 * scene.busy_s, busy_s=scene.busy_s)
    seed = int(np.random.default_rng([options.seed, number]).integers(1 << 31))
    trace = generate("aperiodic", options.run_s, options.rate, seed, shape)
    arrival_s = trace.arrival_us / US_PER_S
    requests = requests_of(arrival_s, options.run_s, e2e_s=np.full(len(arrival_s), E2E_S))
    (placed,) = simulate(requests, [Segment(0, corridor)], entrants, cell_s=CELL_S)
    rng = np.random.default_rng([options.seed, number, 1])
    found = {}
    for name, merges in placed.items():
        own = np.array([[merge.start_cell for merge in merges]], np.int64)
        drawn = draw(corridor, len(merges), DRAWS, rng)
        found[name] = Counted(
            len(merges),
            float(in_windows(arrival_s, own, options.window_s)[0]),
            float(in_windows(arrival_s, drawn, options.window_s).mean()),
        )
    return found


def in_windows(arrival_s: Floats, starts: NDArray[np.int64], window_s: float) -> Floats:
    """[schedules] how many requests arrive in the windows of each, starts in cells [s, merges]."""
    opens_s = starts * CELL_S
    inside = np.searchsorted(arrival_s, opens_s + window_s) - np.searchsorted(arrival_s, opens_s)
    total: Floats = inside.sum(axis=1).astype(np.float64)
    return total


def gain_of(runs: Sequence[Counted], rng: np.random.Generator) -> tuple[float, float, float]:
    """Share of the control's requests in windows that is spared, with its 95% interval."""
    own, drawn = (np.array([getattr(one, name) for one in runs]) for name in ("own", "drawn"))
    again = rng.integers(0, len(runs), (RESAMPLES, len(runs)))
    shares = 1 - own[again].sum(axis=1) / drawn[again].sum(axis=1)
    low, high = np.quantile(shares, (0.025, 0.975))
    return float(1 - own.sum() / drawn.sum()), float(low), float(high)


if __name__ == "__main__":
    main()
