"""One request and its streamed answer, by aiohttp; whatever happens becomes an outcome."""

import asyncio
import time
from collections.abc import Callable

import aiohttp

from sidecar.load.anchor import Anchor
from sidecar.load.endpoint import Composer, Endpoint
from sidecar.load.outcome import Outcome
from sidecar.load.schedule import Scheduled
from sidecar.load.stream import Reading, Usage
from slackwater.statuses import ClientStatus

# Servers close idle connections after 5 s (uvicorn); one that is closed as we send costs a request.
KEEP_IDLE_S = 2.0
MOST_ERROR_BYTES = 65536
SHOWN_CHARS = 300


def connect(endpoint: Endpoint) -> aiohttp.ClientSession:
    """A session without limits of its own: the client's are the only ones, and are counted."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_IDLE_S),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=endpoint.headers,
    )


class Exchange:
    """Sends requests to one endpoint.

    Args:
        session: from `connect`.
        endpoint: where they go.
        anchor: the clock of all outcomes.
        timeout_s: seconds from sending after which a request is given up.
        deliver: takes each outcome, also that of a request cut off by cancellation.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        endpoint: Endpoint,
        anchor: Anchor,
        timeout_s: float,
        deliver: Callable[[Outcome], None],
    ) -> None:
        self._session = session
        self._target = endpoint.target
        self._composer = Composer(endpoint)
        self._anchor = anchor
        self._timeout_s = timeout_s
        self._deliver = deliver

    async def send(self, item: Scheduled, scheduled_us: int) -> None:
        """Send one request, read its answer to the end and deliver the outcome."""
        body = self._composer.body(item)
        one = _One(item, scheduled_us, self._anchor)
        try:
            async with asyncio.timeout(self._timeout_s):
                await one.run(self._session, self._target, body)
            outcome = one.ended()
        except TimeoutError:
            outcome = one.failed("timeout", f"no end within {self._timeout_s:g} s")
        except asyncio.CancelledError:
            self._deliver(one.failed("aborted", "the client was stopped"))
            raise
        except (aiohttp.ClientError, OSError) as error:
            # Once an answer has begun, what breaks is its stream.
            status: ClientStatus = "error" if one.http_status is None else "aborted"
            outcome = one.failed(status, f"{type(error).__name__}: {error}")
        self._deliver(outcome)


class _One:
    """The state of one request under way."""

    def __init__(self, item: Scheduled, scheduled_us: int, anchor: Anchor) -> None:
        self._item = item
        self._scheduled_us = scheduled_us
        self._anchor = anchor
        self._reading = Reading()
        self._sent_ns = time.monotonic_ns()
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._refusal: str | None = None
        self.http_status: int | None = None

    async def run(self, session: aiohttp.ClientSession, target: str, body: bytes) -> None:
        """Send the body and read the answer, noting when its tokens come."""
        async with session.post(target, data=body) as response:
            self.http_status = response.status
            if response.status != 200:
                said = await response.content.read(MOST_ERROR_BYTES)
                self._refusal = f"HTTP {response.status}: {_shown(said)}"
                return
            reading = self._reading
            async for chunk in response.content.iter_any():
                now_ns = time.monotonic_ns()
                reading.feed(chunk)
                if self._first_ns is None and reading.begun:
                    self._first_ns = now_ns
                if self._last_ns is None and reading.complete:
                    self._last_ns = now_ns

    def ended(self) -> Outcome:
        """The outcome of an answer that came to its end."""
        reading = self._reading
        if self._refusal is not None:
            return self.failed("error", self._refusal)
        if reading.error is not None:
            return self.failed("error", f"in the stream: {reading.error[:SHOWN_CHARS]}")
        if reading.unreadable:
            return self.failed("error", "the answer is no stream of a completion")
        if reading.finish_reason == "abort":
            return self.failed("aborted", "the server aborted it")
        if not reading.complete:
            return self.failed("aborted", "the stream ended before the answer did")
        return self._outcome("ok", None)

    def failed(self, status: ClientStatus, error: str) -> Outcome:
        """The outcome of a request that did not end well."""
        return self._outcome(status, error)

    def _outcome(self, status: ClientStatus, error: str | None) -> Outcome:
        anchor, first_ns, now_ns = self._anchor, self._first_ns, time.monotonic_ns()
        usage = self._reading.usage or Usage()
        return Outcome(
            id=self._item.id,
            status=status,
            scheduled_us=self._scheduled_us,
            sent_us=anchor.at(self._sent_ns),
            first_token_us=None if first_ns is None else anchor.at(first_ns),
            finished_us=anchor.at(self._last_ns or now_ns) if status == "ok" else None,
            ended_us=anchor.at(now_ns),
            prompt_tokens=usage.prompt_tokens,
            output_tokens=usage.completion_tokens,
            http_status=self.http_status,
            error=error,
            batch=self._item.batch,
            tenant=self._item.tenant,
        )


def _shown(said: bytes) -> str:
    text = " ".join(said.decode(errors="replace").split())
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."
