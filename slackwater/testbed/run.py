"""One testbed run from options to summary: everything put together."""

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console

from slackwater.broker import free_port
from slackwater.clock import RunClock
from slackwater.errors import SlackwaterError
from slackwater.events import Pause
from slackwater.livequery import Question, ask
from slackwater.testbed.brokers import GivenBroker, OwnBroker
from slackwater.testbed.commands import GROUP, Commands, moved_origin, new_clock, wall_us
from slackwater.testbed.ending import closed_log, set_status
from slackwater.testbed.parts import Part, PartSpec
from slackwater.testbed.plan import SLO_S, Plan
from slackwater.testbed.preflight import preflight
from slackwater.testbed.signals import StopSignals
from slackwater.testbed.snapshot import Row
from slackwater.testbed.status import Status
from slackwater.testbed.summary import Summary, summarize
from slackwater.testbed.supervisor import Limits, Outcome, Phase, Supervisor
from slackwater.testbed.views import Show, view_for
from slackwater.testbed.watcher import Watcher
from slackwater.testbed.workdir import WorkDir
from slackwater.topics import COMMANDS
from slackwater.transport import BatchProducer

if TYPE_CHECKING:
    from replay_producer.recording import Recording
    from replay_producer.trace import Trace

REPLAY_START_US = 1_500_000
QUERY_TIMEOUT_S = 5.0
PAUSE_TIMEOUT_S = 5.0


def run_testbed(plan: Plan, console: Console, *, wants_plain: bool) -> tuple[Summary, int]:
    """Run it, showing its progress on `console`; the summary and the exit code.

    Raises `InputError` or `SlackwaterError` when it is clear beforehand that it cannot run.
    """
    began_s = time.monotonic()
    replay = preflight(plan, Path(tempfile.gettempdir()))
    with StopSignals() as signals, WorkDir() as work:
        with view_for(console, wants_plain=wants_plain) as show:
            outcome = LiveRun(plan, info_of(plan, replay.subject), work, show).run(signals)
        with closed_log(plan.db) as query:
            summary = summarize(plan, outcome, query, time.monotonic() - began_s)
        set_status(plan.db, summary)
        if summary.problems:
            work.keep_logs = True
            summary = msgspec.structs.replace(summary, logs=str(work.logs))
    return summary, exit_code(summary, signals)


def exit_code(summary: Summary, signals: StopSignals) -> int:
    """0 for a complete run, 130 and the like for an interrupted one, else 1."""
    if summary.status == "interrupted":
        return signals.exit_code
    return 0 if summary.status == "complete" else SlackwaterError.exit_code


def info_of(plan: Plan, subject: "Trace | Recording") -> dict[str, Any]:
    """What the run log is told of a run beside what the stream job knows itself."""
    return {
        "trace": plan.source,
        "trace_sha256": getattr(subject, "sha256", None),
        "seed": plan.seed,
        "settings": {"slo_s": SLO_S, "testbed": msgspec.to_builtins(plan, enc_hook=str)},
    }


class LiveRun:
    """Holds what comes to be in the course of one run: the clock first."""

    limits = Limits()

    def __init__(self, plan: Plan, info: dict[str, Any], work: WorkDir, show: Show) -> None:
        self._plan = plan
        self._work = work
        self._show = show
        self._began_s = time.monotonic()
        self._clock: RunClock | None = None
        self._supervisor: Supervisor | None = None
        self._broker = _broker(plan, work)
        self._watcher = Watcher(self._ask, plan.speed, self._hold_merges)
        self._run_info = info

    def run(self, signals: StopSignals) -> Outcome:
        """Run all parts to their end."""
        try:
            self._supervisor = Supervisor(
                broker=self._broker,
                stream=self._stream,
                learners=self._learners,
                replay=self._replay,
                log=self._watcher,
                signals=signals,
                on_tick=self._on_tick,
                limits=self.limits,
            )
            return self._supervisor.run()
        finally:
            self._watcher.stop()

    def _stream(self) -> Part:
        self._clock = new_clock(self._plan.speed, wall_us())
        return self._part(self._commands().stream())

    def _learners(self) -> list[Part]:
        self._watcher.start()
        return [self._part(spec) for spec in self._commands().learners()]

    def _replay(self) -> Part:
        commands = self._commands()
        clock = moved_origin(commands.clock, wall_us() + REPLAY_START_US)
        return self._part(commands.replay(clock))

    def _part(self, spec: PartSpec) -> Part:
        return Part(spec, self._work.logs)

    def _commands(self) -> Commands:
        assert self._clock is not None  # noqa: S101 - the stream job is the first to start
        return Commands(
            plan=self._plan,
            bootstrap=self._broker.bootstrap,
            clock=self._clock,
            scratch=self._work.scratch,
            run_info=self._run_info,
            free_port=free_port,
        )

    def _ask(self, sql: str) -> list[Row]:
        question = Question(sql=sql, timeout_s=QUERY_TIMEOUT_S)
        rows: list[Row] = ask(self._plan.db, question).table.to_pylist()
        return rows

    def _hold_merges(self) -> None:
        clock = self._commands().clock
        producer = BatchProducer(self._broker.bootstrap, self._plan.prefix)
        try:
            at_us, run_id = clock.now_us(), self._plan.run_id
            producer.send(COMMANDS, GROUP, Pause(run_id=run_id, at_us=at_us, group=GROUP))
        finally:
            producer.close(PAUSE_TIMEOUT_S)

    def _on_tick(self, phase: Phase, played_s: float | None) -> None:
        look, clock, parts = self._watcher.look, self._clock, self._supervisor
        self._show(
            Status(
                plan=self._plan,
                phase=phase,
                played_s=played_s,
                since_start_s=time.monotonic() - self._began_s,
                snapshot=look.snapshot if look else None,
                now_us=clock.now_us() if clock else None,
                restarts=parts.restarts if parts else {},
                pids=parts.pids if parts else {},
            )
        )


def _broker(plan: Plan, work: WorkDir) -> OwnBroker | GivenBroker:
    if plan.kafka is not None:
        return GivenBroker(plan.kafka, plan.prefix, plan.partitions)
    return OwnBroker(plan.prefix, plan.partitions, work.logs / "broker.log")
