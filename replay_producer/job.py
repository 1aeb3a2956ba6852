"""What a person asked to replay, checked as a whole before anything is connected."""

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec

from replay_producer.fleet import Fleet, Latency, check_latency, spread
from replay_producer.generators import Shape, check_regime, generate
from replay_producer.readers import RECORDING, check_format, detect_format, read_trace
from replay_producer.recording import Recording, RecordingSource, read_recording
from replay_producer.replay import Control, ReplayReport, replay, replay_recording
from replay_producer.rows import OnBad
from replay_producer.sidecar import PAPER_SLOWDOWN, ServiceSettings
from replay_producer.source import Source
from replay_producer.trace import Trace
from slackwater.clock import CLOCK_ENV, MAX_SPEED, US_PER_S, RunClock
from slackwater.errors import InputError
from slackwater.settings import RunSettings

DEFAULT_REGIME = "ordinary"
DEFAULT_DURATION_S = 90.0


class ReplayJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of `slackwater replay`; None takes the default.

    Attributes:
        trace: a file; None generates a regime.
        regime: name of a regime.
        rate_per_s: mean requests a second of a regime.
        duration_s: wall seconds; times the speed gives event time.
        speed: event seconds a wall second.
        sidecars: how many.
        slots: requests that a sidecar serves at once.
        slowdown: how many times longer work takes while a merge runs.
        seed: of a regime's random numbers.
        format_name: forces a format.
        on_bad: what to do with rows that cannot be used.
        latency: `model` or `recorded`.
    """

    trace: Path | None = None
    regime: str | None = None
    rate_per_s: float | None = None
    duration_s: float | None = None
    speed: float | None = None
    sidecars: int | None = None
    slots: int = 4
    slowdown: float = PAPER_SLOWDOWN
    seed: int = 0
    format_name: str | None = None
    on_bad: OnBad = "stop"
    latency: str = "model"


@dataclass(frozen=True, slots=True)
class Plan:
    """A job whose every value has been checked and whose input has been read.

    Attributes:
        subject: what will be replayed.
        clock: the run's, None when the replay makes its own.
        speed: event seconds a wall second.
        duration_us: event time asked for, None for all of the subject.
        sidecars: how many, None for those the trace names.
        service: how a sidecar serves.
        latency: `model` or `recorded`.
    """

    subject: Trace | Recording
    clock: RunClock | None
    speed: float
    duration_us: int | None
    sidecars: int | None
    service: ServiceSettings
    latency: Latency

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know before the replay."""
        asked, there = self.duration_us, self.subject.duration_us
        if asked is None or there >= asked:
            return self.subject.notes
        ends = f"it ends after {there / US_PER_S / self.speed:.1f} s of wall time"
        return (*self.subject.notes, f"shorter than the duration asked for: {ends}")

    def source(self, origin_us: int, run_id: str) -> Source:
        """The events, for use without a broker."""
        if isinstance(self.subject, Recording):
            return RecordingSource(self.subject, origin_us, run_id, self.duration_us)
        return Fleet(
            self.subject,
            origin_us,
            run_id,
            sidecars=self.sidecars,
            service=self.service,
            latency=self.latency,
        )

    def run(self, run: RunSettings, control: Control) -> ReplayReport:
        """Replay in time; raises `BrokerError` when no broker answers."""
        if isinstance(self.subject, Recording):
            return replay_recording(
                self.subject, run, self.make_clock, duration_us=self.duration_us, control=control
            )
        return replay(
            self.subject,
            run,
            self.make_clock,
            sidecars=self.sidecars,
            service=self.service,
            latency=self.latency,
            control=control,
        )

    def make_clock(self) -> RunClock:
        """The run's clock, else one that starts now."""
        if self.clock is not None:
            return self.clock
        now_us = time.time_ns() // 1000
        return RunClock(now_us, now_us, self.speed)


def plan(job: ReplayJob, env: Mapping[str, str] = os.environ) -> Plan:
    """Check a job and read or make what it replays; raises `InputError`."""
    latency = _check_latency_name(job.latency)
    clock = RunClock.decode(env[CLOCK_ENV]) if env.get(CLOCK_ENV) else None
    speed = _speed(job.speed, clock)
    duration_us = _duration_us(job.duration_s, speed)
    if job.slots < 1:
        msg = f"--slots is {job.slots}; it must be 1 or more"
        raise InputError(msg)
    if not 1 <= job.slowdown < 1e6:
        msg = f"--slowdown is {job.slowdown:g}; it must be 1 or more"
        raise InputError(msg)
    subject = _subject(job, speed, duration_us)
    if isinstance(subject, Trace):
        spread(subject, job.sidecars)
        check_latency(subject, latency)
    return Plan(
        subject=subject,
        clock=clock,
        speed=speed,
        duration_us=duration_us,
        sidecars=job.sidecars,
        service=ServiceSettings(slots=job.slots, slowdown=job.slowdown),
        latency=latency,
    )


def _subject(job: ReplayJob, speed: float, duration_us: int | None) -> Trace | Recording:
    if job.trace is None:
        return _regime(job, speed)
    given = {"--regime": job.regime, "--rate": job.rate_per_s}
    extra = " and ".join(name for name, value in given.items() if value is not None)
    if extra:
        msg = f"{extra} make a trace, but {job.trace} is given; leave out one of the two"
        raise InputError(msg)
    forced = check_format(job.format_name) if job.format_name is not None else None
    if (forced or detect_format(job.trace)) == RECORDING:
        return read_recording(job.trace, job.on_bad)
    trace = read_trace(job.trace, forced, job.on_bad)
    return trace if duration_us is None else trace.head(duration_us)


def _regime(job: ReplayJob, speed: float) -> Trace:
    if job.format_name is not None:
        msg = f"--format {job.format_name} is for a file; give a TRACE, or leave --format out"
        raise InputError(msg)
    regime = check_regime(job.regime or DEFAULT_REGIME)
    duration_s = (job.duration_s or DEFAULT_DURATION_S) * speed
    return generate(regime, duration_s, job.rate_per_s, job.seed, Shape().within(duration_s))


def _speed(speed: float | None, clock: RunClock | None) -> float:
    if speed is not None and not 0 < speed <= MAX_SPEED:
        msg = f"--speed is {speed:g}; it must be above 0 and at most {MAX_SPEED:g}"
        raise InputError(msg)
    if clock is None:
        return 1.0 if speed is None else speed
    if speed is not None and speed != clock.speed:
        msg = f"--speed is {speed:g} but {CLOCK_ENV} says {clock.speed:g}; leave --speed out"
        raise InputError(msg)
    return clock.speed


def _duration_us(duration_s: float | None, speed: float) -> int | None:
    if duration_s is None:
        return None
    if not 0 < duration_s < 1e9:
        msg = f"--duration is {duration_s:g} s; it must be above 0 and below 1e9"
        raise InputError(msg)
    return round(duration_s * speed * US_PER_S)


def _check_latency_name(name: str) -> Latency:
    for known in get_args(Latency):
        if name == known:
            return known  # type: ignore[no-any-return]
    msg = f"--latency is {name!r}; it must be one of {', '.join(get_args(Latency))}"
    raise InputError(msg)
