"""The closed loop of the paper: a batch of c requests at a time, the next when all are back."""

import asyncio
import time
from collections.abc import Iterator

import msgspec

from calibration.profile import BurstFigures
from sidecar.load.account import Account
from sidecar.load.anchor import NS_PER_US, Anchor
from sidecar.load.endpoint import Endpoint
from sidecar.load.open_loop import Limits, LoadReport, OnOutcome, Session
from sidecar.load.outcome import Outcome
from sidecar.load.schedule import DEFAULT_OUTPUT_TOKENS, DEFAULT_PROMPT_TOKENS, Scheduled
from sidecar.load.tasks import side_by_side
from slackwater.errors import InputError

PAUSE_S = 0.5
"""After a batch of which nothing came back: a server that is away is not asked in a tight loop."""


class Bursts(msgspec.Struct, frozen=True, kw_only=True):
    """How many requests a batch has when it starts: `busy` within bursts, `quiet` between.

    Attributes:
        quiet: requests at a time between bursts, 1 or more.
        busy: requests at a time within a burst.
        period_s: from one burst's start to the next one's.
        burst_s: length of a burst.
        phase_s: start of the first burst.
        prompt_tokens: of every request.
        output_tokens: of every request, at the most.
    """

    quiet: int
    busy: int
    period_s: float = 120.0
    burst_s: float = 30.0
    phase_s: float = 0.0
    prompt_tokens: int = DEFAULT_PROMPT_TOKENS
    output_tokens: int = DEFAULT_OUTPUT_TOKENS

    def __post_init__(self) -> None:
        if min(self.quiet, self.busy, self.prompt_tokens, self.output_tokens) < 1 or not (
            0 <= self.burst_s <= self.period_s < 1e9 and self.period_s > 0
        ):
            msg = (
                f"{self}: it must be 1 request or more at a time, of 1 token or more, and bursts "
                "no longer than their period"
            )
            raise InputError(msg)

    @classmethod
    def of(cls, figures: BurstFigures) -> "Bursts":
        """The schedule that a calibration profile names."""
        return cls(**msgspec.structs.asdict(figures))

    def size(self, after_s: float) -> int:
        """Requests in a batch that starts `after_s` seconds after the client's start."""
        within = (after_s - self.phase_s) % self.period_s < self.burst_s
        return self.busy if within else self.quiet


async def run_closed_loop(
    endpoint: Endpoint,
    bursts: Bursts,
    *,
    duration_s: float,
    until: asyncio.Event | None = None,
    on_outcome: OnOutcome | None = None,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    anchor: Anchor | None = None,
    account: Account | None = None,
) -> LoadReport:
    """Send batches for `duration_s`, and return when the last one is back.

    A request is scheduled when its batch starts. `Outcome.batch` numbers the batches, so a batch's
    time is its latest `ended_us` less its `scheduled_us`.

    Args:
        endpoint: where they go.
        bursts: how many requests a batch has, and how long they are.
        duration_s: batches start within it.
        until: once it is set no further batch starts; the one under way is waited for.
        on_outcome: called with each outcome as it comes, in this thread; be quick.
        limits: the time-out; batches of more than `most_in_flight` are refused.
        anchor: the clock of all times.
        account: to look at the counts while it runs.

    Raises:
        AccountError: requests are unaccounted for.
        InputError: batches are larger than allowed, or the duration is no time.
    """
    _check(bursts, duration_s, limits)
    ways = _Answers(on_outcome)
    async with Session(endpoint, limits, ways.count, anchor, account) as session:
        number = 0
        while not (until is not None and until.is_set()):
            after_us = (time.monotonic_ns() - session.started_ns) // NS_PER_US
            if after_us >= duration_s * 1e6:
                break
            ways.answered = 0
            items = _batch(bursts, number, after_us)
            await _send(session, items)
            if not ways.answered:
                await asyncio.sleep(PAUSE_S)
            number += 1
        return session.report()


def _check(bursts: Bursts, duration_s: float, limits: Limits) -> None:
    if not 0 < duration_s < 1e9:
        msg = f"duration is {duration_s:g} s; it must be above 0 and below 1e9"
        raise InputError(msg)
    largest = max(bursts.quiet, bursts.busy)
    if largest > limits.most_in_flight:
        msg = (
            f"batches of {largest} requests, and {limits.most_in_flight} are allowed in flight; "
            "raise that, or take smaller batches"
        )
        raise InputError(msg)


def _batch(bursts: Bursts, number: int, after_us: int) -> Iterator[Scheduled]:
    for i in range(bursts.size(after_us / 1e6)):
        lengths = bursts.prompt_tokens, bursts.output_tokens
        yield Scheduled(f"b{number}-{i}", after_us, *lengths, batch=number)


async def _send(session: Session, items: Iterator[Scheduled]) -> None:
    async with side_by_side() as group:
        for item in items:
            session.account.scheduled += 1
            group.create_task(session.exchange.send(item, session.due_us(item.after_us)))


class _Answers:
    """Hands outcomes on and counts those to which the server said anything at all."""

    def __init__(self, on_outcome: OnOutcome | None) -> None:
        self._on_outcome = on_outcome
        self.answered = 0

    def count(self, outcome: Outcome) -> None:
        self.answered += outcome.status in {"ok", "timeout"}
        if self._on_outcome is not None:
            self._on_outcome(outcome)
