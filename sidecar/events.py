"""Requests and load as events: what a client or a proxy saw of a server."""

import asyncio
from collections.abc import Callable

from sidecar.load.anchor import Anchor
from sidecar.load.outcome import Outcome
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
    anchor: Anchor,
    run_id: str,
    sidecar: str,
    dropped: Callable[[], int | None] = lambda: None,
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
                at_us=anchor.now_us(),
                sidecar=sidecar,
                running=in_flight(),
                waiting=None,
                seq=seq,
                dropped=dropped(),
            )
        )
        seq += 1
        await asyncio.sleep(LOAD_PERIOD_S)
