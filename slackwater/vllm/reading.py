"""vLLM's statistics as events: pure functions, and the one place that knows vLLM's field names.

These classes are not a stable interface of vLLM. An attribute that a release lacks, or that holds
something unexpected, is unknown (None) and never 0.

Arrival is the wall time at which the iteration was processed minus the end-to-end latency, which
vLLM takes from the same wall clock. Queue, prefill and decode are lengths measured on the
engine's monotonic clock, each between two of its readings: no figure mixes the two clocks.
"""

import math
from dataclasses import dataclass
from typing import Any

from slackwater.clock import US_PER_S, RunClock
from slackwater.errors import EventError
from slackwater.events import MAX_COUNT, MAX_NAME, MAX_TIME_US, MIN_TIME_US, Load, Request
from slackwater.statuses import Status

FOREVER_S = 1e12
OK = frozenset({"stop", "length", "repetition"})


@dataclass(frozen=True, slots=True)
class Sample:
    """What the scheduler showed at a wall time, in seconds since the epoch."""

    wall_s: float
    running: int
    waiting: int
    kv_cache_use: float | None

    @property
    def idle(self) -> bool:
        """True when nothing is served and nothing waits."""
        return self.running == 0 and self.waiting == 0


@dataclass(frozen=True, slots=True)
class Source:
    """Whose events these are.

    Attributes:
        run_id: the run.
        sidecar: the server's name.
        clock: event time, of speed 1.
        shared: True when other API servers use the same engine: then what this one last saw of
            its load says nothing about now.
    """

    run_id: str
    sidecar: str
    clock: RunClock
    shared: bool = False

    def event_us(self, wall_s: float) -> int:
        """Event time at a wall time in seconds; raises `EventError` for one that cannot be."""
        us = self.clock.event_us(round(wall_s * US_PER_S)) if abs(wall_s) < FOREVER_S else 0
        if not MIN_TIME_US <= us < MAX_TIME_US:
            msg = f"a time of {wall_s} s since the epoch; event time is between 2000 and 2100"
            raise EventError(msg)
        return us


def iteration_wall_s(iteration_stats: Any, now_s: float) -> float:
    """When vLLM processed the iteration, seconds of wall time; `now_s` where it does not say."""
    found = _seconds(iteration_stats, "iteration_timestamp")
    return now_s if found is None else found


def sample_of(scheduler_stats: Any, wall_s: float) -> Sample | None:
    """The load in the scheduler's statistics, None where they do not say how many requests."""
    running = _count(scheduler_stats, "num_running_reqs")
    waiting = _count(scheduler_stats, "num_waiting_reqs")
    if running is None or waiting is None:
        return None
    # Newer releases count those that cannot be scheduled yet apart; before, they were among these.
    waiting += _count(scheduler_stats, "num_skipped_waiting_reqs") or 0
    # The name before release 0.9.
    names = "kv_cache_usage", "gpu_cache_usage"
    found = [use for use in (_seconds(scheduler_stats, name) for name in names) if use is not None]
    use = min(found[0], 1.0) if found else None
    return Sample(wall_s, running, waiting, use)


def load_event(source: Source, sample: Sample, at_s: float, seq: int, dropped: int) -> Load:
    """A sample as it was seen at wall time `at_s`."""
    return Load(
        run_id=source.run_id,
        sidecar=source.sidecar,
        at_us=source.event_us(at_s),
        running=sample.running,
        waiting=sample.waiting,
        kv_cache_use=sample.kv_cache_use,
        seq=seq,
        dropped=dropped,
    )


def request_event(source: Source, finished: Any, wall_s: float, number: int) -> Request:
    """A finished request that vLLM reported in the iteration processed at `wall_s`.

    `number` names it where vLLM gives it no id. Raises `EventError` when nothing says how long
    it took: without that its arrival is unknown.
    """
    lasted_s = _lasted_s(finished)
    if lasted_s is None:
        msg = "a finished request without any latency: its arrival is unknown"
        raise EventError(msg)
    status = _status(getattr(finished, "finish_reason", None))
    whole_s = _seconds(finished, "e2e_latency")
    stages = _stages(finished, whole_s) if status == "ok" else {}
    return Request(
        run_id=source.run_id,
        sidecar=source.sidecar,
        at_us=source.event_us(wall_s),
        id=_name(getattr(finished, "request_id", None)) or f"{source.sidecar[:150]}-{number}",
        arrival_us=source.event_us(wall_s - lasted_s),
        status=status,
        e2e_s=whole_s if status == "ok" else None,
        queue_s=stages.get("queued_time"),
        prefill_s=stages.get("prefill_time"),
        decode_s=stages.get("decode_time"),
        prompt_tokens=_count(finished, "num_prompt_tokens"),
        output_tokens=_count(finished, "num_generation_tokens"),
    )


def _lasted_s(finished: Any) -> float | None:
    """Arrival to end; by the engine's stages where vLLM has no end-to-end latency."""
    whole = _seconds(finished, "e2e_latency")
    if whole is not None:
        return whole
    stages = [_seconds(finished, name) for name in ("queued_time", "inference_time")]
    known = [stage for stage in stages if stage is not None]
    return sum(known) if len(known) == len(stages) else None


def _stages(finished: Any, whole_s: float | None) -> dict[str, float]:
    """The stages that are known. One longer than the whole began or ended at a time never set."""
    found = {n: _seconds(finished, n) for n in ("queued_time", "prefill_time", "decode_time")}
    longest = math.inf if whole_s is None else whole_s
    return {name: s for name, s in found.items() if s is not None and s <= longest}


def _status(reason: Any) -> Status:
    """How a request ended, by vLLM's finish reason: an enumeration, or its name."""
    name = str(getattr(reason, "name", reason)).lower()
    if name in OK:
        return "ok"
    return "aborted" if name == "abort" else "error"


def _seconds(stats: Any, name: str) -> float | None:
    """A figure that is a finite number of at least 0 and can be a time, else None."""
    value = getattr(stats, name, None)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < FOREVER_S else None


def _count(stats: Any, name: str) -> int | None:
    """A whole number of at least 0, else None."""
    value = getattr(stats, name, None)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= MAX_COUNT else None


def _name(value: Any) -> str | None:
    """A text that an event can carry as a name; of a long one its end, which tells apart."""
    if not isinstance(value, str) or not value:
        return None
    return value[-MAX_NAME:].encode(errors="replace").decode()
