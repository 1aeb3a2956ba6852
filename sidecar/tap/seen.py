"""One request as a proxy sees it: when it came, began and ended, and how."""

import itertools
import time
from collections.abc import Callable

from sidecar.load.anchor import Anchor
from sidecar.load.stream import Reading, Usage
from slackwater.events import Request
from slackwater.statuses import Status

NS_PER_S = 1e9
MOST_ID_CHARS = 200
MOST_WHOLE_BYTES = 1 << 20
"""An answer that is not streamed is read for its token counts up to this size."""

WITHOUT_BODY = frozenset({204, 205})

_numbers = itertools.count()


class Seen:
    """Notes what passes; it keeps one line of a stream, and of a whole answer up to 1 MiB.

    Attributes:
        cut: how the answer was cut off; None when it was not.
        fault: what reading the answer raised, which no client pays for; None when nothing.
    """

    def __init__(self) -> None:
        self._number = next(_numbers)
        self.cut: Status | None = None
        self.fault: Exception | None = None
        self._arrived_ns = time.monotonic_ns()
        self._first_ns: int | None = None
        self._reading = Reading()
        self._whole: bytearray | None = None
        self._streamed = False
        self._readable = False
        self._http_status: int | None = None
        self._served = False
        self._done_ns: int | None = None

    def answer(self, http_status: int, content_type: str, encoding: str) -> None:
        """The answer's head has come."""
        self._http_status = http_status
        # A page, or nothing at all, is no answer to who asks for tokens.
        self._served = (
            200 <= http_status < 300
            and http_status not in WITHOUT_BODY
            and content_type != "text/html"
        )
        self._readable = encoding in {"", "identity"}
        self._streamed = content_type == "text/event-stream"
        if not self._streamed and content_type == "application/json":
            self._whole = bytearray()

    @property
    def redirected(self) -> bool:
        """The answer only said where else to ask: nothing was served, and nothing failed."""
        return self._http_status is not None and 300 <= self._http_status < 400

    def chunk(self, data: bytes) -> None:
        """A part of the answer's body has come; never raises."""
        if not self._readable:
            return
        if self._streamed:
            self._read(self._reading.feed, data)
            if self._first_ns is None and self._reading.begun:
                self._first_ns = time.monotonic_ns()
            if self._done_ns is None and self._reading.complete:
                self._done_ns = time.monotonic_ns()
        elif self._whole is not None:
            self._whole += data
            if len(self._whole) > MOST_WHOLE_BYTES:
                self._whole = None

    def _read(self, read: Callable[[bytes], None], data: bytes) -> None:
        try:
            read(data)
        except Exception as error:
            self.fault = error

    @property
    def status(self) -> Status:
        """How a request ended whose answer has passed, to its end or until it was cut.

        A client that goes once it has the last token was served; a stream of tokens that ends
        before the answer did was cut, however politely.
        """
        reading = self._reading
        if self._whole:
            self._read(reading.whole, bytes(self._whole))
        if self.cut is not None and not (self.cut == "aborted" and reading.complete):
            return self.cut
        if not self._served or reading.error is not None:
            return "error"
        cut_short = self._streamed and reading.begun and not reading.complete
        return "aborted" if cut_short or reading.finish_reason == "abort" else "ok"

    def event(self, status: Status, anchor: Anchor, run_id: str, sidecar: str) -> Request:
        """The event of this request, which has ended, by the clock of `anchor`."""
        usage, well = self._reading.usage or Usage(), status == "ok"
        # A server may hold a stream open after its last word.
        ended_ns = (self._done_ns if well else None) or time.monotonic_ns()
        first_ns = self._first_ns if well else None
        return Request(
            run_id=run_id,
            at_us=anchor.at(ended_ns),
            sidecar=sidecar,
            id=(self._reading.id or "")[:MOST_ID_CHARS] or f"tap-{self._number}",
            arrival_us=anchor.at(self._arrived_ns),
            status=status,
            ttft_s=None if first_ns is None else (first_ns - self._arrived_ns) / NS_PER_S,
            e2e_s=(ended_ns - self._arrived_ns) / NS_PER_S if well else None,
            prompt_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
        )
