"""A client in a thread of its own, so that its caller can do other things beside it."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any

from sidecar.load.batches import Bursts, run_closed_loop
from sidecar.load.endpoint import Endpoint
from sidecar.load.open_loop import LoadReport, run_open_loop
from sidecar.load.schedule import Scheduled

Run = Callable[[asyncio.Event], Awaitable[LoadReport]]
Beside = Callable[[], Coroutine[Any, Any, None]]


class LoadThread(threading.Thread):
    """Runs a client until its schedule ends or `stop` is called.

    A caller that holds the interpreter for long delays the client; its outcomes say so (`lag_s`).

    Args:
        run: the client, given the event that ends it.
        beside: runs in the same loop until the client has ended, and is cancelled then.
    """

    def __init__(self, run: Run, beside: Beside | None = None) -> None:
        super().__init__(name="slackwater-load", daemon=True)
        self._run_client = run
        self._beside = beside
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._until: asyncio.Event | None = None
        self._task: asyncio.Task[LoadReport] | None = None
        self._report: LoadReport | None = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Run the client; what it raises is raised again by `result`."""
        try:
            self._report = asyncio.run(self._main())
        except BaseException as error:
            self._error = error
        finally:
            self._ready.set()

    def stop(self) -> None:
        """Let nothing more come due; what is in flight is waited for. May be called again."""
        self._ready.wait()
        if self._until is not None:
            self._call(self._until.set)

    def abort(self) -> None:
        """End now; what is in flight is delivered as `aborted`, and `result` raises."""
        self._ready.wait()
        if self._task is not None:
            self._call(self._task.cancel)

    def result(self, timeout_s: float | None = None) -> LoadReport:
        """Wait for the client's end; raises what it raised, or `TimeoutError`."""
        self.join(timeout_s)
        if self.is_alive():
            msg = f"the load client has not ended within {timeout_s:g} s"
            raise TimeoutError(msg)
        if self._error is not None:
            raise self._error
        assert self._report is not None  # noqa: S101 - the thread ended without an error
        return self._report

    async def _main(self) -> LoadReport:
        self._loop = asyncio.get_running_loop()
        self._until = asyncio.Event()
        self._task = asyncio.ensure_future(self._run_client(self._until))
        self._ready.set()
        async with _going(self._beside):
            return await self._task

    def _call(self, what: Callable[[], object]) -> None:
        assert self._loop is not None  # noqa: S101 - set before `_ready`
        # It may close between any look and the call: the client has ended then, which was wanted.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)


@contextlib.asynccontextmanager
async def _going(beside: Beside | None) -> AsyncIterator[None]:
    """Have something run beside; what it raised is raised at the end."""
    if beside is None:
        yield
        return
    task = asyncio.create_task(beside())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def start_open_loop(
    endpoint: Endpoint,
    schedule: Iterable[Scheduled],
    *,
    beside: Beside | None = None,
    **given: Any,
) -> LoadThread:
    """`run_open_loop` in a thread that has started; `given` are its other arguments but `until`.

    `on_outcome` is called in that thread.
    """
    thread = LoadThread(
        lambda until: run_open_loop(endpoint, schedule, until=until, **given), beside
    )
    thread.start()
    return thread


def start_closed_loop(
    endpoint: Endpoint, bursts: Bursts, *, beside: Beside | None = None, **given: Any
) -> LoadThread:
    """`run_closed_loop` in a thread that has started; `given` are its other arguments."""
    thread = LoadThread(
        lambda until: run_closed_loop(endpoint, bursts, until=until, **given), beside
    )
    thread.start()
    return thread
