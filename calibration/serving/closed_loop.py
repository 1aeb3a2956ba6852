"""The closed-loop model: the paper's batch client, which sends no more until a batch is back."""

from dataclasses import dataclass

import numpy as np

from calibration.serving.batches import Batches, run_batches
from calibration.serving.concurrency import BurstSchedule, Concurrency, Recorded
from calibration.serving.contract import Floats, Requests, Served, Windows
from slackwater.errors import InputError

RUNS_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """One client a sidecar keeps c requests in one batch; all of a batch share its latency.

    Attributes:
        batch_s: a batch's time without merges.
        slowed_batch_s: a batch's time when it starts inside a window.
        schedule: c over time; None takes what was recorded in each `batch_s` of the trace.

    The defaults are the paper's. Harmed means: in a batch that started inside a window.
    """

    batch_s: float = 0.73
    slowed_batch_s: float = 1.24
    schedule: BurstSchedule | None = None

    def __post_init__(self) -> None:
        if not 0 < self.batch_s <= self.slowed_batch_s < np.inf:
            msg = (
                f"batches of {self.batch_s:g} s that take {self.slowed_batch_s:g} s in a window; "
                "the times must be above 0 s, and the second no shorter than the first"
            )
            raise InputError(msg)

    @property
    def name(self) -> str:
        """The name in the registry."""
        return "closed_loop"

    def serve(self, requests: Requests, windows: Windows) -> Served:
        """What each sidecar's client sent, merged in order of time.

        With a schedule the requests given say only how long the run is and which sidecars there
        are; the `request` index of what was sent is then -1.
        """
        parts = [self._client(requests, own, windows) for own in requests.by_sidecar()]
        request, arrival_s, slowed = (
            np.concatenate([part[k] for part in parts]) if parts else np.empty(0) for k in range(3)
        )
        order = np.lexsort((request, arrival_s))
        harmed = slowed[order].astype(np.bool_)
        return Served(
            request=request[order].astype(np.int64),
            arrival_s=arrival_s[order].astype(np.float64),
            latency_s=np.where(harmed, self.slowed_batch_s, self.batch_s),
            harmed=harmed,
        )

    def _client(
        self, requests: Requests, own: np.ndarray, windows: Windows
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        recorded = Recorded(requests.arrival_s[own], requests.duration_s, self.batch_s)
        made = self._run(
            self.schedule or recorded,
            requests.duration_s,
            windows.starts_s[None, :],
            windows.window_s,
        )
        size = made.size[0]
        within = np.arange(int(size.sum())) - np.repeat(np.cumsum(size) - size, size)
        sent = np.repeat(recorded.first_request(made.start_s[0]), size) + within
        request = np.full(len(sent), -1) if self.schedule else own[sent]
        return request, np.repeat(made.start_s[0], size), np.repeat(made.slowed[0], size)

    def _run(
        self, concurrency: Concurrency, duration_s: float, starts_s: Floats, window_s: float
    ) -> Batches:
        return run_batches(
            concurrency, duration_s, starts_s, window_s, self.batch_s, self.slowed_batch_s
        )

    def violation_rates(
        self, requests: Requests, starts_s: Floats, window_s: float, slo_s: float
    ) -> Floats:
        """[runs] violation rate under each row of `starts_s` [runs, merges]; NaN if none was sent.

        The same figures as `serve` one row at a time; this is what an envelope is made with.
        """
        clients: list[Concurrency] = [
            self.schedule or Recorded(requests.arrival_s[own], requests.duration_s, self.batch_s)
            for own in requests.by_sidecar()
        ]
        late = np.zeros(len(starts_s))
        sent = np.zeros(len(starts_s))
        for low in range(0, len(starts_s), RUNS_AT_ONCE):
            rows = slice(low, low + RUNS_AT_ONCE)
            for client in clients:
                made = self._run(client, requests.duration_s, starts_s[rows], window_s)
                slow = np.where(made.slowed, self.slowed_batch_s, self.batch_s) > slo_s
                late[rows] += (made.size * slow).sum(axis=1)
                sent[rows] += made.size.sum(axis=1)
        return np.where(sent > 0, late / np.maximum(sent, 1.0), np.nan)
