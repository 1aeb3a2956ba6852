"""One stream process from its settings to its summary: opens, runs and closes everything."""

import asyncio
import signal
import time
from collections.abc import Callable
from typing import Any

import faust
import msgspec
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry, start_http_server

from controller.engine import Engine
from controller.policies import policy_named
from slackwater.clock import RunClock
from slackwater.errors import BrokerError, InputError, SlackwaterError
from slackwater.policies import NO_POLICY
from streams.acks import Shipper
from streams.app import Wiring, build_app, read_topics
from streams.job import Job
from streams.metrics import Metrics
from streams.offsets import consumer_group, place_group, starting_offsets
from streams.progress import Progress
from streams.restore import check_group, restore_counters, restore_stage
from streams.runlog.log import RunLog
from streams.runlog.rows import Run
from streams.settings import StreamSettings
from streams.sink import DuckDBLog
from streams.stage import DecisionStage
from streams.versions import versions

STOP_TIMEOUT_S = 5.0
DRAIN_TIMEOUT_S = 3.0


def build_stage(settings: StreamSettings) -> DecisionStage:
    """The decision stage of a process with role `decide`."""
    engine = Engine(
        settings.controller,
        [policy_named(name) for name in (settings.policy, *settings.shadow)],
        run_id=settings.run.run_id,
        bin_s=settings.bin_s,
    )
    progress = Progress(
        settings.silence_s,
        settings.expect_sidecars,
        settings.controller.expect_learners,
        time.monotonic,
        settings.skew_s,
    )
    return DecisionStage(engine, progress)


def serve_metrics(settings: StreamSettings, registry: CollectorRegistry) -> Callable[[], None]:
    """Start the Prometheus endpoint if a port is set; returns how to stop it."""
    if settings.metrics_port is None:
        return lambda: None
    try:
        server, _thread = start_http_server(settings.metrics_port, settings.metrics_host, registry)
    except OSError as error:
        msg = (
            f"cannot serve metrics on {settings.metrics_host}:{settings.metrics_port} "
            f"({error.strerror}); choose another --metrics-port"
        )
        raise InputError(msg) from None

    def stop() -> None:
        server.shutdown()
        server.server_close()

    return stop


class StreamProcess:
    """Opens what the roles need, runs until told to stop, closes in the right order."""

    def __init__(
        self, settings: StreamSettings, clock: RunClock, on_ready: Callable[[], None]
    ) -> None:
        self.settings, self.clock, self._on_ready = settings, clock, on_ready
        self.metrics = Metrics(CollectorRegistry())

    def run(self) -> dict[str, Any]:
        """Run until SIGTERM or SIGINT, on a broker that answers and has the topics.

        Returns the summary. Raises `SlackwaterError`.
        """
        stop_metrics = serve_metrics(self.settings, self.metrics.registry)
        try:
            return self._run_logged()
        finally:
            stop_metrics()

    def _run_logged(self) -> dict[str, Any]:
        if "log" not in self.settings.roles:
            asyncio.run(self._main(None))
            return self._summary()
        if self.settings.db is None:
            msg = "role log needs a run log; give --db PATH, or leave log out of --roles"
            raise InputError(msg)
        log = RunLog(self.settings.db, self.settings.run.run_id)
        try:
            check_group(log, self.settings.run.group)
        except SlackwaterError:
            log.close()
            raise
        failed: str | None = "it was stopped by an error"
        try:
            log.start_run(self._run_row())
            asyncio.run(self._main(log))
            failed = None
        except SlackwaterError as error:
            failed = str(error)
            raise
        finally:
            run_id, now_us = self.settings.run.run_id, self.clock.now_us()
            try:
                log.finish_run(run_id, "failed" if failed else "complete", now_us, failed)
            finally:
                log.close()
        return self._summary()

    async def _main(self, log: RunLog | None) -> None:
        # First: the sink takes from the log where it starts.
        group_id = self._place_group(log)
        sink = DuckDBLog(log, self.settings.run, self.metrics) if log else None
        stage = build_stage(self.settings) if "decide" in self.settings.roles else None
        counters = {}
        if log is not None and stage is not None:
            restore_stage(log, stage, self.settings.run.group)
        if log is not None and "count" in self.settings.roles:
            run, settings = self.settings.run, self.settings
            counters = restore_counters(log, run.group, settings.bin_s, settings.lateness_s)
        job = Job(self.settings, self.clock, self.metrics, stage, sink, counters)
        app = build_app(self.settings, group_id)
        shipper = Shipper(sink.commit if sink else None, self.settings.commit_s)
        wiring = Wiring(app, job, shipper, self._on_ready)
        await self._until_stopped(app, wiring, shipper)

    def _place_group(self, log: RunLog | None) -> str:
        """Name the consumer group; where there is a log, a new one that starts at its offsets."""
        run = self.settings.run
        base = consumer_group(run, self.settings.roles)
        if log is None:
            return base
        group_id = f"{base}-{time.time_ns() // 1000}"
        offsets = starting_offsets(
            run, read_topics(self.settings), log.stored_offsets(), self.settings.offset_reset
        )
        log.start_at(offsets)
        place_group(run, group_id, offsets)
        return group_id

    async def _until_stopped(self, app: faust.App, wiring: Wiring, shipper: Shipper) -> None:
        stopping, last_commit = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        app.finalize()
        starting = asyncio.create_task(app.start())
        shipping = asyncio.create_task(shipper.run(last_commit))
        told = asyncio.create_task(stopping.wait())
        crash = asyncio.create_task(_crashed(app, starting))
        ends: list[asyncio.Future[Any]] = [told, crash, shipping, wiring.failure]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                if end.done():
                    end.result()
            drained = await wiring.drain(DRAIN_TIMEOUT_S)
        finally:
            last_commit.set()
            for task in (told, crash, starting):
                task.cancel()
            await asyncio.wait([asyncio.create_task(app.stop())], timeout=STOP_TIMEOUT_S)
        await shipping
        await shipper.ship()
        if not drained:
            msg = (
                f"not all decisions came back from the broker within {DRAIN_TIMEOUT_S:g} s to be "
                "logged; start again with the same --db to log them"
            )
            raise BrokerError(msg)

    def _run_row(self) -> Run:
        info = self.settings.run_info
        return Run(
            run_id=self.settings.run.run_id,
            created_us=self.clock.now_us(),
            policy=_commander(self.settings),
            settings={**info.get("settings", {}), "stream": _builtins(self.settings)},
            versions=versions(),
            seed=info.get("seed", self.settings.controller.seed),
            trace=info.get("trace"),
            trace_sha256=info.get("trace_sha256"),
        )

    def _summary(self) -> dict[str, Any]:
        return {
            "schema_version": 1,
            "run_id": self.settings.run.run_id,
            "group": self.settings.run.group,
            "roles": list(self.settings.roles),
            "db": str(self.settings.db) if self.settings.db else None,
            "rows": self.metrics.by_label("rows", "table"),
            "dead_letters": self.metrics.by_label("dead_letters", "topic"),
            "late_events": self.metrics.by_label("late_events", "topic"),
            "merge_reports": self.metrics.by_label("merges", "phase"),
            "figures": self.metrics.totals(),
        }


async def _crashed(app: faust.App, starting: asyncio.Future[None]) -> None:
    """Return never, unless the app ends by itself: then raise why."""
    try:
        await starting
        await app.wait_until_stopped()
    except KafkaError as error:
        raise _explained(error) from error
    raise _explained(app.crash_reason or RuntimeError("Faust stopped by itself"))


def _explained(error: BaseException) -> BaseException:
    """A lost broker is the user's to mend; everything else is a fault and keeps its traceback."""
    if isinstance(error, KafkaError):
        return BrokerError(f"the broker was lost: {error}")
    return error


def _commander(settings: StreamSettings) -> str | None:
    """Who commands: a policy, or the coin between it and random moments, which is no policy."""
    if settings.policy == NO_POLICY:
        return None
    mixed = "" if settings.controller.switchback is None else "+switchback"
    return settings.policy + mixed


def _builtins(settings: StreamSettings) -> Any:
    return msgspec.to_builtins(settings, enc_hook=str)
