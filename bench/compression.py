"""Held-out loss and bytes of pseudo-gradients sent as float32, bfloat16 and int8.

    python -m bench.compression --seeds 5

Two learners with real gloo between them train the reference model on Python's language reference;
seeds give other first weights and another order of the data. All else is equal.
"""

import argparse
import statistics
import threading
from datetime import timedelta
from typing import Any, get_args

import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]

from trainer.exchange import Compression, Exchange
from trainer.settings import LearnerSettings
from trainer.text import Shard, read_text
from trainer.training import Training

LEARNERS = 2
PATIENCE = timedelta(seconds=120)


class Wires:
    """The part of a group that an exchange needs, over gloo."""

    size = LEARNERS

    def __init__(self, store: HashStore, rank: int) -> None:
        self._gloo: Any = dist.ProcessGroupGloo(store, rank, LEARNERS, PATIENCE)

    def sum(self, vector: torch.Tensor) -> None:
        """Add up over both."""
        self._gloo.allreduce([vector]).wait()

    def gather(self, vector: torch.Tensor) -> list[torch.Tensor]:
        """Both vectors."""
        found = [torch.empty_like(vector) for _ in range(LEARNERS)]
        self._gloo.allgather([found], [vector]).wait()
        return found


def run(
    compression: Compression, seed: int, parameters: int, merges: int, gap_steps: int
) -> tuple[float, int]:
    """Held-out loss in nats a byte of the shared weights, and bytes a merge of one learner."""
    raw, store = read_text(None), HashStore()
    names = ["a", "b"]
    settings = LearnerSettings(learner="a", participants=names, parameters=parameters, seed=seed)
    # Here, one after the other: first weights are drawn from torch's one generator.
    learners = [Training(settings, Shard.cut(raw, n, LEARNERS), n) for n in range(LEARNERS)]
    sent: list[int] = [0] * LEARNERS

    def train(rank: int) -> None:
        wires: Any = Wires(store, rank)
        training = learners[rank]
        outer, exchange = training.outer, Exchange(compression, training.outer.weights)
        for _ in range(merges):
            for _ in range(gap_steps):
                training.step()
            delta = outer.pseudo_gradient()
            sent[rank] = exchange.mean(delta, outer.spans[0], [0.5, 0.5], rank, wires)
            outer.apply(delta)
            exchange.commit()

    threads = [threading.Thread(target=train, args=(rank,)) for rank in range(LEARNERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert learners[0].outer.digest() == learners[1].outer.digest()
    return learners[0].held_out_loss(), sent[0]


def main() -> None:
    """A line a compression, with the spread over seeds."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--parameters", type=int, default=100_000)
    options.add_argument("--merges", type=int, default=20)
    options.add_argument("--gap-steps", type=int, default=20)
    given = options.parse_args()
    torch.set_num_threads(1)
    print("compression  bytes a merge  loss by seed")
    plain: list[float] = []
    for compression in get_args(Compression):
        found = [
            run(compression, seed, given.parameters, given.merges, given.gap_steps)
            for seed in range(given.seeds)
        ]
        losses = [loss for loss, _ in found]
        plain = plain or losses
        differences = [loss - other for loss, other in zip(losses, plain, strict=True)]
        print(
            f"{compression:11}  {found[0][1]:13}  {' '.join(f'{x:.4f}' for x in losses)}  "
            f"mean {statistics.fmean(losses):.4f} sd over seeds {statistics.stdev(losses):.4f}  "
            f"less float32 {statistics.fmean(differences):+.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
