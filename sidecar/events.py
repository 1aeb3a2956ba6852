"""Requests and load as events: what a client or a proxy saw of a server."""

import asyncio
from collections.abc import Callable

from sidecar.load.account import Account
from sidecar.load.anchor import Anchor
from sidecar.load.outcome import Outcome
from sidecar.outbox import Outbox
from slackwater.errors import BrokerError
from slackwater.events import Load, Request

LOAD_PERIOD_S = 0.1

Emit = Callable[[Request | Load], object]


def request_event(outcome: Outcome, run_id: str, sidecar: str) -> Request | None:
    """The event of one outcome, from its scheduled arrival on; None of one that was never sent."""
    if outcome.status == "dropped":
        return None
    return Request(
        run_id=run_id,
        at_us=outcome.ended_us,
        sidecar=sidecar,
        id=outcome.id,
        tenant=outcome.tenant,
        arrival_us=outcome.scheduled_us,
        status=outcome.status,
        ttft_s=outcome.ttft_s,
        e2e_s=outcome.e2e_s,
        prompt_tokens=outcome.prompt_tokens,
        output_tokens=outcome.output_tokens,
    )


async def sample_load(
    emit: Emit,
    in_flight: Callable[[], int],
    now_us: Callable[[], int],
    run_id: str,
    sidecar: str,
    dropped: Callable[[], int],
) -> None:
    """Emit a load sample every 100 ms until cancelled.

    Who stands outside a server cannot tell its queue from what it serves: `waiting` is unknown,
    and `running` counts both.
    """
    seq = 0
    while True:
        emit(
            Load(
                run_id=run_id,
                at_us=now_us(),
                sidecar=sidecar,
                running=in_flight(),
                waiting=None,
                seq=seq,
                dropped=dropped(),
            )
        )
        seq += 1
        await asyncio.sleep(LOAD_PERIOD_S)


class Publisher:
    """Puts what a load client sees of its server into an outbox.

    The load is what this client has in flight: the server's whole load when nobody else asks it.
    """

    def __init__(self, outbox: Outbox, account: Account, anchor: Anchor) -> None:
        self._outbox = outbox
        self._account = account
        self._anchor = anchor

    def outcome(self, outcome: Outcome) -> None:
        """Publish one outcome."""
        source = self._outbox.source
        event = request_event(outcome, source.run_id, source.sidecar)
        if event is not None:
            self._outbox.put(event)

    async def sample(self) -> None:
        """Publish the load every 100 ms until cancelled."""
        source = self._outbox.source
        await sample_load(
            self._outbox.put,
            lambda: self._account.in_flight,
            self._anchor.now_us,
            source.run_id,
            source.sidecar,
            lambda: self._outbox.dropped,
        )

    def check(self) -> None:
        """Raise `BrokerError` when the broker has not taken every event; for the end."""
        counts = self._outbox.counts()
        if counts.sent < counts.recorded:
            msg = (
                f"the broker took {counts.sent} of {counts.recorded} events; "
                "the requests themselves were measured as shown"
            )
            raise BrokerError(msg)


class NoPublisher:
    """Publishes nothing."""

    sample = None

    def outcome(self, outcome: Outcome) -> None:
        """Leave it."""

    def check(self) -> None:
        """Nothing can be missing."""
