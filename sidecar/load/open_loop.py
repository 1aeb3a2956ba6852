"""The open loop: requests go out when they are due, however long earlier ones take."""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Self

import msgspec

from sidecar.load.account import Account
from sidecar.load.anchor import NS_PER_US, Anchor
from sidecar.load.endpoint import Endpoint
from sidecar.load.exchange import Exchange, connect
from sidecar.load.outcome import Outcome, dropped
from sidecar.load.schedule import Scheduled
from sidecar.load.tasks import side_by_side
from slackwater.errors import InputError

OnOutcome = Callable[[Outcome], None]


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client does not go beyond.

    Attributes:
        timeout_s: seconds from sending after which a request is given up.
        most_in_flight: requests that come due while so many are in flight are dropped, and counted.
    """

    timeout_s: float = 60.0
    most_in_flight: int = 512

    def __post_init__(self) -> None:
        if not 0 < self.timeout_s < 1e6:
            msg = f"the time-out is {self.timeout_s:g} s; it must be above 0 and below a million"
            raise InputError(msg)
        if self.most_in_flight < 1:
            msg = f"{self.most_in_flight} requests in flight are allowed; it must be 1 or more"
            raise InputError(msg)


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a client did; `ended` adds up to `scheduled`, or there would be no report.

    Attributes:
        scheduled: requests that came due.
        ended: how many ended in which way, each of the five named.
        started_us: microseconds since the epoch from which arrivals count.
        lasted_s: from then until the last request ended.
        client_cpu_s: CPU seconds of the client's thread in that time.
    """

    scheduled: int
    ended: dict[str, int]
    started_us: int
    lasted_s: float
    client_cpu_s: float


class Session:
    """What both loops share: the connection, the account and the report at the end.

    Args:
        endpoint: where requests go.
        limits: what is not gone beyond.
        on_outcome: called in the loop's thread with each outcome, as it comes; be quick.
        anchor: the clock of all outcomes; None takes one now.
        account: counts what comes due and ends; None makes one.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        limits: Limits,
        on_outcome: OnOutcome | None,
        anchor: Anchor | None,
        account: Account | None,
    ) -> None:
        self.anchor = anchor or Anchor.now()
        self.account = account or Account()
        self.limits = limits
        self._endpoint = endpoint
        self._on_outcome = on_outcome
        self._http: Any = None
        self.exchange: Exchange
        self.started_ns = 0
        self._cpu_s = 0.0

    async def __aenter__(self) -> Self:
        self._http = await connect(self._endpoint).__aenter__()
        self.exchange = Exchange(
            self._http, self._endpoint, self.anchor, self.limits.timeout_s, self.deliver
        )
        self._cpu_s, self.started_ns = time.thread_time(), time.monotonic_ns()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.__aexit__(*error)

    def deliver(self, outcome: Outcome) -> None:
        """Count an outcome and hand it on."""
        self.account.end(outcome)
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    def due_us(self, after_us: int) -> int:
        """Event time of `after_us` microseconds after the start."""
        return self.anchor.at(self.started_ns + after_us * NS_PER_US)

    def report(self) -> LoadReport:
        """The report, once nothing is in flight; raises `AccountError` when it does not add up."""
        self.account.check()
        return LoadReport(
            scheduled=self.account.scheduled,
            ended=self.account.ended,
            started_us=self.due_us(0),
            lasted_s=(time.monotonic_ns() - self.started_ns) / 1e9,
            client_cpu_s=time.thread_time() - self._cpu_s,
        )


async def run_open_loop(
    endpoint: Endpoint,
    schedule: Iterable[Scheduled],
    *,
    until: asyncio.Event | None = None,
    on_outcome: OnOutcome | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    anchor: Anchor | None = None,
    account: Account | None = None,
) -> LoadReport:
    """Send each request of a schedule when it is due, and return when all have ended.

    Latencies count from the scheduled arrival: a client that is late adds its lag to them, and
    says it in `Outcome.lag_s`. A cancelled client delivers what is in flight as `aborted`.

    Args:
        endpoint: where they go.
        schedule: in order of `after_us`, which counts from the call; it may be endless.
        until: once it is set nothing more comes due; what is in flight is waited for.
        on_outcome: called with each outcome as it comes, in this thread; be quick.
        limits: time-out, and requests in flight.
        anchor: the clock of all times; give one to share it with others who measure.
        account: to look at the counts while it runs.

    Raises:
        AccountError: requests are unaccounted for.
    """
    async with Session(endpoint, limits, on_outcome, anchor, account) as session:
        async with side_by_side() as group:
            for item in schedule:
                if await _ended_before(session, item.after_us, until):
                    break
                _let_go(session, group, item)
        return session.report()


async def _ended_before(session: Session, after_us: int, until: asyncio.Event | None) -> bool:
    """Wait until a request is due; True when the client was told to end before that."""
    due_s = (session.started_ns + after_us * NS_PER_US) / 1e9
    wait_s = due_s - time.monotonic()
    if until is None or wait_s <= 0:
        # Also when it is late: what has been sent must get its turn.
        await asyncio.sleep(max(0.0, wait_s))
        return until is not None and until.is_set()
    try:
        async with asyncio.timeout(wait_s):
            return await until.wait()
    except TimeoutError:
        return False


def _let_go(session: Session, group: asyncio.TaskGroup, item: Scheduled) -> None:
    account, scheduled_us = session.account, session.due_us(item.after_us)
    in_flight = account.in_flight
    account.scheduled += 1
    if in_flight >= session.limits.most_in_flight:
        session.deliver(dropped(item, scheduled_us, session.anchor.now_us()))
        return
    group.create_task(session.exchange.send(item, scheduled_us))
