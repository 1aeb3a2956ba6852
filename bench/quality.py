"""Held-out loss of a model whose learners merged at other moments, with as many merges.

`python -m bench.quality [--seeds 6] [--budget 16] [--jobs 1] [--json FILE] [--picture FILE]`

The reference model on Python's language reference, with the learners' own inner optimiser and
outer step (Nesterov, lr 0.7, momentum 0.9). The learners of a group take turns in one process:
their merge is the plain mean of their pseudo-gradients, which is what learners with equal tokens
get from an all-reduce. All arms of a seed have its first weights and its order of the data.
"""

import argparse
import json
import math
import multiprocessing
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from bench.schedules import H_FIXED, H_MAX, H_MIN, REGIME, STEP_S, Schedule, schedules
from calibration.signflip import interval
from trainer.inner import InnerOptimizer
from trainer.model import CharModel, ModelShape
from trainer.outer import OUTER_LR, OUTER_MOMENTUM, OuterState
from trainer.text import Shard, read_text, windows
from trainer.training import SEQUENCES

LEARNERS = 2
PARAMETERS = 100_000
BASELINE = "fixed_h"
Task = tuple[int, str, Schedule, "Outer"]
DATA_PARALLEL = "data_parallel"


@dataclass(frozen=True, slots=True)
class Outer:
    """The outer optimiser; the momentum is Nesterov's, 0 for none."""

    lr: float
    momentum: float


class Pupil:
    """A model that takes inner steps on the text of one learner, or of several at once.

    Args:
        seed: of the first weights, and with a learner's rank of the order of its data.
        ranks: whose text; with all of them a step is one of data-parallel training, for the mean
            loss over all their sequences has the mean of their gradients.
        outer: how it would merge.
    """

    def __init__(self, seed: int, ranks: range, outer: Outer) -> None:
        torch.manual_seed(seed)
        shape, raw = ModelShape.for_parameters(PARAMETERS), read_text(None)
        self.model = CharModel(shape)
        self.outer = OuterState(*self.model.parameters(), lr=outer.lr, momentum=outer.momentum)
        self._inner = InnerOptimizer(self.model)
        self._length = shape.context + 1
        self._texts = [Shard.cut(raw, rank, LEARNERS) for rank in ranks]
        self._orders = [torch.Generator().manual_seed(seed * 1_000 + rank + 1) for rank in ranks]

    def step(self) -> None:
        batch = [
            windows(text.train, self._starts(text, order), self._length)
            for text, order in zip(self._texts, self._orders, strict=True)
        ]
        self._inner.step(self.model(torch.cat(batch)))

    def _starts(self, text: Shard, order: torch.Generator) -> torch.Tensor:
        return torch.randint(len(text.train) - self._length, (SEQUENCES,), generator=order)

    @torch.no_grad()
    def held_out_loss(self) -> float:
        """Nats a byte over all of the held-out text, cut into sequences."""
        text = self._texts[0].held_out
        starts = torch.arange(0, len(text) - self._length + 1, self._length - 1)
        return float(self.model(windows(text, starts, self._length)))


def data_parallel(seed: int, steps: int, outer: Outer) -> float:
    """Held-out loss when gradients are averaged at every step."""
    pupil = Pupil(seed, range(LEARNERS), outer)
    for _ in range(steps):
        pupil.step()
    return pupil.held_out_loss()


def merged(seed: int, merges: Schedule, outer: Outer) -> float:
    """Held-out loss of the shared weights after the last merge."""
    pupils = [Pupil(seed, range(rank, rank + 1), outer) for rank in range(LEARNERS)]
    done = 0
    for step in merges:
        for pupil in pupils:
            for _ in range(step - done):
                pupil.step()
        mean = torch.stack([pupil.outer.pseudo_gradient() for pupil in pupils]).mean(dim=0)
        for pupil in pupils:
            pupil.outer.apply(mean)
        done = step
    assert len({pupil.outer.digest() for pupil in pupils}) == 1
    return pupils[0].held_out_loss()


def train(task: Task) -> tuple[int, str, float, float]:
    """Seed, arm, held-out loss and CPU seconds of one run; a schedule ends with the last step."""
    torch.set_num_threads(1)
    seed, arm, merges, outer = task
    began = time.process_time()
    if arm == DATA_PARALLEL:
        loss = data_parallel(seed, merges[-1], outer)
    else:
        loss = merged(seed, merges, outer)
    if not math.isfinite(loss):
        msg = f"{arm}, seed {seed}: the held-out loss is {loss}"
        raise ArithmeticError(msg)
    return seed, arm, loss, time.process_time() - began


def bench(seeds: int, budget: int, jobs: int, outer: Outer) -> dict[str, Any]:
    began = time.process_time()
    plans = schedules(seeds, budget)
    cpu_s = time.process_time() - began
    steps = budget * H_FIXED
    tasks = [
        (seed, arm, merges, outer)
        for seed, plan in enumerate(plans)
        for arm, merges in ({DATA_PARALLEL: [steps]} | plan).items()
    ]
    losses: dict[str, list[float]] = {arm: [] for _, arm, _, _ in tasks}
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for seed, arm, loss, spent_s in pool.imap(train, tasks):
            losses[arm].append(loss)
            cpu_s += spent_s
            print(f"seed {seed}  {arm:13}  {loss:.4f}  {spent_s:.0f} s", flush=True)
    return {
        "schema_version": 1,
        "machine": {
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "seeds": list(range(seeds)),
        "learners": LEARNERS,
        "parameters": PARAMETERS,
        "steps": steps,
        "budget": budget,
        "corridor_steps": {"min": H_MIN, "fixed": H_FIXED, "max": H_MAX},
        "outer": asdict(outer),
        "traffic": {"regime": REGIME, "seconds_a_step": STEP_S},
        "text": f"the language reference of Python {platform.python_version()}",
        "cpu_s": cpu_s,
        "arms": {arm: figures(arm, losses, plans) for arm in losses},
    }


def figures(
    arm: str, losses: dict[str, list[float]], plans: list[dict[str, Schedule]]
) -> dict[str, Any]:
    """An arm's losses, and its paired differences from the fixed period with the same seed.

    The interval is the sign-flip test's; None for the baseline itself and under 6 seeds.
    """
    less = [loss - other for loss, other in zip(losses[arm], losses[BASELINE], strict=True)]
    ends = None if arm == BASELINE else interval(less, rng=np.random.default_rng(0))
    many = len(less) > 1
    return {
        "loss": losses[arm],
        "mean": statistics.fmean(losses[arm]),
        "sd": statistics.stdev(losses[arm]) if many else None,
        "less_fixed": less,
        "less_fixed_mean": statistics.fmean(less),
        "less_fixed_interval_95": ends,
        "merges_at": None if arm == DATA_PARALLEL else [plan[arm] for plan in plans],
    }


def show(result: dict[str, Any]) -> None:
    table = Table(
        title=f"{len(result['seeds'])} seeds, {result['learners']} learners, "
        f"{result['steps']} steps, {result['parameters']:,} parameters; nats a byte"
    )
    for column in ("arm", "merges", "largest gap", "held-out loss", "sd", "less fixed", "95 %"):
        table.add_column(column, justify="left" if column == "arm" else "right")
    for arm, found in result["arms"].items():
        plans, ends = found["merges_at"], found["less_fixed_interval_95"]
        table.add_row(
            arm,
            f"{len(plans[0]) if plans else result['steps']}",
            f"{max(int(np.diff(plan, prepend=0).max()) for plan in plans) if plans else 1}",
            f"{found['mean']:.4f}",
            "" if found["sd"] is None else f"{found['sd']:.4f}",
            f"{found['less_fixed_mean']:+.4f}",
            f"{ends[0]:+.4f} to {ends[1]:+.4f}" if ends else "",
        )
    Console().print(table)
    print(f"{result['cpu_s']:.0f} s of CPU")


def main() -> None:
    """Run the study, print a table, write JSON and, where asked, the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6, help="6 or more for an interval")
    parser.add_argument("--budget", type=int, default=16, help="merges, each worth 40 steps")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--outer-lr", type=float, default=OUTER_LR)
    parser.add_argument("--outer-momentum", type=float, default=OUTER_MOMENTUM)
    parser.add_argument("--json", type=Path, default=Path("results/quality.json"))
    parser.add_argument("--picture", type=Path, default=Path("results/quality.png"))
    options = parser.parse_args()
    outer = Outer(options.outer_lr, options.outer_momentum)
    result = bench(options.seeds, options.budget, options.jobs, outer)
    show(result)
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(result, indent=2) + "\n")
    from bench.quality_picture import draw

    draw(result, options.picture)


if __name__ == "__main__":
    main()
