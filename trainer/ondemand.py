"""A learner that is led by its parent process: train, rest or merge, one line of JSON each.

It is the reference learner without the broker: the same model, group, exchange, outer step and
synced checkpoint, for experiments that must say when a merge happens and know when it did.

    stdin   {"do": "train"}  {"do": "rest"}  {"do": "merge", "id": "m3"}   its end is the end
    stdout  {"event": "ready", ...}  {"event": "started", "id": "m3", "at_ns": ...}
            {"event": "finished", ...} or {"event": "skipped", ...}    times of the monotonic clock
"""

import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

import msgspec
import torch

from slackwater.attach import MergeOrder
from slackwater.events import H_MAX
from trainer.cards import FORCED_ID
from trainer.checkpoint import write_checkpoint
from trainer.inner import InnerOptimizer
from trainer.join import Place, StoppedError, join
from trainer.merge import Merger
from trainer.outer import OuterState
from trainer.settings import LearnerSettings
from trainer.shared import Shared
from trainer.text import Shard, read_text
from trainer.training import Training

LOOK_AGAIN_S = 0.01
SESSION = Path("/proc/self/autogroup")
SESSION_TRIES = 100
SESSION_AGAIN_S = 0.1


class OnDemand(msgspec.Struct, frozen=True, kw_only=True):
    """What such a learner is told on its command line, as JSON.

    Attributes:
        rank, learners: which of how many.
        port: where they meet, on loopback; rank 0 listens there.
        folder: where its checkpoint goes; on a real disk, or syncing it costs nothing.
        parameters: of its model, at most.
        pause_s: slept after each inner step, standing for the learner's own accelerator.
        nice: added to its niceness, merges included; of its session too, see `yield_to_others`.
        seed: of first weights and data order.
        patience_s: how long a merge may take.
    """

    rank: int
    learners: int
    port: int
    folder: str
    parameters: int
    pause_s: float
    nice: int = 0
    seed: int = 0
    patience_s: float = 120.0


class Told(msgspec.Struct, frozen=True):
    """One line of stdin."""

    do: Literal["train", "rest", "merge", "end"]
    id: str = ""


class Voice:
    """Says on stdout what a merge comes to; stands where an `Attachment` does otherwise."""

    def say(self, event: str, **fields: Any) -> None:
        """One line, with the time."""
        line = {"event": event, "at_ns": time.monotonic_ns(), **fields}
        sys.stdout.write(msgspec.json.encode(line).decode() + "\n")
        sys.stdout.flush()

    def started(self, order: MergeOrder) -> None:
        """The group has agreed; the exchange begins."""
        self.say("started", id=order.merge_id)

    def overlapped(self, order: MergeOrder) -> None:
        """Never: nothing is exchanged behind inner steps here."""

    def finished(self, order: MergeOrder, **done: Any) -> None:
        """The outer step is taken and the checkpoint is on the disk."""
        self.say("finished", id=order.merge_id, **done)

    def skipped(self, order: MergeOrder, reason: str) -> None:
        """The group did not merge."""
        self.say("skipped", id=order.merge_id, reason=reason)

    def withdrawn(self, _order: MergeOrder) -> str | None:
        """None: who leads the learners takes nothing back."""
        return None


class Led:
    """One learner and what it was told."""

    def __init__(self, asked: OnDemand) -> None:
        torch.set_num_threads(1)
        self._asked = asked
        names = [f"learner-{rank}" for rank in range(asked.learners)]
        own = names[asked.rank]
        settings = LearnerSettings(
            learner=own, participants=names, parameters=asked.parameters, seed=asked.seed
        )
        shard = Shard.cut(read_text(None), asked.rank, asked.learners)
        self._training = Training(settings, shard, asked.rank)
        self._outer = OuterState(*self._training.model.parameters())
        self._shared = Shared(self._outer)
        self._told: queue.SimpleQueue[Told] = queue.SimpleQueue()
        self._ended = threading.Event()
        self._voice = Voice()
        # From here on: the parent may end while the others are waited for.
        threading.Thread(target=self._listen, name="told", daemon=True).start()
        self._group = join(
            Place(asked.rank, asked.learners, ("127.0.0.1", asked.port)),
            own,
            names,
            self._shared,
            room="on-demand",
            quorum=asked.learners,
            timeout_s=asked.patience_s,
            join_timeout_s=asked.patience_s,
            stopping=self._ended.is_set,
        )
        self._path = Path(asked.folder) / f"{own}.safetensors"
        self._merger = Merger(
            self._voice,
            self._group,
            self._outer,
            heal=self._heal,
            save=self._save,
            shared=self._shared,
        )
        self._steps = 0

    def run(self) -> None:
        """Until told to end; the learner rests at first."""
        self._tell()
        # From then on a merge finds all of them.
        while len(self._group.pulse.alive()) < self._asked.learners and not self._ended.is_set():
            time.sleep(LOOK_AGAIN_S)
        self._voice.say("ready", parameters=self._outer.parameters)
        training = False
        try:
            while (told := self._next(wait=not training)) is None or told.do != "end":
                if told is None:
                    self._step()
                elif told.do == "merge":
                    self._merge(told.id)
                else:
                    training = told.do == "train"
                    self._voice.say(told.do, steps=self._steps)
        finally:
            self._ended.set()
            self._group.leave()

    def _next(self, *, wait: bool) -> Told | None:
        """What it was told; None after a pause without a word, when it does not wait for one."""
        try:
            return self._told.get(timeout=None if wait else max(self._asked.pause_s, 1e-6))
        except queue.Empty:
            return None

    def _step(self) -> None:
        self._training.step()
        self._merger.trained(self._training.tokens_per_step)
        self._steps += 1
        self._tell()

    def _tell(self) -> None:
        shared = self._shared
        shared.step = self._steps
        self._group.tell(self._steps, shared.last_merge_step, shared.epoch, shared.digest)

    def _merge(self, name: str) -> None:
        shared = self._shared
        if self._steps == shared.last_merge_step:
            # Without a step since the last one there is nothing to merge.
            self._step()
        since = self._steps - shared.last_merge_step
        # As at H_max, where each learner comes at a step of its own.
        order = MergeOrder(f"{FORCED_ID}{name}", self._steps, since, shared.epoch, H_MAX, ())
        self._merger.run(order)
        self._tell()

    def _save(self, order: MergeOrder) -> int:
        """All that this learner would need to go on; the weights are the global ones."""
        state = {
            "step": order.step,
            "epoch": order.epoch + 1,
            "outer": self._outer.state_dict(),
            "inner": [part.state_dict() for part in self._training.inner.parts],
            "data": self._training.state_dict(),
        }
        return write_checkpoint(self._path, state)

    def _heal(self) -> None:
        self._training.inner = InnerOptimizer(self._training.model)

    def _listen(self) -> None:
        decode = msgspec.json.Decoder(Told).decode
        for line in sys.stdin:
            self._told.put(decode(line))
        self._ended.set()
        self._told.put(Told("end"))


def yield_to_others(nice: int) -> None:
    """Add to this process's niceness, against all others.

    Where Linux schedules sessions as groups (sched_autogroup), niceness counts within a session
    alone, and each learner has one of its own: then the group is made as nice. The kernel grants
    one such change in 0.1 s to all but root together, and learners start at one moment.
    """
    if not nice:
        return
    os.nice(nice)
    for again in reversed(range(SESSION_TRIES)):
        try:
            SESSION.write_text(str(nice), encoding="ascii")
        except FileNotFoundError:
            return  # No such groups here.
        except OSError as error:
            if again and isinstance(error, BlockingIOError):
                time.sleep(SESSION_AGAIN_S)
                continue
            sys.stderr.write(f"{SESSION}: {error.strerror}; niceness may not count here\n")
        return


def main() -> None:
    """Run one learner, told by its one argument what it is."""
    asked = msgspec.json.decode(sys.argv[1], type=OnDemand)
    yield_to_others(asked.nice)
    try:
        learner = Led(asked)
    except StoppedError:
        return  # The parent ended before the others had come.
    learner.run()


if __name__ == "__main__":
    main()
