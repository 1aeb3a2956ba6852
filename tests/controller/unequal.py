"""Learners of unequal speed under an engine, each with the real merge protocol of its own."""

import heapq
from collections.abc import Sequence
from itertools import count
from typing import Any

from worlds import BIN_US, T0, bins

from controller.engine import Engine
from slackwater.attach import Corridor, MergeOrder
from slackwater.attach.protocol import Await, Protocol
from slackwater.events import Accepted, Decision, Finished, MergeCommand, Skipped, Started, Step

MERGE_US = 1_000_000
PATIENCE_US = 5_000_000


class Racer:
    """One learner: it steps, comes to merges, and waits there for the others."""

    def __init__(self, name: str, step_us: int, names: Sequence[str], corridor: Corridor) -> None:
        self.name, self.step_us = name, step_us
        self.said: list[tuple[Any, ...]] = []
        self.protocol = Protocol(name, names, corridor, lambda *words: self.said.append(words))
        self.order: MergeOrder | None = None
        self.came_us = 0
        self.gaps: list[int] = []


class Race:
    """Drives them in event time; `merges` are (merge_id, who came when) of those that all made."""

    def __init__(self, made: Engine, step_us: dict[str, int]) -> None:
        self.engine = made
        corridor = Corridor(made.settings.min_gap_steps, made.settings.max_gap_steps)
        self.racers = [Racer(n, us, list(step_us), corridor) for n, us in step_us.items()]
        self.decisions: list[Decision] = []
        self.commands: list[MergeCommand] = []
        self.merges: list[tuple[str, dict[str, int]]] = []
        self.refused: list[str] = []
        self._agenda: list[tuple[int, int, Racer | None]] = []
        self._order = count()

    def run(self, ticks: int) -> "Race":
        """Live so many ticks of 250 ms."""
        for row in bins("s", [4] * ticks):
            self.engine.observe(row)
        for racer in self.racers:
            self._plan(T0 + racer.step_us, racer)
        for tick in range(ticks):
            self._plan(T0 + tick * BIN_US, None)
        while self._agenda:
            now_us, _, racer = heapq.heappop(self._agenda)
            if racer is None:
                self._tick(now_us)
            elif now_us < T0 + ticks * BIN_US:
                self._step(racer, now_us)
        return self

    def _plan(self, us: int, racer: Racer | None) -> None:
        heapq.heappush(self._agenda, (us, next(self._order), racer))

    def _tick(self, now_us: int) -> None:
        self._give_up(now_us)
        for decision, command in self.engine.advance(now_us):
            self.decisions.append(decision)
            if command is not None:
                self.commands.append(command)
                for racer in self.racers:
                    racer.protocol.command(command, now_us)
                self._spread(now_us)

    def _spread(self, now_us: int) -> None:
        """What each has said, to all and to the engine."""
        while any(racer.said for racer in self.racers):
            for racer in self.racers:
                while racer.said:
                    phase, merge_id, step, reason, *moment = racer.said.pop(0)
                    about = self._about(racer, merge_id, step, now_us)
                    report: Accepted | Skipped
                    if phase == "accepted":
                        report = Accepted(**about, moment_us=moment[0])
                    else:
                        self.refused.append(reason)
                        report = Skipped(**about, reason=reason)
                    self.engine.observe(report)
                    for other in self.racers:
                        other.protocol.heard(report)

    def _step(self, racer: Racer, now_us: int) -> None:
        protocol = racer.protocol
        step = protocol.step + 1
        self.engine.observe(
            Step(
                run_id="r",
                at_us=now_us,
                learner=racer.name,
                step=step,
                tokens=1000,
                step_time_s=racer.step_us / 1e6,
                steps_since_merge=step - protocol.last_merge_step,
                tokens_since_merge=1000 * (step - protocol.last_merge_step),
                epoch=protocol.epoch,
            )
        )
        found = protocol.at_step(step, now_us)
        if isinstance(found, Await):
            found = protocol.at_step(step, now_us, waited=True)
        self._spread(now_us)
        if not isinstance(found, MergeOrder):
            self._plan(now_us + racer.step_us, racer)
            return
        racer.order, racer.came_us = found, now_us
        if all(one.order for one in self.racers):
            self._meet(now_us)

    def _meet(self, now_us: int) -> None:
        orders = [one.order for one in self.racers if one.order is not None]
        if len({order.meeting for order in orders}) > 1:
            self._leave(now_us, "mismatch")
            return
        self.merges.append((orders[0].merge_id, {one.name: one.came_us for one in self.racers}))
        for racer, order in zip(self.racers, orders, strict=True):
            racer.gaps.append(order.steps_since_merge)
            self.engine.observe(Started(**self._about(racer, order.merge_id, order.step, now_us)))
            end_us = now_us + MERGE_US
            racer.protocol.finished(order)
            about = self._about(racer, order.merge_id, order.step, end_us)
            self.engine.observe(Finished(**about, seconds=1.0, bytes_exchanged=4))
            racer.order = None
            self._plan(end_us + racer.step_us, racer)

    def _give_up(self, now_us: int) -> None:
        waiting = [one for one in self.racers if one.order is not None]
        if waiting and now_us - min(one.came_us for one in waiting) > PATIENCE_US:
            self._leave(now_us, "absent")

    def _leave(self, now_us: int, reason: str) -> None:
        for racer in self.racers:
            if racer.order is not None:
                racer.protocol.skipped(racer.order, reason)
                racer.order = None
                self._plan(now_us + racer.step_us, racer)
        self._spread(now_us)

    @staticmethod
    def _about(racer: Racer, merge_id: str, step: int, now_us: int) -> dict[str, Any]:
        return {
            "run_id": "r",
            "at_us": now_us,
            "group": "default",
            "learner": racer.name,
            "merge_id": merge_id,
            "step": step,
        }
