"""Two small torch learners that merge when Slackwater says so: run it twice, with 0 and with 1.

docs/attach.md goes through it step by step. MASTER_ADDR and MASTER_PORT say where the two meet.
"""

import argparse
import hashlib
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from slackwater.attach import Attachment, Corridor, MergeOrder
from slackwater.clock import RunClock
from slackwater.settings import RunSettings

LEARNERS = ["learner-0", "learner-1"]
BATCH = 32
INPUTS = 64


class Learner:
    """A regression trained by inner SGD, and the weights that the group shares."""

    def __init__(self, rank: int) -> None:
        torch.set_num_threads(1)  # For so small a model more of them only wait for each other.
        torch.manual_seed(0)  # The same first weights everywhere; the data differ by rank.
        self.model = torch.nn.Sequential(
            torch.nn.Linear(INPUTS, 128), torch.nn.Tanh(), torch.nn.Linear(128, 1)
        )
        self.truth = torch.randn(INPUTS, 1) / INPUTS**0.5
        self.data = torch.Generator().manual_seed(rank + 1)
        self.inner = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.shared = parameters_to_vector(self.model.parameters()).detach()
        self.outer = torch.optim.SGD([self.shared], lr=0.7, momentum=0.9, nesterov=True)

    def step(self) -> float:
        """One inner step, alone; returns its loss."""
        x = torch.randn(BATCH, INPUTS, generator=self.data)
        loss = torch.nn.functional.mse_loss(self.model(x), torch.sin(3 * x @ self.truth))
        self.inner.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.inner.step()
        return loss.item()

    def merge(self) -> int:
        """Mean of all pseudo-gradients, then the same outer step everywhere; returns bytes sent."""
        local = parameters_to_vector(self.model.parameters()).detach()
        delta = self.shared - local
        dist.all_reduce(delta)
        self.shared.grad = delta / len(LEARNERS)
        self.outer.step()
        vector_to_parameters(self.shared.clone(), self.model.parameters())
        return delta.numel() * delta.element_size()

    def digest(self) -> str:
        """Equal on all learners that hold the same shared weights."""
        return hashlib.blake2b(self.shared.numpy().tobytes(), digest_size=8).hexdigest()


def all_came(order: MergeOrder) -> bool:
    """Wait until the others are there too; True when all of them came for this merge."""
    there: list[str | None] = [None] * len(LEARNERS)
    dist.all_gather_object(there, order.meeting)
    return len(set(there)) == 1


def carry_out(order: MergeOrder, learner: Learner, attachment: Attachment, clock: RunClock) -> None:
    """What a trainer does with an order: agree, exchange, step, report."""
    if not all_came(order):
        attachment.skipped(order, "other_merge: a peer came for another one")
        return
    attachment.started(order)
    began_us = clock.now_us()
    sent = learner.merge()
    seconds = (clock.now_us() - began_us) / 1e6  # A checkpoint belongs before this line.
    digest = learner.digest()
    attachment.finished(order, seconds=seconds, bytes_exchanged=sent, digest=digest)
    print(f"step {order.step}: {order.merge_id}, {order.reason}, weights {digest}", flush=True)


def main() -> None:
    """Train; eight lines of it are the attachment."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rank", type=int, choices=range(len(LEARNERS)))
    options.add_argument("--steps", type=int, default=3000, help="inner steps, equal for both")
    options.add_argument("--step-s", type=float, default=0.02, help="pause of each step, seconds")
    given = options.parse_args()

    settings, clock = RunSettings.from_env(), RunClock.from_env()
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    dist.init_process_group(
        "gloo", rank=given.rank, world_size=len(LEARNERS), timeout=timedelta(seconds=60)
    )
    learner, name = Learner(given.rank), LEARNERS[given.rank]
    with Attachment(settings, name, LEARNERS, Corridor(128, 512), clock) as attachment:
        for step in range(1, given.steps + 1):
            loss = learner.step()
            time.sleep(given.step_s)  # Stands for a model that is worth its accelerator.
            order = attachment.on_step(step, loss, tokens=BATCH)
            if order is not None:
                carry_out(order, learner, attachment, clock)
    print(f"{name}: loss {loss:.4f}, {attachment.summary()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
