"""The closed-loop model: the paper's batch client, which sends no more until a batch is back."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibration.serving.batches import Client, part_of
from calibration.serving.concurrency import BurstSchedule, check_pieces, recorded
from calibration.serving.contract import Floats, Requests, Served, Windows
from slackwater.errors import InputError

Indices = NDArray[np.int64]
MOST_S = 1e6
MOST_SENT = 100_000_000
SCATTER_MEAN = 1e-3
MOST_PARTS = 1_000


@dataclass(frozen=True, slots=True)
class ClosedLoop:
    """One client a sidecar keeps c requests in one batch; all of a batch share its latency.

    Attributes:
        batch_s: a batch's mean time without merges; the next one starts so much later.
        slowed_batch_s: mean time of a batch that starts inside a window.
        schedule: c over time; None takes what was recorded in each `batch_s` of the trace.
        scatter: how batches lie about their mean: equally many of them take each of these times
            `batch_s`. Rising; of mean 1.
        slowed_scatter: the same about `slowed_batch_s`; as many.

    The defaults are the paper's, which has two times and no scatter. Harmed means: in a batch that
    started inside a window.
    """

    batch_s: float = 0.73
    slowed_batch_s: float = 1.24
    schedule: BurstSchedule | None = None
    scatter: tuple[float, ...] = (1.0,)
    slowed_scatter: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        if not 0 < self.batch_s <= self.slowed_batch_s <= MOST_S:
            msg = (
                f"batch_s {self.batch_s:g}, slowed_batch_s {self.slowed_batch_s:g}: the times must "
                f"be above 0 s, the second no shorter than the first and up to {MOST_S:,.0f} s"
            )
            raise InputError(msg)
        for name, given in (("scatter", self.scatter), ("slowed_scatter", self.slowed_scatter)):
            _check_scatter(name, given, len(self.scatter))

    @property
    def name(self) -> str:
        """The name in the registry."""
        return "closed_loop"

    def serve(self, requests: Requests, windows: Windows) -> Served:
        """What each sidecar's client sent, merged in order of time.

        With a schedule the requests given say only how long the run is and which sidecars there
        are; the `request` index of what was sent is then -1.
        """
        parts = [self._sent(requests, own, windows) for own in requests.by_sidecar()]
        request, arrival_s, slowed, batch = (
            np.concatenate([part[k] for part in parts]) for k in range(4)
        )
        order = np.lexsort((request, arrival_s))
        row, batch = slowed[order].astype(np.int64), batch[order].astype(np.int64)
        return Served(
            request=request[order].astype(np.int64),
            arrival_s=arrival_s[order].astype(np.float64),
            latency_s=self._times_s()[row, part_of(batch, len(self.scatter))],
            harmed=row.astype(np.bool_),
        )

    def _times_s(self) -> Floats:
        """[2, parts] what batches take: row 0 without merges, row 1 slowed."""
        usual = self.batch_s * np.array(self.scatter)
        return np.stack([usual, self.slowed_batch_s * np.array(self.slowed_scatter)])

    def _sent(
        self, requests: Requests, own: Indices, windows: Windows
    ) -> tuple[Indices, Floats, Indices, Indices]:
        """Index (-1 by schedule), time, slowed and batch of each request that one client sent."""
        client = self._client(requests, own)
        start_s, piece, slowed = client.batches(windows.starts_s, windows.window_s)
        size = client.concurrency.size
        each = size[piece]
        if each.sum() > MOST_SENT:
            msg = (
                f"a closed-loop client would send {each.sum():,} requests in a run, and "
                f"{MOST_SENT:,} are allowed; take longer batches, shorter runs or fewer at a time"
            )
            raise InputError(msg)
        within = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
        request = np.full(len(within), -1)
        if self.schedule is None:
            request = own[np.repeat((np.cumsum(size) - size)[piece], each) + within]
        batch = np.repeat(np.arange(len(each)), each)
        return request, np.repeat(start_s, each), np.repeat(slowed, each), batch

    def _client(self, requests: Requests, own: Indices) -> Client:
        check_pieces("batch_s", self.batch_s, requests.duration_s)
        concurrency = (
            recorded(requests.arrival_s[own], requests.duration_s, self.batch_s)
            if self.schedule is None
            else self.schedule.over(requests.duration_s)
        )
        return Client(concurrency, requests.duration_s, self.batch_s, self.slowed_batch_s)

    def violation_rates(
        self, requests: Requests, starts_s: Floats, window_s: float, slo_s: float
    ) -> Floats:
        """[runs] violation rate under each row of `starts_s` [runs, merges]; NaN if none was sent.

        The same figures as `serve` one row at a time; this is what an envelope is made with.
        """
        sent = np.zeros(len(starts_s), dtype=np.int64)
        late = np.zeros(len(starts_s), dtype=np.int64)
        over = self._times_s() > slo_s
        for own in requests.by_sidecar():
            more, later = self._client(requests, own).totals(starts_s, window_s, over)
            sent += more
            late += later
        return np.where(sent > 0, late / np.maximum(sent, 1), np.nan)


def _check_scatter(name: str, scatter: tuple[float, ...], length: int) -> None:
    """Raise `InputError` for times that no batches can have."""
    given = np.array(scatter, dtype=np.float64)
    if not (
        0 < len(given) == length <= MOST_PARTS
        and ((given > 0) & (given <= MOST_S)).all()
        and (np.diff(given) >= 0).all()
        and abs(given.mean() - 1) < SCATTER_MEAN
    ):
        ends = f" from {given.min():g} to {given.max():g}" if len(given) else ""
        msg = (
            f"{name}: {len(given)} figures{ends}; they must be above 0, rise, have a mean of 1, "
            f"and there must be 1 to {MOST_PARTS:,}, as many of scatter as of slowed_scatter"
        )
        raise InputError(msg)
