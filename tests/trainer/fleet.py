"""A group of real learner processes without a broker, that can be killed and started again.

They are forked from a process that has imported torch already: starting one takes no seconds.
"""

import logging
import multiprocessing
import os
import re
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import torch

from slackwater.attach import Attachment, Corridor
from slackwater.broker import free_port
from slackwater.clock import RunClock
from slackwater.settings import RunSettings
from trainer.diloco import DiLoCo
from trainer.join import Place
from trainer.meeting import serve
from trainer.peers import Peers
from trainer.run import run_learner
from trainer.settings import LearnerSettings

PATIENCE_S = 90.0
MERGED = re.compile(r"merge (\d+), \S+ at step \d+: .* (\d+) learners, weights (\w+)")
REFUSED = re.compile(r"no merge after ([\d.]+) s: (.*)")
START = multiprocessing.get_context("forkserver")
START.set_forkserver_preload(["trainer.run", "torch.optim", "torch._dynamo"])
# torch says more about a peer that is gone than a log has room for.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def run_meeting(log: Path, port: int) -> None:
    """A meeting place, until it is killed."""
    _log_to(log)
    store = serve("127.0.0.1", port)
    log.with_suffix(".ready").touch()
    while store.port:
        signal.pause()


def run_one(log: Path, name: str, names: list[str], port: int, timeout_s: float) -> None:
    """A learner, until it is killed."""
    _log_to(log)
    settings = LearnerSettings(
        learner=name,
        participants=names,
        parameters=1_000_000,
        step_s=0.005,
        min_gap_steps=10,
        max_gap_steps=40,
        peer_timeout_s=timeout_s,
    )
    run_learner(
        settings,
        RunSettings(bootstrap="127.0.0.1:9"),
        RunClock.real(),
        Place(names.index(name), len(names), ("127.0.0.1", port), hosted=True),
        stopping=lambda: False,
        ready=lambda: None,
    )


def run_loop(log: Path, name: str, names: list[str], port: int, timeout_s: float) -> None:
    """A training loop of one's own inside `DiLoCo`, until it is killed."""
    _log_to(log)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    rank, data = names.index(name), torch.Generator().manual_seed(os.getpid())
    attachment = Attachment(
        RunSettings(bootstrap="127.0.0.1:9"), name, names, Corridor(10, 40), RunClock.real()
    )
    place = Place(rank, len(names), ("127.0.0.1", port), hosted=True)
    peers = Peers(names, place, quorum=2, timeout_s=timeout_s)
    with attachment, DiLoCo(model, optimizer, attachment, peers, compression="int8") as diloco:
        while True:
            loss = model(torch.randn(4, 8, generator=data)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            diloco.report(loss=loss, tokens=4)
            optimizer.step()
            time.sleep(0.005)  # Stands for a model that takes longer.


def _log_to(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    os.dup2(descriptor, sys.stderr.fileno())
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True)


@dataclass(frozen=True)
class Merged:
    epoch: int
    learners: int
    digest: str


class Fleet:
    """Learners and their meeting place; each process's log is a file of its own."""

    def __init__(
        self,
        folder: Path,
        learners: int,
        timeout_s: float,
        work: Callable[..., None] = run_one,
    ) -> None:
        self.folder = folder
        self.work = work
        self.names = [f"learner-{rank}" for rank in range(learners)]
        self.timeout_s = timeout_s
        self.port = free_port()
        self.logs: dict[str, list[Path]] = defaultdict(list)
        self.running: dict[str, ForkServerProcess] = {}

    def start_meeting(self) -> None:
        log = self._start("meeting", run_meeting, self.port)
        self.until(log.with_suffix(".ready").exists)

    def start(self, name: str) -> None:
        self._start(name, self.work, name, self.names, self.port, self.timeout_s)

    def kill(self, name: str) -> None:
        process = self.running.pop(name)
        process.kill()
        process.join()

    def end(self) -> None:
        for name in list(self.running):
            self.kill(name)

    def text(self, name: str) -> str:
        """The log of this learner's latest process."""
        return self.logs[name][-1].read_text()

    def merged(self, name: str) -> list[Merged]:
        """Merges of this learner's latest process."""
        found = MERGED.findall(self.text(name))
        return [Merged(int(epoch), int(count), digest) for epoch, count, digest in found]

    def full_merge(self) -> int | None:
        """The newest epoch that all learners' latest processes have merged into together."""
        everybody = [{m.epoch for m in self.merged(n) if m.learners == 3} for n in self.names]
        common = set.intersection(*everybody)
        return max(common, default=None)

    def all_digests(self) -> dict[int, set[str]]:
        """Epoch -> digests that any process ever reported for it."""
        found: dict[int, set[str]] = defaultdict(set)
        for path in (path for paths in self.logs.values() for path in paths):
            for epoch, _, digest in MERGED.findall(path.read_text()):
                found[int(epoch)].add(digest)
        return found

    def refusals(self) -> list[tuple[float, str]]:
        """Seconds waited in vain, and why, of all processes."""
        paths = (path for paths in self.logs.values() for path in paths)
        found = (pair for path in paths for pair in REFUSED.findall(path.read_text()))
        return [(float(seconds), why) for seconds, why in found]

    def until(self, what: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            for name, process in self.running.items():
                assert process.is_alive(), f"{name} ended: {self.text(name)[-2000:]}"
            assert time.monotonic() < deadline, {n: self.text(n)[-1500:] for n in self.names}
            time.sleep(0.002)

    def _start(self, name: str, work: Callable[..., None], *about: object) -> Path:
        log = self.folder / f"{name}-{len(self.logs[name])}.log"
        log.touch()
        self.logs[name].append(log)
        self.running[name] = START.Process(target=work, args=(log, *about), daemon=True)
        self.running[name].start()
        return log
