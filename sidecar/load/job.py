"""What a person asked `slackwater load` to send, checked whole before anything is connected."""

from dataclasses import dataclass
from typing import Any

import msgspec

from replay_producer import job as replays
from replay_producer.readers import RECORDING, read_trace
from replay_producer.recording import Recording
from replay_producer.trace import Trace
from sidecar.load.batches import Bursts
from sidecar.load.endpoint import Endpoint
from sidecar.load.open_loop import Limits
from sidecar.load.schedule import Lengths, scheduled
from sidecar.load.thread import LoadThread, start_closed_loop, start_open_loop
from slackwater.clock import US_PER_S
from slackwater.errors import InputError


class LoadJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of `slackwater load`.

    Attributes:
        endpoint: where requests go.
        limits: time-out, and requests in flight.
        traffic: the trace or regime, duration and speed, as `slackwater replay` takes them.
        lengths: of requests, where the trace is not to be followed.
        bursts: a closed loop instead; the traffic then says how long, and nothing else.
    """

    endpoint: Endpoint
    limits: Limits
    traffic: replays.ReplayJob
    lengths: Lengths
    bursts: Bursts | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A job whose every value has been checked and whose input has been read.

    Attributes:
        name: of the trace, the regime or the closed loop.
        job: as asked.
        trace: what is sent in an open loop; None in a closed one.
        duration_s: seconds from the first moment to the last arrival or batch.
        total: requests to come due; None where answers decide how many.
        notes: what a person should know before.
    """

    name: str
    job: LoadJob
    trace: Trace | None
    duration_s: float
    total: int | None
    notes: tuple[str, ...] = ()

    def start(self, **given: Any) -> LoadThread:
        """Start the client in its thread; `given` are further arguments of the client."""
        job = self.job
        given["limits"] = job.limits
        if job.bursts is not None:
            return start_closed_loop(job.endpoint, job.bursts, duration_s=self.duration_s, **given)
        assert self.trace is not None  # noqa: S101 - one of the two is there
        items = scheduled(self.trace, job.lengths, job.traffic.speed or 1.0)
        return start_open_loop(job.endpoint, items, **given)


def plan(job: LoadJob) -> Plan:
    """Check a job and read or make what it sends; raises `InputError`."""
    if job.bursts is not None:
        return _closed(job, job.bursts)
    # Event time cannot run faster than a real server: the run's clock is not looked at.
    planned = replays.plan(job.traffic, env={})
    trace, traffic = planned.subject, job.traffic
    if isinstance(trace, Recording):
        assert traffic.trace is not None  # noqa: S101 - a regime is no recording
        trace = read_trace(traffic.trace, RECORDING, traffic.on_bad)
        trace = trace if planned.duration_us is None else trace.head(planned.duration_us)
    return Plan(
        name=trace.name,
        job=job,
        trace=trace,
        duration_s=trace.duration_us / US_PER_S / planned.speed,
        total=len(trace),
        notes=planned.notes,
    )


def _closed(job: LoadJob, bursts: Bursts) -> Plan:
    traffic = job.traffic
    asked = {
        "a TRACE": traffic.trace,
        "--regime": traffic.regime,
        "--rate": traffic.rate_per_s,
        "--speed": traffic.speed,
        "--format": traffic.format_name,
    }
    for option, value in asked.items():
        if value is not None:
            msg = f"--closed-loop makes its own traffic, and {option} is given; leave out one"
            raise InputError(msg)
    duration_s = traffic.duration_s
    name = f"closed loop of {bursts.quiet} and {bursts.busy}"
    return Plan(
        name, job, None, replays.DEFAULT_DURATION_S if duration_s is None else duration_s, None
    )
