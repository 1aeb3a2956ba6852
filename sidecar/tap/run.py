"""A tap from its start to the signal that ends it."""

import asyncio
import logging
import signal
from collections.abc import Callable

from sidecar.load.anchor import Anchor
from sidecar.outbox import Outbox
from sidecar.tap.proxy import Tap
from sidecar.tap.settings import Address, TapSettings


def run_tap(
    settings: TapSettings,
    where: Address,
    outbox: Outbox,
    log: logging.Logger,
    ready: Callable[[Address], object],
) -> None:
    """Listen until SIGINT or SIGTERM; `ready` is called with the address once it does.

    Raises `InputError` when the address cannot be had.
    """
    asyncio.run(_run(Tap(settings, outbox, Anchor.now(), log), where, ready))


async def _run(tap: Tap, where: Address, ready: Callable[[Address], object]) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, over.set)
    async with tap.serving(where) as address:
        ready(address)
        await over.wait()
