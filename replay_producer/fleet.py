"""A trace served by modelled sidecars: the `request` and `load` events that come of it.

Requests keep the sidecar that the trace names. Where it names none, or a number of sidecars is
asked for, the i-th request in order of arrival goes to sidecar i mod N: the same for every
run, whatever the speed. A `request` is sent at its very finish; `load` samples are taken every
100 ms of event time on every sidecar, idle ones too, and count what arrived or finished by then.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

import numpy as np

from replay_producer.sidecar import Job, Served, ServiceSettings, Sidecar
from replay_producer.source import Message
from replay_producer.trace import UNKNOWN_TOKENS, Ints, Trace
from slackwater.clock import US_PER_S
from slackwater.errors import InputError
from slackwater.events import Load, Request
from slackwater.topics import REQUESTS

LOAD_PERIOD_US = 100_000
DEFAULT_SIDECARS = 2
MAX_SIDECARS = 1000

Latency = Literal["model", "recorded"]


def spread(trace: Trace, sidecars: int | None) -> dict[str, Ints]:
    """Sidecar name -> indices into the trace of the requests it serves.

    Raises `InputError` when the number of sidecars is out of range.
    """
    if sidecars is None and all(name is not None for name in trace.sidecar):
        names = sorted(set(trace.sidecar))
        return {name: np.flatnonzero(trace.sidecar == name) for name in names}
    count = DEFAULT_SIDECARS if sidecars is None else sidecars
    if not 1 <= count <= MAX_SIDECARS:
        msg = f"--sidecars is {count}; it must be from 1 to {MAX_SIDECARS}"
        raise InputError(msg)
    return {f"sidecar-{i}": np.arange(i, len(trace), count) for i in range(count)}


def check_latency(trace: Trace, latency: Latency) -> Latency:
    """Return `latency`; raises `InputError` when the trace does not record what it needs."""
    missing = int(np.count_nonzero(np.isnan(trace.e2e_s) & (trace.status == "ok")))
    if latency == "recorded" and missing:
        msg = (
            f"{trace.name}: {missing} of {len(trace)} requests have no recorded latency; "
            "use --latency model"
        )
        raise InputError(msg)
    return latency


@dataclass(slots=True)
class _Lane:
    """One sidecar: its model, its requests, and how many of them have arrived."""

    name: str
    model: Sidecar
    indices: Ints
    fed: int = 0
    samples: int = 0


class Fleet:
    """The sidecars of one run, as a replayable source of events.

    Args:
        trace: the requests; its first instant is placed at `origin_us`.
        origin_us: event time, microseconds since the epoch.
        run_id: carried by every event.
        sidecars: how many, None for those the trace names (else 2).
        service: how a sidecar serves.
        latency: `model` takes the work from the token counts and queues for slots; `recorded`
            takes the recorded latency as the work, without a queue, and still slows it during
            merges.
    """

    def __init__(
        self,
        trace: Trace,
        origin_us: int,
        run_id: str,
        *,
        sidecars: int | None = None,
        service: ServiceSettings | None = None,
        latency: Latency = "model",
    ) -> None:
        self._trace = trace
        self._origin_us = origin_us
        self._run_id = run_id
        self._service = service or ServiceSettings()
        self._latency = check_latency(trace, latency)
        slots = self._service.slots if latency == "model" else None
        self._lanes = [
            _Lane(name, Sidecar(slots, self._service.slowdown), indices)
            for name, indices in spread(trace, sidecars).items()
        ]
        self._end_us = origin_us + trace.duration_us
        self._sample_us: int | None = origin_us
        self._held: list[Message] = []
        self.arrived = 0
        self.requests = 0
        self.loads = 0

    @property
    def in_flight(self) -> int:
        """Requests that arrived and have not finished."""
        return self.arrived - self.requests

    def next_us(self) -> int | None:
        """Event time of the next arrival, finish or load sample; None when all is served."""
        if self._sample_us is None:
            return None
        times = [self._sample_us]
        for lane in self._lanes:
            if lane.fed < len(lane.indices):
                times.append(self._arrival_us(lane))
            finish_us = lane.model.next_finish_us()
            if finish_us is not None:
                times.append(finish_us)
        return min(times)

    def advance(self, to_us: int) -> list[Message]:
        """Requests finished and load samples taken up to `to_us`, in order of `at_us`.

        At equal times a request comes before the sample that no longer counts it.
        """
        messages, self._held = self._held, []
        while self._sample_us is not None and self._sample_us <= to_us:
            messages += self._serve(self._sample_us)
            messages += [self._sample(lane, self._sample_us) for lane in self._lanes]
            self._sample_us = self._next_sample(self._sample_us)
        return messages + self._serve(to_us)

    def set_merging(self, at_us: int, on: bool) -> None:
        """A merge begins or ends to slow all sidecars at `at_us`."""
        self._held = self.advance(at_us)
        for lane in self._lanes:
            lane.model.set_merging(at_us, on)

    def _next_sample(self, at_us: int) -> int | None:
        # The last sample is the first one that finds the trace over and every sidecar empty.
        over = at_us >= self._end_us and self.arrived == len(self._trace) and not self.in_flight
        return None if over else at_us + LOAD_PERIOD_US

    def _serve(self, to_us: int) -> list[Message]:
        messages = [message for lane in self._lanes for message in self._serve_lane(lane, to_us)]
        self.requests += len(messages)
        return sorted(messages, key=attrgetter("at_us"))

    def _serve_lane(self, lane: _Lane, to_us: int) -> Iterator[Message]:
        while lane.fed < len(lane.indices) and self._arrival_us(lane) <= to_us:
            lane.model.arrive(self._job(lane))
            lane.fed += 1
            self.arrived += 1
        for served in lane.model.advance(to_us):
            yield self._request(lane.name, served)

    def _arrival_us(self, lane: _Lane) -> int:
        return self._origin_us + int(self._trace.arrival_us[lane.indices[lane.fed]])

    def _job(self, lane: _Lane) -> Job:
        i = int(lane.indices[lane.fed])
        trace, arrival_us = self._trace, self._arrival_us(lane)
        if self._latency == "recorded" and not math.isnan(trace.e2e_s[i]):
            total_us = round(float(trace.e2e_s[i]) * US_PER_S)
            ttft_s = float(trace.ttft_s[i])
            first_us = total_us if math.isnan(ttft_s) else min(total_us, round(ttft_s * US_PER_S))
            return Job(i, arrival_us, first_us, total_us - first_us)
        prefill_us = self._service.prefill_us(int(trace.prompt_tokens[i]))
        return Job(i, arrival_us, prefill_us, self._service.decode_us(int(trace.output_tokens[i])))

    def _request(self, sidecar: str, served: Served) -> Message:
        i = served.job.index
        event = Request(
            run_id=self._run_id,
            at_us=served.finish_us,
            sidecar=sidecar,
            id=f"r{i}",
            tenant=self._trace.tenant[i],
            arrival_us=served.job.arrival_us,
            status=self._trace.status[i],
            prompt_tokens=_known(self._trace.prompt_tokens, i),
            output_tokens=_known(self._trace.output_tokens, i),
            **self._latencies(i, served),
        )
        return Message(REQUESTS, sidecar, event.at_us, event)

    def _latencies(self, i: int, served: Served) -> dict[str, Any]:
        """The latency figures that are known: none of a request that did not end well."""
        if self._trace.status[i] != "ok":
            return {}
        if self._latency == "recorded":
            known = {} if math.isnan(self._trace.ttft_s[i]) else {"ttft_s": served.ttft_s}
            return {"e2e_s": served.e2e_s, **known}
        names = ("ttft_s", "e2e_s", "queue_s", "prefill_s", "decode_s")
        return {name: getattr(served, name) for name in names}

    def _sample(self, lane: _Lane, at_us: int) -> Message:
        event = Load(
            run_id=self._run_id,
            at_us=at_us,
            sidecar=lane.name,
            running=lane.model.running,
            waiting=lane.model.waiting,
            seq=lane.samples,
        )
        lane.samples += 1
        self.loads += 1
        return Message(REQUESTS, lane.name, at_us, event)


def _known(counts: Ints, i: int) -> int | None:
    return None if counts[i] == UNKNOWN_TOKENS else int(counts[i])
