"""Held-out loss, and bytes on the wire, of pseudo-gradients sent as float32, bfloat16 and int8.

`python -m bench.compression [--seeds 8] [--learners 2] [--jobs 1] [--json FILE]`

Learners with real gloo over TCP between them train the reference model on Python's language
reference, merged at a fixed period. All arms of a seed have its first weights and its order of the
data, and differ in what a merge sends alone.
"""

import argparse
import json
import multiprocessing
import statistics
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from rich.table import Table
from torch.distributed import HashStore  # type: ignore[attr-defined]

from bench.paired import circumstances, figures, shown
from bench.pupil import LEARNERS, Outer, Pupil
from bench.schedules import H_FIXED
from bench.wire_bytes import sent_bytes
from trainer.exchange import Compression, Exchange

BASELINE = "float32"
# What is sent, and whether what int8 could not say is said next time.
ARMS: dict[str, tuple[Compression, bool]] = {
    BASELINE: ("none", False),
    "bf16": ("bf16", False),
    "int8": ("int8", True),
    "int8, no feedback": ("int8", False),
}
PATIENCE = timedelta(seconds=120)
Task = tuple[int, str, int, int, int]


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one training; bytes are those of a learner and merge.

    Attributes:
        loss: held out, of the shared weights after the last merge, nats a byte.
        put_bytes: given to the exchange.
        wire_bytes: sent by TCP.
    """

    loss: float
    put_bytes: float
    wire_bytes: float


class Wires:
    """The part of a group that an exchange needs, over gloo."""

    def __init__(self, store: HashStore, rank: int, learners: int) -> None:
        self.size = learners
        self._gloo: Any = dist.ProcessGroupGloo(store, rank, learners, PATIENCE)

    def sum(self, vector: torch.Tensor) -> None:
        """Add up over all."""
        self._gloo.allreduce([vector]).wait()

    def gather(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """The vectors of all, by rank."""
        found = [torch.empty_like(vector) for _ in range(self.size)]
        self._gloo.allgather([found], [vector]).wait()
        return found


def learn(pupil: Pupil, rank: int, wires: Any, arm: str, merges: int, gap_steps: int) -> int:
    """Train one learner; returns the bytes it put into all its exchanges."""
    compression, feedback = ARMS[arm]
    exchange, shares = Exchange(compression, pupil.outer.weights), [1 / wires.size] * wires.size
    put = 0
    for _ in range(merges):
        for _ in range(gap_steps):
            pupil.step()
        delta = pupil.outer.pseudo_gradient()
        put += exchange.mean(delta, pupil.outer.spans[0], shares, rank, wires)
        pupil.outer.apply(delta)
        if feedback:
            # Without it what was not said is forgotten, not kept for the next merge.
            exchange.commit()
    return put


def run(task: Task) -> Run:
    """Train a group; the task is seed, arm, learners, merges and inner steps between them."""
    torch.set_num_threads(1)
    seed, arm, learners, merges, gap_steps = task
    store = HashStore()
    # Here, one after the other: first weights are drawn from torch's one generator.
    pupils = [Pupil(seed, range(n, n + 1), Outer(), learners) for n in range(learners)]
    with ThreadPoolExecutor(learners) as threads:
        wires = list(threads.map(lambda rank: Wires(store, rank, learners), range(learners)))
        before = sent_bytes()
        put = threads.map(
            lambda rank: learn(pupils[rank], rank, wires[rank], arm, merges, gap_steps),
            range(learners),
        )
        all_put, sent = sum(put), sent_bytes() - before
    assert len({pupil.outer.digest() for pupil in pupils}) == 1
    a_merge = learners * merges
    return Run(pupils[0].held_out_loss(), all_put / a_merge, sent / a_merge)


def bench(
    seeds: int, learners: int, merges: int, gap_steps: int, jobs: int
) -> Iterator[dict[str, Any]]:
    """The study of the first seed, of the first two, and so on."""
    tasks = [(seed, arm, learners, merges, gap_steps) for seed in range(seeds) for arm in ARMS]
    found: dict[str, list[Run]] = {arm: [] for arm in ARMS}
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        for (seed, arm, *_), made in zip(tasks, pool.imap(run, tasks), strict=True):
            found[arm].append(made)
            print(f"seed {seed}  {arm:17}  {made.loss:.4f}", flush=True)
            if all(len(runs) == seed + 1 for runs in found.values()):
                given = {"learners": learners, "merges": merges, "gap_steps": gap_steps}
                yield study(found) | given


def study(found: dict[str, list[Run]]) -> dict[str, Any]:
    """All figures, and what made them; bytes are means over seeds."""
    losses = {arm: [made.loss for made in runs] for arm, runs in found.items()}
    return {
        "schema_version": 1,
        **circumstances(),
        "seeds": list(range(len(losses[BASELINE]))),
        "baseline": BASELINE,
        "arms": {
            arm: figures(losses, arm, BASELINE)
            | {
                "put_bytes": statistics.fmean(made.put_bytes for made in runs),
                "wire_bytes": statistics.fmean(made.wire_bytes for made in runs),
            }
            for arm, runs in found.items()
        },
    }


def show(result: dict[str, Any]) -> None:
    table = Table(
        title=f"{len(result['seeds'])} seeds, {result['learners']} learners, {result['merges']} "
        f"merges of {result['gap_steps']} steps; bytes a merge and learner, nats a byte"
    )
    columns = (
        "arm",
        "bytes put in",
        "sent by TCP",
        "of float32",
        "loss",
        "sd",
        "less float32",
        "95 %",
    )
    for column in columns:
        table.add_column(column, justify="left" if column == "arm" else "right")
    most = result["arms"][BASELINE]["wire_bytes"]
    for arm, found in result["arms"].items():
        sent = found["wire_bytes"]
        table.add_row(
            arm, f"{found['put_bytes']:,.0f}", f"{sent:,.0f}", f"{sent / most:.3f}", *shown(found)
        )
    Console(width=120).print(table)


def main() -> None:
    """Run the study, print a table, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8, help="6 or more for an interval")
    parser.add_argument("--learners", type=int, default=LEARNERS)
    parser.add_argument("--merges", type=int, default=16)
    parser.add_argument("--gap-steps", type=int, default=H_FIXED)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--json", type=Path, default=Path("results/compression.json"))
    given = parser.parse_args()
    given.json.parent.mkdir(parents=True, exist_ok=True)
    # After each seed: a study that is stopped keeps the seeds that ended.
    for result in bench(given.seeds, given.learners, given.merges, given.gap_steps, given.jobs):
        given.json.write_text(json.dumps(result, indent=2) + "\n")
    show(result)


if __name__ == "__main__":
    main()
