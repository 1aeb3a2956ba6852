"""Replays a trace or a recording onto the topics in time, and says what became of it.

A trace is served by the sidecar model while it is replayed: its requests come out at the very
event time at which the model finishes them. Merges are heard on their topic, and slow the model
from the moment their report is read (some tens of milliseconds of wall time after the fact) until
the last learner has finished; finishes already sent are never rewritten.
"""

import contextlib
import time
from collections.abc import Callable

import msgspec

from replay_producer.fleet import Fleet, Latency, check_latency
from replay_producer.pacing import MergeFollower, not_acknowledged, pace
from replay_producer.recording import Recording, RecordingSource
from replay_producer.sidecar import ServiceSettings
from replay_producer.source import Source
from replay_producer.trace import Trace
from slackwater.clock import US_PER_S, RunClock
from slackwater.codec import Codec
from slackwater.errors import BrokerError
from slackwater.events import MergesEvent
from slackwater.settings import RunSettings
from slackwater.topics import MERGES
from slackwater.transport import BatchProducer, reader

DRAIN_LIMIT_S = 30.0
FLUSH_LIMIT_S = 15.0
CLOSE_LIMIT_S = 1.0
MAX_BLOCK_MS = 5_000


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay did. Counts are of events unless they say otherwise.

    Attributes:
        run_id: the run's.
        name: of the trace or recording.
        arrived: requests that arrived at a sidecar, None for a recording.
        requests: finished requests sent, None for a recording.
        loads: load samples sent, None for a recording.
        unfinished: requests that had arrived but not finished when the replay ended.
        sent: events handed to Kafka.
        acked: events the broker acknowledged.
        failed: events sent and not acknowledged.
        merges: merge windows that slowed the model, None for a recording.
        merges_timed_out: windows that ended because a learner reported no more.
        event_s: seconds of event time from the clock's origin to the end.
        wall_s: seconds of wall time that the replay took.
        speed: of the run clock.
        complete: everything was replayed and acknowledged.
        error: why not, where something failed; None when it was only stopped.
    """

    run_id: str
    name: str
    arrived: int | None = None
    requests: int | None = None
    loads: int | None = None
    unfinished: int | None = None
    sent: int
    acked: int
    failed: int
    merges: int | None = None
    merges_timed_out: int | None = None
    event_s: float
    wall_s: float
    speed: float
    complete: bool
    error: str | None = None


class Control(msgspec.Struct, frozen=True, kw_only=True):
    """How the caller of a replay takes part in it.

    Attributes:
        keep_going: asked at least every 10 ms with the event time; False ends the replay early.
        ready: called once everything is connected and the first event may go.
    """

    keep_going: Callable[[int], bool] = lambda _now_us: True
    ready: Callable[[], None] = lambda: None


def replay(
    trace: Trace,
    run: RunSettings,
    make_clock: Callable[[], RunClock],
    *,
    sidecars: int | None = None,
    service: ServiceSettings | None = None,
    latency: Latency = "model",
    control: Control | None = None,
) -> ReplayReport:
    """Serve `trace` by the model and send what comes of it, in time.

    Args:
        trace: its first instant is placed at the clock's origin.
        run: broker, topic prefix, run id and merge group.
        make_clock: called once everything is connected, so that a replay that makes its own
            clock loses nothing to connecting.
        sidecars: how many; None for those the trace names, else 2.
        service: how a sidecar serves.
        latency: `model` or `recorded`.
        control: stopping and readiness.

    Raises:
        InputError: `recorded` latency that the trace does not have.
        BrokerError: no broker answers.
    """
    check_latency(trace, latency)
    with Connection(run) as connection:
        clock = make_clock()
        fleet = Fleet(
            trace, clock.origin_us, run.run_id, sidecars=sidecars, service=service, latency=latency
        )
        follower = MergeFollower(fleet, connection.merges)
        end_us = clock.origin_us + trace.duration_us + round(DRAIN_LIMIT_S * clock.speed * US_PER_S)
        report = connection.pace(trace.name, fleet, clock, control or Control(), follower, end_us)
    return msgspec.structs.replace(
        report,
        arrived=fleet.arrived,
        requests=fleet.requests,
        loads=fleet.loads,
        unfinished=fleet.in_flight,
        merges=follower.windows.opened,
        merges_timed_out=follower.windows.timed_out,
        complete=report.complete and not fleet.in_flight,
    )


def replay_recording(
    recording: Recording,
    run: RunSettings,
    make_clock: Callable[[], RunClock],
    *,
    duration_us: int | None = None,
    control: Control | None = None,
) -> ReplayReport:
    """Send the events of a recording as they were, in time.

    Args:
        recording: its first whole second is placed at the clock's origin.
        run: broker, topic prefix and run id.
        make_clock: as for `replay`.
        duration_us: event time after which the rest is left out; None replays all.
        control: stopping and readiness.

    Raises:
        BrokerError: no broker answers.
    """
    with Connection(run) as connection:
        clock = make_clock()
        source = RecordingSource(recording, clock.origin_us, run.run_id, duration_us)
        return connection.pace(recording.name, source, clock, control or Control())


class Connection:
    """The broker as a replay needs it: a producer, and a reader of the merges topic.

    Raises `BrokerError` when no broker answers or the topics are not there.
    """

    def __init__(self, run: RunSettings) -> None:
        self._run = run
        self._codec = Codec(MERGES)
        with contextlib.ExitStack() as stack:
            self._consumer = reader(run.bootstrap, [MERGES], run.prefix)
            stack.callback(self._consumer.close)
            self._producer = BatchProducer(run.bootstrap, run.prefix, max_block_ms=MAX_BLOCK_MS)
            stack.callback(self._producer.close, CLOSE_LIMIT_S)
            self._stack = stack.pop_all()

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def merges(self) -> list[MergesEvent]:
        """Reports of this run and group that have come since the last call."""
        fetched = self._consumer.poll(timeout_ms=0)
        raws = [record.value for records in fetched.values() for record in records]
        events = [event for raw in raws for event in self._codec.decode(raw).events]
        run = self._run
        return [e for e in events if e.run_id == run.run_id and e.group == run.group]

    def pace(
        self,
        name: str,
        source: Source,
        clock: RunClock,
        control: Control,
        follower: MergeFollower | None = None,
        until_us: int | None = None,
    ) -> ReplayReport:
        """Replay `source` to its end, to `until_us`, or until stopped; flush; and report."""
        producer, error, done = self._producer, None, False
        control.ready()
        began_s = time.monotonic()
        try:
            done = pace(
                source,
                producer,
                clock,
                follower=follower,
                keep_going=control.keep_going,
                until_us=until_us,
            )
            if not producer.flush(FLUSH_LIMIT_S):
                error = not_acknowledged(producer)
        except BrokerError as failure:
            error = str(failure)
        return ReplayReport(
            run_id=self._run.run_id,
            name=name,
            sent=producer.sent,
            acked=producer.acked,
            failed=producer.sent - producer.acked,
            event_s=(clock.now_us() - clock.origin_us) / US_PER_S,
            wall_s=time.monotonic() - began_s,
            speed=clock.speed,
            complete=done and error is None,
            error=error,
        )
