"""Placement: exact draws, optimum and moments for 600 s and for a day, beside slower peers.

`python -m bench.placement [--json FILE]`

Two grids of half-second cells, windows of 8 s, gaps of 18 to 72 s: 600 s with 12 merges, and 24 h
with a million requests and 2,400 merges; 10,000 draws each. Peers, on the same grids: a naive loop
(each draw's cost by walking over all requests, the optimum by a table of budget times cells times
gaps in plain Python), and the rejection sampler as the paper describes it (as many starts as the
budget, anywhere in the run, again until all gaps fit the corridor). Peers that would take too long
are timed on a part and scaled by the size of the whole. The chance that rejection accepts is
exact: feasible schedules over all choices of that many starts.
"""

import argparse
import json
import math
import multiprocessing
import os
import platform
import random
import resource
import time
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from calibration.placement import Grid

DRAWS = 10_000
CORRIDOR = (16, 36, 144)
CASES = {
    "600 s": {"cells": 1200, "budget": 12, "requests": 7_000, "repeats": 20},
    "24 h": {"cells": 172_800, "budget": 2400, "requests": 1_000_000, "repeats": 3},
}
LIMITS_S = {"600 s": {"draw": 0.020, "optimum": 0.001}, "24 h": {"draw": 5.0, "optimum": 2.0}}
PEER_S = 3.0


def main() -> None:
    """Run the benchmark, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, default=Path("results/placement.json"))
    options = parser.parse_args()
    result = bench()
    show(result)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")


def bench() -> dict[str, Any]:
    return {
        "schema_version": 1,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "draws": DRAWS,
        "corridor_cells": dict(zip(("window", "min_gap", "max_gap"), CORRIDOR, strict=True)),
        "cases": {name: case(name) for name in CASES},
    }


def case(name: str) -> dict[str, Any]:
    cells, budget, requests, repeats = CASES[name].values()
    ours = in_own_process(measure_ours, cells, budget, requests, repeats)
    peers = in_own_process(measure_peers, cells, budget, requests)
    rejection = peers["rejection_draw_s"]
    ratios = {
        "naive_costs_over_our_draws_and_costs": peers["naive_costs_s"]
        / (ours["draw_s"] + ours["costs_s"]),
        "naive_optimum_over_ours": peers["naive_optimum_s"] / ours["optimum_s"],
        "rejection_over_our_draws": None if rejection is None else rejection / ours["draw_s"],
    }
    return {
        **CASES[name],
        "limits_s": LIMITS_S[name],
        "ours": ours,
        "peers": peers,
        "ratios": ratios,
    }


def in_own_process(function: Callable[..., dict[str, Any]], *args: int) -> dict[str, Any]:
    """So that the peak memory is that of the work itself."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, args)


def make_grid(cells: int, requests: int) -> tuple[Grid, np.ndarray[Any, Any]]:
    """Requests at random with a rate that swings by a factor of nine, and the grid of them."""
    rng = np.random.default_rng(1)
    rate = 5 + 4 * np.sin(np.arange(cells) / 40)
    counts = rng.multinomial(requests, rate / rate.sum())
    return Grid(counts, *CORRIDOR), counts


def measure_ours(cells: int, budget: int, requests: int, repeats: int) -> dict[str, Any]:
    grid, _ = make_grid(cells, requests)
    small, rng = Grid(np.ones(200), *CORRIDOR), np.random.default_rng(2)
    began = time.perf_counter()
    for call in (small.optimum, small.moments, lambda k: small.draw(k, 10, rng)):
        call(2)
    figures: dict[str, Any] = {"compile_or_load_s": time.perf_counter() - began}
    before = peak_bytes()
    figures["draw_s"] = best(lambda: grid.draw(budget, DRAWS, rng), repeats)
    figures["peak_bytes"], figures["peak_above_start_bytes"] = peak_bytes(), peak_bytes() - before
    starts = grid.draw(budget, DRAWS, rng)
    assert grid.feasible(starts).all()
    figures["optimum_s"] = best(lambda: grid.optimum(budget), repeats)
    figures["greedy_s"] = best(lambda: grid.greedy(budget), repeats)
    figures["moments_s"] = best(lambda: grid.moments(budget), repeats)
    figures["costs_s"] = best(lambda: grid.costs(starts), repeats)
    figures["count_s"] = best(lambda: grid.count(budget), repeats)
    mean, variance = grid.moments(budget)
    figures |= {"mean": mean, "sd": variance**0.5, "drawn_mean": float(grid.costs(starts).mean())}
    figures |= {"optimum": grid.optimum(budget)[0], "greedy": grid.greedy(budget)[0]}
    return figures


def measure_peers(cells: int, budget: int, requests: int) -> dict[str, Any]:
    grid, counts = make_grid(cells, requests)
    starts = grid.draw(budget, 64, np.random.default_rng(3)).tolist()
    arrivals = np.repeat(np.arange(cells), counts).tolist()
    schedules = grid.count(budget)
    chance = log10(schedules) - log10(math.comb(grid.last_start + 1, budget))
    return {
        "naive_costs_s": scaled(lambda i: naive_cost(arrivals, starts[i % 64]), DRAWS),
        "naive_optimum_s": naive_optimum_s(grid, budget),
        "rejection_draw_s": rejection_s(grid, budget),
        "rejection_accepts_log10": chance,
        "schedules_log10": log10(schedules),
    }


def naive_cost(arrivals: list[int], starts: list[int]) -> int:
    """Each request in turn: does it arrive in the last window that began before it?"""
    harmed = 0
    for cell in arrivals:
        place = bisect_left(starts, cell + 1)
        harmed += place > 0 and cell < starts[place - 1] + CORRIDOR[0]
    return harmed


def naive_optimum_s(grid: Grid, budget: int) -> float:
    """The textbook table, layer by layer until the time is up, scaled to all its layers."""
    low, high = CORRIDOR[1:]
    costs, cells = grid.costs_per_start.tolist(), grid.corridor.cells
    value = [0 if cells - i <= high else math.inf for i in range(len(costs))]
    began, done = time.perf_counter(), 0
    while done < budget:
        for i in range(len(costs)):
            reach = range(i + low, min(i + high + 1, len(costs)))
            value[i] = min((costs[j] + value[j] for j in reach), default=math.inf)
            if time.perf_counter() - began > PEER_S:
                return PEER_S * budget * len(costs) / (done * len(costs) + i + 1)
        done += 1
    assert value[0] == grid.optimum(budget)[0]
    return time.perf_counter() - began


def rejection_s(grid: Grid, budget: int) -> float | None:
    """Seconds for all draws by rejection, from those accepted in a while; None if none was."""
    rng, accepted = random.Random(4), 0
    (low, high), cells = CORRIDOR[1:], grid.corridor.cells
    began = time.perf_counter()
    while (spent := time.perf_counter() - began) < PEER_S:
        starts = sorted(rng.sample(range(grid.last_start + 1), budget))
        gaps = [b - a for a, b in zip([0, *starts], starts, strict=False)]
        accepted += low <= min(gaps) and max(gaps) <= high and cells - starts[-1] <= high
    return spent * DRAWS / accepted if accepted else None


def scaled(call: Callable[[int], object], times: int) -> float:
    """Seconds for so many calls, from as many as fit into a while (at least one)."""
    began, done = time.perf_counter(), 0
    while done == 0 or (time.perf_counter() - began < PEER_S and done < times):
        call(done)
        done += 1
    return (time.perf_counter() - began) * times / done


def best(call: Callable[[], object], repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def log10(number: int) -> float:
    """Of integers too large for a float."""
    digits = max(number.bit_length() - 1000, 0)
    return math.log10(number >> digits) + digits * math.log10(2)


def show(result: dict[str, Any]) -> None:
    for name, found in result["cases"].items():
        ours, peers, limits = found["ours"], found["peers"], found["limits_s"]
        table = Table(
            title=f"{name}, {found['budget']:,} merges, {found['requests']:,} requests, "
            f"{result['draws']:,} draws"
        )
        for column in ("figure", "ours", "limit", "naive loop", "rejection"):
            table.add_column(column, justify="left" if column == "figure" else "right")
        table.add_row(
            "uniform draws",
            *(seconds(ours["draw_s"]), seconds(limits["draw"]), ""),
            seconds(peers["rejection_draw_s"]),
        )
        table.add_row("their costs", seconds(ours["costs_s"]), "", seconds(peers["naive_costs_s"]))
        table.add_row(
            "optimum",
            *(seconds(ours["optimum_s"]), seconds(limits["optimum"])),
            seconds(peers["naive_optimum_s"]),
        )
        for figure in ("greedy", "moments", "count"):
            table.add_row(figure, seconds(ours[f"{figure}_s"]))
        table.add_row("peak memory", f"{ours['peak_bytes'] / 1e9:.2f} GB")
        table.add_row("schedules", f"10^{peers['schedules_log10']:.0f}")
        chance = f"one in 10^{-peers['rejection_accepts_log10']:.0f}"
        table.add_row("tries accepted", *("", "", ""), chance)
        table.add_row("cost of the optimum", f"{ours['optimum']:,}")
        table.add_row("of the greedy selection", f"{ours['greedy']:,}")
        table.add_row("of matched random", f"{ours['mean']:,.1f}")
        Console().print(table)


def seconds(value: float | None) -> str:
    if value is None:
        return "never"
    return f"{value * 1e3:,.2f} ms" if value < 1 else f"{value:,.1f} s"


if __name__ == "__main__":
    main()
