"""A queueing model of one sidecar in event time: what latency a replayed request would have had.

`slots` requests are in service at once, the rest wait in order of arrival. A request needs a
fixed amount of work: overhead and prefill, then decode. All work progresses at rate 1, and at
1 / slowdown while a merge occupies the host; a change in mid-service counts from its very
microsecond. Latency counts from arrival, so the queue is part of it.

Work is kept in integer units of 1 / n microsecond (slowdown = n / d), so the results do not depend
on how often, or in what portions, the model is asked to advance.
"""

import heapq
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import msgspec
from msgspec import Meta

from slackwater.clock import US_PER_S

# Seconds of one batch inside and outside a merge window, as the paper measured them.
PAPER_SLOWDOWN = 1.24 / 0.73
MAX_DENOMINATOR = 1000


class ServiceSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a modelled sidecar serves; the defaults give ordinary requests 0.3 to 0.7 s.

    Attributes:
        slots: requests in service at once.
        prefill_tokens_per_s: prompt tokens read in a second.
        token_s: seconds for each output token.
        overhead_s: seconds every request takes besides.
        slowdown: how many times longer work takes while a merge runs, at least 1.
        assumed_prompt_tokens: taken for a request whose prompt length is unknown.
        assumed_output_tokens: taken for a request whose output length is unknown.
    """

    slots: Annotated[int, Meta(ge=1)] = 4
    prefill_tokens_per_s: Annotated[float, Meta(gt=0)] = 20_000.0
    token_s: Annotated[float, Meta(ge=0)] = 0.006
    overhead_s: Annotated[float, Meta(ge=0)] = 0.02
    slowdown: Annotated[float, Meta(ge=1)] = PAPER_SLOWDOWN
    assumed_prompt_tokens: Annotated[int, Meta(ge=0)] = 512
    assumed_output_tokens: Annotated[int, Meta(ge=0)] = 64

    def prefill_us(self, prompt_tokens: int) -> int:
        """Work up to the first token in microseconds, at least 1; negative tokens are unknown."""
        count = self.assumed_prompt_tokens if prompt_tokens < 0 else prompt_tokens
        work_s = self.overhead_s + count / self.prefill_tokens_per_s
        return max(1, round(work_s * US_PER_S))

    def decode_us(self, output_tokens: int) -> int:
        """Work after the first token in microseconds; negative tokens are unknown."""
        count = self.assumed_output_tokens if output_tokens < 0 else output_tokens
        return round(count * self.token_s * US_PER_S)


@dataclass(frozen=True, slots=True)
class Job:
    """A request to serve: its place in the trace, arrival (event time) and work, microseconds."""

    index: int
    arrival_us: int
    prefill_us: int
    decode_us: int


@dataclass(frozen=True, slots=True)
class Served:
    """A finished request: the job and when each of its stages began or ended, event time."""

    job: Job
    start_us: int
    first_token_us: int
    finish_us: int

    @property
    def queue_s(self) -> float:
        """Seconds from arrival until service began."""
        return (self.start_us - self.job.arrival_us) / US_PER_S

    @property
    def prefill_s(self) -> float:
        """Seconds from the begin of service to the first token."""
        return (self.first_token_us - self.start_us) / US_PER_S

    @property
    def decode_s(self) -> float:
        """Seconds from the first token to the last."""
        return (self.finish_us - self.first_token_us) / US_PER_S

    @property
    def ttft_s(self) -> float:
        """Seconds from arrival to the first token."""
        return (self.first_token_us - self.job.arrival_us) / US_PER_S

    @property
    def e2e_s(self) -> float:
        """Seconds from arrival to the end."""
        return (self.finish_us - self.job.arrival_us) / US_PER_S


class WorkMeter:
    """Work that a request in service since the beginning would have had done, at any time.

    A piecewise linear function of event time, exact in integers, and its inverse.
    """

    def __init__(self, slowdown: float) -> None:
        ratio = Fraction(slowdown).limit_denominator(MAX_DENOMINATOR)
        self.units_per_us = ratio.numerator
        self._merging_rate = ratio.denominator
        self._since_us = [0]
        self._done = [0]
        self._rate = [self.units_per_us]

    def set_merging(self, at_us: int, on: bool) -> None:
        """From `at_us` on work is slow, or not; times must not go back."""
        done = self.done_at(at_us)
        self._since_us.append(at_us)
        self._done.append(done)
        self._rate.append(self._merging_rate if on else self.units_per_us)

    def done_at(self, at_us: int) -> int:
        """Work done by `at_us`, which is not before the last change of rate."""
        return self._done[-1] + (at_us - self._since_us[-1]) * self._rate[-1]

    def time_of(self, done: int) -> int:
        """First whole microsecond by which that much work is done, if the rate stays."""
        i = max(0, bisect_left(self._done, done) - 1)
        return self._since_us[i] - (self._done[i] - done) // self._rate[i]


class Sidecar:
    """One modelled sidecar; calls must not go back in event time.

    Args:
        slots: requests in service at once, None for no limit.
        slowdown: how many times longer work takes while a merge runs.
    """

    def __init__(self, slots: int | None, slowdown: float) -> None:
        self._slots = slots
        self._meter = WorkMeter(slowdown)
        self._waiting: deque[Job] = deque()
        self._running: list[tuple[int, int, Job, int]] = []
        self._served: list[Served] = []
        self._started = 0
        self._now_us = 0

    @property
    def running(self) -> int:
        """Requests in service at the time last advanced to."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Requests in the queue at the time last advanced to."""
        return len(self._waiting)

    def arrive(self, job: Job) -> None:
        """A request arrives, at its own `arrival_us`; raises `ValueError` when that is past."""
        self._go(job.arrival_us)
        self._waiting.append(job)
        self._fill(job.arrival_us)

    def set_merging(self, at_us: int, on: bool) -> None:
        """A merge begins or ends to slow the work at `at_us`; raises `ValueError` when past."""
        self._go(at_us)
        self._meter.set_merging(at_us, on)

    def advance(self, to_us: int) -> list[Served]:
        """Requests that finished by `to_us` and were not returned before, in order of finish."""
        self._go(to_us)
        served, self._served = self._served, []
        return served

    def next_finish_us(self) -> int | None:
        """When the next request will finish if nothing changes; None when none is in service."""
        return self._meter.time_of(self._running[0][0]) if self._running else None

    def _go(self, to_us: int) -> None:
        if to_us < self._now_us:
            msg = f"time {to_us} lies before {self._now_us}, up to where the model has run"
            raise ValueError(msg)
        while self._running:
            finish_us = self._meter.time_of(self._running[0][0])
            if finish_us > to_us:
                break
            self._finish(finish_us)
        self._now_us = to_us

    def _finish(self, finish_us: int) -> None:
        end, _, job, start_us = heapq.heappop(self._running)
        first = end - job.decode_us * self._meter.units_per_us
        self._served.append(Served(job, start_us, self._meter.time_of(first), finish_us))
        self._fill(finish_us)

    def _fill(self, at_us: int) -> None:
        while self._waiting and (self._slots is None or len(self._running) < self._slots):
            job = self._waiting.popleft()
            work = (job.prefill_us + job.decode_us) * self._meter.units_per_us
            end = self._meter.done_at(at_us) + work
            heapq.heappush(self._running, (end, self._started, job, at_us))
            self._started += 1
