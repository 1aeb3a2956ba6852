"""A bounded queue between vLLM's event loop and the sender: full without blocking, and counted."""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Buffer(Generic[T]):
    """When it is full the oldest item goes: the newest are those a controller can still use.

    One thread puts and one thread takes, without a lock that either could wait for: each counter
    has one writer, and `put` never sees more room than there is. At rest
    `added == taken + dropped + len(buffer)`.

    Attributes:
        added: items put so far.
        taken: items taken so far.
        dropped: items that had to go.
    """

    def __init__(self, limit: int) -> None:
        self._items: deque[T] = deque()
        self._limit = limit
        self.added = 0
        self.taken = 0
        self.dropped = 0

    def put(self, item: T) -> None:
        """Add an item; never blocks."""
        if len(self._items) >= self._limit:
            try:
                self._items.popleft()
                self.dropped += 1
            except IndexError:
                pass  # The other thread has just taken the last one: there is room.
        self._items.append(item)
        self.added += 1

    def take(self) -> T | None:
        """Remove and return the oldest item, None when there is none."""
        try:
            item = self._items.popleft()
        except IndexError:
            return None
        self.taken += 1
        return item

    def __len__(self) -> int:
        return len(self._items)
