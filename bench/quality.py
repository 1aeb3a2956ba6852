"""Held-out loss of a model whose learners merged at other moments, with as many merges.

`python -m bench.quality [--seeds 8] [--budget 16] [--jobs 1] [--json FILE] [--picture FILE]`

The reference model on Python's language reference, with the learners' own inner optimiser and
outer step (Nesterov, lr 0.7, momentum 0.9). All arms of a seed have its first weights, its order
of the data, as many inner steps and, but for the two that say so, as many merges.
"""

import argparse
import json
import multiprocessing
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from bench.paired import circumstances, figures, shown
from bench.pupil import Outer, data_parallel, merged
from bench.schedules import H_FIXED, H_MAX, H_MIN, REGIME, STEP_S, Schedule, schedules
from trainer.outer import OUTER_LR, OUTER_MOMENTUM

BASELINE = "fixed_h"
DATA_PARALLEL = "data_parallel"
Task = tuple[int, str, Schedule, Outer]


def train(task: Task) -> tuple[int, str, float, float]:
    """Seed, arm, held-out loss and CPU seconds of one run; a schedule ends with the last step."""
    torch.set_num_threads(1)
    seed, arm, merges, outer = task
    began = time.process_time()
    if arm == DATA_PARALLEL:
        loss = data_parallel(seed, merges[-1], outer)
    else:
        loss = merged(seed, merges, outer)
    return seed, arm, loss, time.process_time() - began


def bench(seeds: int, budget: int, jobs: int, outer: Outer) -> Iterator[dict[str, Any]]:
    """The study of the first seed, of the first two, and so on."""
    began = time.process_time()
    plans = schedules(seeds, budget)
    cpu_s = time.process_time() - began
    tasks = [
        (seed, arm, merges, outer)
        for seed, plan in enumerate(plans)
        for arm, merges in ({DATA_PARALLEL: [budget * H_FIXED]} | plan).items()
    ]
    losses: dict[str, list[float]] = {arm: [] for _, arm, _, _ in tasks}
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for seed, arm, loss, spent_s in pool.imap(train, tasks):
            losses[arm].append(loss)
            cpu_s += spent_s
            print(f"seed {seed}  {arm:13}  {loss:.4f}  {spent_s:.0f} s", flush=True)
            if all(len(found) == seed + 1 for found in losses.values()):
                yield study(losses, plans[: seed + 1], outer) | {"cpu_s": cpu_s}


def study(
    losses: dict[str, list[float]], plans: list[dict[str, Schedule]], outer: Outer
) -> dict[str, Any]:
    """All figures, and what made them."""
    budget = len(plans[0][BASELINE])
    return {
        "schema_version": 2,
        **circumstances(),
        "seeds": list(range(len(plans))),
        "steps": budget * H_FIXED,
        "budget": budget,
        "corridor_steps": {"min": H_MIN, "fixed": H_FIXED, "max": H_MAX},
        "outer": asdict(outer),
        "traffic": {"regime": REGIME, "seconds_a_step": STEP_S},
        "baseline": BASELINE,
        "arms": {
            arm: figures(losses, arm, BASELINE)
            | {"merges_at": None if arm == DATA_PARALLEL else [plan[arm] for plan in plans]}
            for arm in losses
        },
    }


def show(result: dict[str, Any]) -> None:
    table = Table(
        title=f"{len(result['seeds'])} seeds, {result['learners']} learners, "
        f"{result['steps']} steps, {result['parameters']:,} parameters; nats a byte"
    )
    for column in ("arm", "merges", "gaps", "held-out loss", "sd", "less fixed_h", "95 %"):
        table.add_column(column, justify="left" if column == "arm" else "right")
    for arm, found in result["arms"].items():
        plans = found["merges_at"]
        merges = len(plans[0]) if plans else result["steps"]
        table.add_row(arm, f"{merges}", gaps(plans) if plans else "1", *shown(found))
    Console(width=110).print(table)
    print(f"{result['cpu_s']:.0f} s of CPU")


def gaps(plans: list[Schedule]) -> str:
    """Least and largest of all seeds."""
    found = np.concatenate([np.diff(plan, prepend=0) for plan in plans])
    least, most = int(found.min()), int(found.max())
    return f"{least}" if least == most else f"{least} to {most}"


def main() -> None:
    """Run the study, print a table, write JSON and the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8, help="6 or more for an interval")
    parser.add_argument("--budget", type=int, default=16, help="merges, each worth 40 steps")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--outer-lr", type=float, default=OUTER_LR)
    parser.add_argument("--outer-momentum", type=float, default=OUTER_MOMENTUM)
    parser.add_argument("--json", type=Path, default=Path("results/quality.json"))
    parser.add_argument("--picture", type=Path, default=Path("results/quality.png"))
    options = parser.parse_args()
    outer = Outer(options.outer_lr, options.outer_momentum)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    # After each seed: a study that is stopped keeps the seeds that ended.
    for result in bench(options.seeds, options.budget, options.jobs, outer):
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    show(result)
    from bench.quality_picture import draw

    draw(result, options.picture)


if __name__ == "__main__":
    main()
