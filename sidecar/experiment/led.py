"""Our own learners, two processes or more of `trainer.ondemand`, led merge by merge."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

import msgspec

from calibration.effect.observed import ARMS, Arm
from sidecar.experiment.merging import Check, MergeError
from sidecar.experiment.record import Merge
from sidecar.load import Anchor
from slackwater.broker import free_port
from slackwater.errors import InputError
from slackwater.leash import leashed
from slackwater.testbed.parts import describe_exit

START_S = 180.0
MERGE_S = 180.0
END_S = 10.0
LOOK_AGAIN_S = 0.1
THROTTLED_S = 1.0
"""Slept after each inner step: it stands for an accelerator of the learner's own.

Steps of 6 ms each 0.15 s, by four learners, raised the median of a fast server's requests of 26 ms
by more than a third: merges were then compared with a harm that an accelerator does not do.
"""


class Learners(msgspec.Struct, frozen=True, kw_only=True):
    """What the learners are like.

    Attributes:
        number: how many merge together.
        parameters: of each one's model.
        effect_free: at the lowest priority, merges too, and at full speed: what they take they take
            from nobody, and a merge should change nothing.
        seed: of their weights and data.
    """

    number: int = 4
    parameters: int = 16_000_000
    effect_free: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= self.number <= 64:
            msg = f"--learners is {self.number}; a merge takes 2 or more, 64 at most"
            raise InputError(msg)

    @property
    def name(self) -> str:
        """For people."""
        how = "nice 19, full speed" if self.effect_free else f"{THROTTLED_S:g} s between steps"
        return f"{self.number} learners of {self.parameters:,} parameters, {how}"


class LedLearners:
    """The learners' processes; see `Merging`. Start it from the thread that lives longest.

    Their logs and checkpoints go to `folder`, which outlives them.
    """

    def __init__(self, learners: Learners, anchor: Anchor, folder: Path) -> None:
        self.arms: tuple[Arm, ...] = ARMS
        self.name = learners.name
        self._learners = learners
        self._anchor = anchor
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._said: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()

    def start(self, check: Check) -> None:
        """Start them and wait until they have met; raises `MergeError`."""
        port = free_port()
        for rank in range(self._learners.number):
            self._processes.append(self._begin(rank, port))
        self._wait("ready", START_S, check)

    def train(self, check: Check) -> None:
        """Inner steps from now on."""
        self._tell({"do": "train"})
        self._wait("train", MERGE_S, check)

    def rest(self, check: Check) -> None:
        """No more steps from now on; the one under way is finished first."""
        self._tell({"do": "rest"})
        self._wait("rest", MERGE_S, check)

    def merge(self, name: str, check: Check) -> Merge:
        """One merge: real all-reduce, outer step and synced checkpoint of every learner."""
        asked_us = self._anchor.now_us()
        self._tell({"do": "merge", "id": name})
        starts, ends = [], []
        detail: dict[str, Any] = {}
        left = set(range(len(self._processes)))
        until_s = time.monotonic() + MERGE_S
        while left:
            rank, event = self._next(until_s, f"the end of merge {name}", check)
            at_us = self._anchor.at(event["at_ns"])
            if event["event"] == "started":
                starts.append(at_us)
            elif event["event"] == "finished":
                ends.append(at_us)
                left.discard(rank)
                detail = {k: v for k, v in event.items() if k not in {"event", "at_ns", "id"}}
            elif event["event"] == "skipped":
                left.discard(rank)
                detail = {"reason": event["reason"]}
        if len(ends) < len(self._processes):
            return Merge(
                id=name,
                start_us=min(starts, default=asked_us),
                end_us=self._anchor.now_us(),
                done=False,
                reason=str(detail.get("reason", "a learner did not finish it")),
            )
        detail["asked_us"] = asked_us
        return Merge(id=name, start_us=min(starts), end_us=max(ends), detail=detail)

    def stop(self) -> None:
        """Let them leave, and end those that do not."""
        for process in self._processes:
            with contextlib.suppress(BrokenPipeError):
                _pipe(process.stdin).close()
        until_s = time.monotonic() + END_S
        for process in self._processes:
            try:
                process.wait(max(0.1, until_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _pipe(process.stdout).close()
        self._processes = []

    def _begin(self, rank: int, port: int) -> "subprocess.Popen[bytes]":
        told = {
            "rank": rank,
            "learners": self._learners.number,
            "port": port,
            "folder": str(self._folder),
            "parameters": self._learners.parameters,
            "pause_s": 0.0 if self._learners.effect_free else THROTTLED_S,
            "nice": 19 if self._learners.effect_free else 0,
            "seed": self._learners.seed,
        }
        with (self._folder / f"learner-{rank}.log").open("wb") as log:
            process = subprocess.Popen(
                leashed([sys.executable, "-m", "trainer.ondemand", json.dumps(told)]),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        reader = threading.Thread(target=self._read, args=(rank, process), daemon=True)
        reader.start()
        return process

    def _read(self, rank: int, process: "subprocess.Popen[bytes]") -> None:
        for line in _pipe(process.stdout):
            self._said.put((rank, json.loads(line)))
        self._said.put((rank, None))

    def _tell(self, what: dict[str, str]) -> None:
        for rank, process in enumerate(self._processes):
            try:
                _pipe(process.stdin).write(json.dumps(what).encode() + b"\n")
                _pipe(process.stdin).flush()
            except BrokenPipeError:
                raise self._gone(rank) from None

    def _wait(self, event: str, timeout_s: float, check: Check) -> None:
        left, until_s = set(range(len(self._processes))), time.monotonic() + timeout_s
        while left:
            rank, said = self._next(until_s, f"word ({event}) of all learners", check)
            if said["event"] == event:
                left.discard(rank)

    def _next(self, until_s: float, what: str, check: Check) -> tuple[int, dict[str, Any]]:
        while True:
            check()
            try:
                rank, event = self._said.get(timeout=LOOK_AGAIN_S)
            except queue.Empty:
                if time.monotonic() > until_s:
                    said = "; ".join(self._last_words(r) for r in range(len(self._processes)))
                    msg = f"{what} did not come in time; {said}"
                    raise MergeError(msg) from None
                continue
            if event is None:
                raise self._gone(rank)
            return rank, event

    def _gone(self, rank: int) -> MergeError:
        # Its pipes may close a moment before it is gone.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._processes[rank].wait(LOOK_AGAIN_S)
        code = self._processes[rank].returncode
        how = "" if code is None else f" {describe_exit(code)}"
        return MergeError(f"learner-{rank} has ended{how}; {self._last_words(rank)}")

    def _last_words(self, rank: int) -> str:
        # Its log goes with the folder.
        lines = (self._folder / f"learner-{rank}.log").read_text(errors="replace").splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
        return f"learner-{rank} said last: {last}"


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # noqa: S101 - asked for as a pipe
    return stream
