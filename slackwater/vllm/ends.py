"""How events that were handed to the broker's client ended."""

import threading
from collections.abc import Callable


class Ends:
    """Counts what the broker's client says of events; its thread writes, others read.

    Attributes:
        acked: events that have reached the broker.
        failed: events that its client gave up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acked = 0
        self.failed = 0

    def add(self, *, acked: int = 0, failed: int = 0) -> None:
        """So many more events have ended."""
        with self._lock:
            self.acked += acked
            self.failed += failed

    def in_flight(self, handed_out: Callable[[], int]) -> int:
        """Of the events handed out, those neither acknowledged nor given up.

        `handed_out` counts them; it is asked while nothing can end, so the difference is never
        below zero.
        """
        with self._lock:
            return handed_out() - self.acked - self.failed
