"""Two learners in plain Python that merge when Slackwater says so: run it twice, with 0 and with 1.

No torch, no numpy: whatever trains and exchanges weights attaches the same way. MASTER_ADDR and
MASTER_PORT say where the two meet; docs/attach.md goes through it step by step.
"""

import argparse
import hashlib
import json
import os
import random
import socket
import time
from typing import Any

from slackwater.attach import Attachment, Corridor, MergeOrder
from slackwater.clock import RunClock
from slackwater.settings import RunSettings

LEARNERS = ["learner-0", "learner-1"]
BATCH = 8
INPUTS = 32
INNER_LR = 0.002
OUTER_LR = 0.7
PATIENCE_S = 60.0


class Learner:
    """Linear regression by SGD: own weights, and those that the group shares."""

    def __init__(self, rank: int) -> None:
        self.truth = [(-1) ** i / (1 + i) for i in range(INPUTS)]
        self.data = random.Random(rank)
        self.weights = [0.0] * INPUTS
        self.shared = list(self.weights)

    def step(self) -> float:
        """One inner step, alone; returns its mean squared error."""
        loss = 0.0
        for _ in range(BATCH):
            x = [self.data.gauss(0, 1) for _ in range(INPUTS)]
            error = dot(self.weights, x) - dot(self.truth, x) - self.data.gauss(0, 0.1)
            self.weights = [
                w - INNER_LR * error * xi for w, xi in zip(self.weights, x, strict=True)
            ]
            loss += error * error / BATCH
        return loss

    def pseudo_gradient(self) -> list[float]:
        """Where the learner started minus where it arrived."""
        return [s - w for s, w in zip(self.shared, self.weights, strict=True)]

    def outer_step(self, mean: list[float]) -> None:
        """The same on all learners; they go on from the shared weights."""
        self.shared = [s - OUTER_LR * m for s, m in zip(self.shared, mean, strict=True)]
        self.weights = list(self.shared)

    def digest(self) -> str:
        """Equal on all learners that hold the same shared weights."""
        return hashlib.blake2b(json.dumps(self.shared).encode(), digest_size=8).hexdigest()


def dot(a: list[float], b: list[float]) -> float:
    """Inner product."""
    return sum(x * y for x, y in zip(a, b, strict=True))


class Peer:
    """The other learner, at the end of a socket; messages are lines of JSON."""

    def __init__(self, rank: int) -> None:
        address = os.environ.get("MASTER_ADDR", "127.0.0.1")
        self._socket = meet(rank, (address, int(os.environ.get("MASTER_PORT", "29500"))))
        self._socket.settimeout(PATIENCE_S)
        self._lines = self._socket.makefile("rwb")

    def swap(self, message: Any) -> Any:
        """Send, and return what the other one sends."""
        self._lines.write(json.dumps(message).encode() + b"\n")
        self._lines.flush()
        line = self._lines.readline()
        if not line:
            msg = "the other learner is gone"
            raise ConnectionError(msg)
        return json.loads(line)


def meet(rank: int, address: tuple[str, int]) -> socket.socket:
    """Rank 0 listens, rank 1 calls until it does."""
    if rank == 0:
        with socket.create_server(address) as server:
            server.settimeout(PATIENCE_S)
            return server.accept()[0]
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection(address, PATIENCE_S)
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def carry_out(
    order: MergeOrder, learner: Learner, peer: Peer, attachment: Attachment, clock: RunClock
) -> None:
    """What a trainer does with an order: agree, exchange, step, report."""
    if peer.swap(order.meeting) != order.meeting:
        attachment.skipped(order, "other_merge: the peer came for another one")
        return
    attachment.started(order)
    began_us = clock.now_us()
    delta = learner.pseudo_gradient()
    mean = [(a + b) / 2 for a, b in zip(delta, peer.swap(delta), strict=True)]
    learner.outer_step(mean)
    seconds = (clock.now_us() - began_us) / 1e6  # A checkpoint belongs before this line.
    digest = learner.digest()
    attachment.finished(order, seconds=seconds, bytes_exchanged=8 * INPUTS, digest=digest)
    print(f"step {order.step}: {order.merge_id}, {order.reason}, weights {digest}", flush=True)


def main() -> None:
    """Train; eight lines of it are the attachment."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("rank", type=int, choices=range(len(LEARNERS)))
    options.add_argument("--steps", type=int, default=3000, help="inner steps, equal for both")
    options.add_argument("--step-s", type=float, default=0.02, help="pause of each step, seconds")
    given = options.parse_args()

    settings, clock = RunSettings.from_env(), RunClock.from_env()
    learner, peer, name = Learner(given.rank), Peer(given.rank), LEARNERS[given.rank]
    with Attachment(settings, name, LEARNERS, Corridor(128, 512), clock) as attachment:
        for step in range(1, given.steps + 1):
            loss = learner.step()
            time.sleep(given.step_s)  # Stands for a model that is worth its accelerator.
            order = attachment.on_step(step, loss, tokens=BATCH)
            if order is not None:
                carry_out(order, learner, peer, attachment, clock)
    print(f"{name}: loss {loss:.4f}, {attachment.summary()}", flush=True)


if __name__ == "__main__":
    main()
