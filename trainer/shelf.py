"""The rendezvous store behind a time limit: its host may be frozen, this learner must not be.

torch's TCP store waits for ever for the reply to a `check` when its host has stopped without
closing the connection. All calls go through one thread, and a caller waits for that one so long
and no longer.
"""

import queue
import threading
from collections.abc import Callable
from typing import TypeVar

from torch.distributed import Store  # type: ignore[attr-defined]

T = TypeVar("T")


class ShelfError(Exception):
    """The store did not answer, or is gone."""


class Shelf:
    """A few of the store's calls, each answered within `timeout_s` or refused with `ShelfError`.

    Args:
        store: shared by all ranks.
        timeout_s: wall time.
    """

    def __init__(self, store: Store, timeout_s: float) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = False
        threading.Thread(target=self._serve, name="store", daemon=True).start()

    def put(self, key: str, value: str) -> None:
        """Lay down a value for all to see."""
        self._ask(lambda: self._store.set(key, value))

    def has(self, *keys: str) -> bool:
        """True when all these keys are there."""
        return self._ask(lambda: bool(self._store.check(list(keys))))

    def get(self, key: str) -> str | None:
        """The value of a key, None when it is not there."""
        if not self.has(key):
            return None
        return self._ask(lambda: str(self._store.get(key).decode()))

    def add(self, key: str, amount: int) -> int:
        """Add to a number, 0 before the first time; returns the new one, which nobody else got."""
        return self._ask(lambda: int(self._store.add(key, amount)))

    def first(self, key: str, proposal: str) -> str:
        """Lay down `proposal` unless another was first; returns the one that holds."""
        return self._ask(lambda: str(self._store.compare_set(key, "", proposal).decode()))

    def close(self) -> None:
        """Ask no more: the thread ends, once a call that it may be in has returned."""
        self._closed = True
        self._calls.put(None)

    def _ask(self, call: Callable[[], T]) -> T:
        answers: queue.SimpleQueue[T | Exception] = queue.SimpleQueue()

        def answer() -> None:
            try:
                answers.put(call())
            except RuntimeError as error:
                answers.put(error)

        if self._closed:
            msg = "this connection was closed"
            raise ShelfError(msg)
        self._calls.put(answer)
        try:
            found = answers.get(timeout=self._timeout_s)
        except queue.Empty:
            msg = f"no answer for {self._timeout_s:g} s"
            raise ShelfError(msg) from None
        if isinstance(found, Exception):
            raise ShelfError(_first_line(found)) from found
        return found

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:120] or type(error).__name__
