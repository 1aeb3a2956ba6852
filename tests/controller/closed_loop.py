"""A learner that obeys the engine and merges by itself at H_max, tick after tick."""

from collections.abc import Iterable

from worlds import BIN_US, STEP_US, T0

from controller.engine import Engine
from slackwater.events import BinRow, Decision, Finished, MergeNow, Pause, Resume, Started, Step

MERGE_TICKS = 4


class Loop:
    """One learner and an engine; `gaps` are the inner steps between its merges."""

    def __init__(self, made: Engine, rows: Iterable[BinRow]) -> None:
        self.engine = made
        self.decisions: list[Decision] = []
        self.gaps: list[int] = []
        self.reasons: list[str] = []
        self._rows = sorted(rows, key=lambda row: row.start_us)
        self._step = self._last = self._merging = 0
        self._order: tuple[str, int, str] | None = None

    def run(self, ticks: int, people: Iterable[Pause | Resume | MergeNow] = ()) -> "Loop":
        """Live so many ticks of 250 ms."""
        for event in people:
            self.engine.observe(event)
        for tick in range(ticks):
            now_us = T0 + tick * BIN_US
            while self._rows and self._rows[0].start_us + BIN_US <= now_us:
                self.engine.observe(self._rows.pop(0))
            self._live(now_us)
            for decision, command in self.engine.advance(now_us):
                self.decisions.append(decision)
                if command is not None:
                    self._order = (command.merge_id, command.at_step, command.reason)
        return self

    def _live(self, now_us: int) -> None:
        if self._merging:
            self._merging -= 1
            if not self._merging:
                report = self._report(now_us)
                self.engine.observe(Finished(**report, seconds=1.0, bytes_exchanged=4))
                self._last, self._order = self._step, None
            return
        for i in range(BIN_US // STEP_US):
            self._step += 1
            at_us = now_us - BIN_US + (i + 1) * STEP_US
            self.engine.observe(self._report_step(at_us))
            forced = self._last + self.engine.settings.max_gap_steps
            if self._step == forced and (self._order is None or self._order[1] > forced):
                self._order = (f"hmax-{forced}", forced, "own")
            if self._order is not None and self._step == self._order[1]:
                self.gaps.append(self._step - self._last)
                self.reasons.append(self._order[2])
                self.engine.observe(Started(**self._report(at_us)))
                self._merging = MERGE_TICKS
                return

    def _report(self, at_us: int) -> dict[str, object]:
        assert self._order is not None
        return {
            "run_id": "r",
            "at_us": at_us,
            "group": "default",
            "learner": "a",
            "merge_id": self._order[0],
            "step": self._step,
        }

    def _report_step(self, at_us: int) -> Step:
        since = self._step - self._last
        return Step(
            run_id="r",
            at_us=at_us,
            learner="a",
            step=self._step,
            tokens=1000,
            step_time_s=STEP_US / 1e6,
            steps_since_merge=since,
            tokens_since_merge=1000 * since,
        )
