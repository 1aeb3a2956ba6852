"""The order in which the parts of a run start, work and end, and what ends it early.

broker, stream, learners (with the place where they meet), replay; then back: the replay ends by
itself, merges under way are finished, the learners leave together, the stream logs what is still
in the topics, the broker goes last because everybody talks through it. A learner that dies, or the
place where they meet, is started again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from slackwater.errors import SlackwaterError
from slackwater.testbed.parts import Part, PartError, describe_exit, last_lines
from slackwater.testbed.signals import Interrupted, StopSignals

POLL_S = 0.05


class Phase(StrEnum):
    """Where a run is."""

    BROKER = "starting the broker"
    STREAM = "starting the stream job"
    LEARNERS = "starting the learners"
    REPLAY = "starting the replay"
    RUNNING = "running"
    SETTLING = "finishing merges under way"
    STOPPING_LEARNERS = "learners are leaving"
    DRAINING = "logging what is still in the topics"
    STOPPING_STREAM = "closing the run log"
    DONE = "done"


class Broker(Protocol):
    """What the supervisor needs of a broker; `alive` is True for one that it does not own."""

    def start(self) -> None:
        """Start it, or find that it answers; raises `SlackwaterError`."""

    @property
    def log_path(self) -> Path | None:
        """Where its own output goes."""

    @property
    def alive(self) -> bool:
        """False once its process has ended."""

    def stop(self) -> None:
        """End it."""


class RunLogView(Protocol):
    """What the supervisor asks the run log while the stream job writes it."""

    def hold_merges(self) -> None:
        """Ask the controller for no more merges than H_max forces."""

    def pending_merges(self) -> int | None:
        """Merges commanded and not finished or skipped by every learner; None when unknown."""

    def missing(self, summaries: dict[str, dict[str, Any]]) -> int | None:
        """Events that parts say were acknowledged and are not logged yet; None when unknown."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the supervisor waits for what, in seconds of wall time."""

    ready_s: float = 90.0
    settle_s: float = 60.0
    quiet_s: float = 1.0
    drain_s: float = 30.0
    end_s: float = 20.0
    brokerless_end_s: float = 8.0
    hasty_end_s: float = 2.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended.

    Attributes:
        status: `complete`, `failed` or `interrupted`.
        failure: the part that failed, and how.
        summaries: what each part said at its end, by name.
        played_s: wall seconds of the replay.
        restarts: how often parts that died were started again, by name; not those that never did.
    """

    status: str
    failure: PartError | None
    summaries: dict[str, dict[str, Any]]
    played_s: float | None
    restarts: dict[str, int] = field(default_factory=dict)


@dataclass
class Supervisor:
    """Runs the parts of one run from start to end; `run` is called once, from the main thread.

    Attributes:
        broker: the first to start, the last to stop.
        stream: the stream job.
        learners: makes the learners once the stream is ready.
        replay: makes the replay once the learners are ready.
        log: the view of the run log.
        signals: what a person wants.
        on_tick: called with the phase and the wall seconds since the replay began (None before)
            every 50 ms; draws the screen.
        limits: how long to wait for what.
    """

    broker: Broker
    stream: Callable[[], Part]
    learners: Callable[[], Sequence[Part]]
    replay: Callable[[], Part]
    log: RunLogView
    signals: StopSignals
    on_tick: Callable[[Phase, float | None], None]
    limits: Limits = field(default_factory=Limits)
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        self._phase = Phase.BROKER
        self._stream: Part | None = None
        self._learners: Sequence[Part] = ()
        self._replay: Part | None = None
        self._playing_since: float | None = None
        self._played_s: float | None = None

    def run(self) -> Outcome:
        """Start everything, wait for the replay's end, end everything; nothing runs afterwards."""
        status: str = "complete"
        failure: PartError | None = None
        try:
            self._start()
            self._play()
            self._settle()
        except Interrupted:
            status = "interrupted"
        except PartError as failed:
            status, failure = "failed", failed
        except SlackwaterError as error:
            status, failure = "failed", PartError("the testbed", f"stopped: {error}", [], None)
        finally:
            late_failure = self._end()
        if late_failure and status == "complete":
            status = "failed"
        return Outcome(
            status, failure or late_failure, self._summaries(), self._played_s, self.restarts
        )

    @property
    def restarts(self) -> dict[str, int]:
        """How often parts that died were started again, by name."""
        return {part.name: part.restarted for part in self._parts() if part.restarted}

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the learners and of their meeting place, by name."""
        return {part.name: part.pid for part in self._learners if part.pid is not None}

    def _start(self) -> None:
        self._enter(Phase.BROKER)
        self._start_broker()
        self._enter(Phase.STREAM)
        self._stream = self.stream()
        self._launch([self._stream])
        self._enter(Phase.LEARNERS)
        self._learners = self.learners()
        self._launch(self._learners)
        self._enter(Phase.REPLAY)
        self._replay = self.replay()
        self._launch([self._replay])

    def _start_broker(self) -> None:
        try:
            self.broker.start()
        except SlackwaterError as error:
            what = f"did not start: {error}"
            raise self._broker_failure(what) from error

    def _launch(self, parts: Sequence[Part]) -> None:
        for part in parts:
            part.start()
        waiting = list(parts)

        def all_ready() -> bool:
            waiting[:] = [p for p in waiting if (p.running or p.resting) and not p.ready]
            return not waiting

        if not self._until(all_ready, self.limits.ready_s):
            slow = waiting[0]
            what = f"was not ready within {self.limits.ready_s:g} s"
            raise slow.failure(what)

    def _play(self) -> None:
        replay, self._playing_since = self._replay, self.monotonic()
        self._enter(Phase.RUNNING)
        if replay is not None:
            self._until(lambda: not replay.running, None)
        self._played_s = self.monotonic() - self._playing_since

    def _settle(self) -> None:
        """Wait until no merge is under way for `quiet_s`, so that learners leave between two."""
        self._enter(Phase.SETTLING)
        self.log.hold_merges()
        quiet_since: list[float] = []

        def quiet() -> bool:
            back = all(part.ready and not part.resting for part in self._learners)
            if self.log.pending_merges() != 0 or not back:
                quiet_since.clear()
                return False
            quiet_since.append(self.monotonic())
            return quiet_since[-1] - quiet_since[0] >= self.limits.quiet_s

        if not self._until(quiet, self.limits.settle_s):
            raise self._unsettled()

    def _unsettled(self) -> PartError:
        """What kept `_settle` waiting for too long."""
        within = f"within {self.limits.settle_s:g} s"
        away = next((part for part in self._learners if part.resting or not part.ready), None)
        if away is not None:
            return away.failure(f"was started again and was not back {within}")
        count = self.log.pending_merges()
        if count is None and self._stream is not None:
            what = f"did not say {within} whether a merge is under way"
            return self._stream.failure(what)
        return self._learners[-1].failure(f"did not finish {count} merges {within}")

    def _end(self) -> PartError | None:
        """Stop all parts in order; the first that did not end well."""
        failures = [self._stop([self._replay] if self._replay else [])]
        self._phase = Phase.STOPPING_LEARNERS
        failures.append(self._stop(self._learners))
        self._phase = Phase.DRAINING
        failures.append(self._drain())
        self._phase = Phase.STOPPING_STREAM
        failures.append(self._stop([self._stream] if self._stream else []))
        failures.append(self._stop_broker())
        self._phase = Phase.DONE
        self._show()
        return next((failure for failure in failures if failure), None)

    def _stop_broker(self) -> PartError | None:
        try:
            self.broker.stop()
        except SlackwaterError as error:
            return self._broker_failure(f"did not end well: {error}")
        return None

    def _stop(self, parts: Sequence[Part]) -> PartError | None:
        """End these parts together, by force when they take too long."""
        for part in parts:
            part.terminate()
        began = self.monotonic()
        while any(part.running for part in parts) and self.monotonic() - began < self._grace_s():
            self._tick()
        killed = [part for part in parts if part.running]
        for part in killed:
            part.kill()
        if killed:
            return killed[0].failure("did not end when told to and was killed")
        # One that was not ready yet may not even have known how to end well.
        bad = [part for part in parts if part.ready and part.exit_code not in (0, None)]
        return bad[0].failure(f"ended {describe_exit(bad[0].exit_code)}") if bad else None

    def _grace_s(self) -> float:
        if self.signals.hasten:
            return self.limits.hasty_end_s
        # Without a broker nothing can be flushed, however long one waits.
        return self.limits.end_s if self.broker.alive else self.limits.brokerless_end_s

    def _drain(self) -> PartError | None:
        """Let the stream log what was acknowledged, as long as it can."""
        stream, began = self._stream, self.monotonic()
        while stream and stream.running and stream.ready and self.broker.alive:
            missing = self.log.missing(self._summaries())
            if missing == 0 or self.signals.hasten:
                return None
            if self.monotonic() - began > self.limits.drain_s:
                count = "an unknown number of" if missing is None else missing
                what = f"left {count} acknowledged events unlogged for {self.limits.drain_s:g} s"
                return stream.failure(what)
            self._tick()
        return None

    def _until(self, condition: Callable[[], bool], limit_s: float | None) -> bool:
        """Tick until the condition holds (True) or the time is over (False).

        Raises `PartError` when a part ends that should not, `Interrupted` when a person says so.
        """
        began = self.monotonic()
        while True:
            self.signals.check()
            self._check_parts()
            if condition():
                return True
            if limit_s is not None and self.monotonic() - began > limit_s:
                return False
            self._tick()

    def _check_parts(self) -> None:
        if not self.broker.alive:
            what = "ended before it was told to"
            raise self._broker_failure(what)
        for part in self._parts():
            part.check()

    def _broker_failure(self, what: str) -> PartError:
        path = self.broker.log_path
        return PartError("the broker", what, last_lines(path) if path else [], path)

    def _parts(self) -> list[Part]:
        return [part for part in (self._stream, *self._learners, self._replay) if part]

    def _summaries(self) -> dict[str, dict[str, Any]]:
        found = {part.name: part.summary() for part in self._parts() if not part.running}
        return {name: summary for name, summary in found.items() if summary}

    def _enter(self, phase: Phase) -> None:
        self.signals.check()
        self._phase = phase
        self._show()

    def _tick(self) -> None:
        self._show()
        self.sleep(POLL_S)

    def _show(self) -> None:
        since_s = self._playing_since
        playing_s = None if since_s is None else self.monotonic() - since_s
        self.on_tick(self._phase, playing_s if self._played_s is None else self._played_s)
