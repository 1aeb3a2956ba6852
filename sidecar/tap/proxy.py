"""The tap itself: a request goes up, its answer comes down chunk by chunk, and both are timed."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable

import aiohttp
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from yarl import URL

from sidecar.events import sample_load
from sidecar.load.anchor import Anchor
from sidecar.outbox import Outbox
from sidecar.tap.headers import handed_on
from sidecar.tap.seen import Seen
from sidecar.tap.settings import Address, TapSettings, asks_for_tokens
from slackwater.errors import InputError
from slackwater.statuses import Status

OURS = frozenset({"host", "expect"})
"""Headers of a request that the tap answers for itself."""
CLOSE_S = 1.0
# Less than servers keep an idle connection: uvicorn 5 s.
KEEP_IDLE_S = 2.0
# Beyond it the clock was set, or the host has slept: a tap runs for weeks.
OFF_S = 1.0
SAID_CHARS = 200


def _in_a_line(record: logging.LogRecord) -> bool:
    """Bytes of a stranger that are no HTTP are told in a line: no fault of ours, no traceback."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, HttpProcessingError):
        said = " ".join(str(error.message).split())[:SAID_CHARS]
        record.msg, record.args = "a client sent what is no HTTP request: %s", (said,)
        record.exc_info = None
    return True


class Tap:
    """Passes requests to an upstream and emits what it saw of those that ask for tokens.

    Bytes of an answer go on as they come: what the client does not take is not read from the
    upstream. A client that goes is gone for the upstream too.

    Args:
        settings: the upstream, and the name of its events.
        outbox: takes each event, in the loop's thread.
        anchor: the clock of all events, replaced once the wall is over a second off it.
        log: where failures of the upstream are said.
    """

    def __init__(
        self, settings: TapSettings, outbox: Outbox, anchor: Anchor, log: logging.Logger
    ) -> None:
        self._settings = settings
        self._outbox = outbox
        self._anchor = anchor
        self._log = log
        self._whose = (settings.run_id, settings.sidecar)
        self._session: aiohttp.ClientSession
        self.in_flight = 0

    @contextlib.asynccontextmanager
    async def serving(self, where: Address) -> AsyncIterator[Address]:
        """Listen, and sample the load, until the context ends; yields the address.

        Raises `InputError` when the address cannot be had.
        """
        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_IDLE_S),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self._settings.connect_timeout_s
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
        ) as self._session:
            of_http = self._log.getChild("http")
            of_http.addFilter(_in_a_line)
            server = web.Server(
                self._handle,
                handler_cancellation=True,
                access_log=None,
                logger=of_http,
            )
            runner = web.ServerRunner(server, shutdown_timeout=CLOSE_S)
            await runner.setup()
            sampling = asyncio.create_task(
                sample_load(
                    self._outbox.put,
                    lambda: self.in_flight,
                    self._now_us,
                    *self._whose,
                    lambda: self._outbox.dropped,
                )
            )
            try:
                await _listen(runner, where)
                yield Address(*runner.addresses[0][:2])
            finally:
                await runner.cleanup()
                sampling.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await sampling

    def _now_us(self) -> int:
        """Event time now, by the wall as it is set by now."""
        off_s = self._anchor.off_s
        if abs(off_s) > OFF_S:
            self._anchor = Anchor.now()
            self._log.warning("the clock was set by %+.1f s; events go by it from here on", off_s)
        return self._anchor.now_us()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        seen = Seen()
        if not asks_for_tokens(request.method, request.path):
            return await self._pass(request, seen)
        self.in_flight += 1
        status: Status = "error"
        try:
            response = await self._pass(request, seen)
            status = seen.status
        except asyncio.CancelledError:
            seen.cut = "aborted"
            status = seen.status
            raise
        finally:
            self.in_flight -= 1
            if seen.fault is not None:
                self._say(seen.fault)
            if not seen.redirected:
                self._outbox.put(seen.event(status, self._anchor, *self._whose))
        return response

    async def _pass(self, request: web.BaseRequest, seen: Seen) -> web.StreamResponse:
        await _let_come(request)
        if not request.raw_path.startswith("/"):
            return _refusal(400, f"{request.raw_path} is no path; this is no proxy for other hosts")
        # As it came: a server may tell %2F from /, and a requoted path is another one.
        url = URL(self._settings.base + request.raw_path, encoded=True)
        try:
            async with self._session.request(
                request.method,
                url,
                headers=handed_on(request.headers.items(), but=OURS),
                data=request.content if request.body_exists else None,
                allow_redirects=False,
            ) as upstream:
                encoding = upstream.headers.get("Content-Encoding", "")
                seen.answer(upstream.status, upstream.content_type, encoding)
                return await self._stream(request, upstream, seen)
        except (aiohttp.ClientError, OSError) as error:
            return self._bad_gateway(error)

    async def _stream(
        self, request: web.BaseRequest, upstream: aiohttp.ClientResponse, seen: Seen
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            status=upstream.status,
            reason=upstream.reason,
            headers=[
                (name, self._settings.location(value) if name.lower() == "location" else value)
                for name, value in handed_on(upstream.headers.items())
            ],
        )
        try:
            await _to_client(response.prepare(request))
            async for chunk in upstream.content.iter_any():
                seen.chunk(chunk)
                await _to_client(response.write(chunk))
            await _to_client(response.write_eof())
        except _ClientGoneError:
            seen.cut = "aborted"
        except (aiohttp.ClientError, OSError) as error:
            # The head is out: only a broken connection tells the client that this is no end.
            self._say(error)
            seen.cut = "error"
            if request.transport is not None:
                request.transport.abort()
        return response

    def _bad_gateway(self, error: Exception) -> web.Response:
        self._say(error)
        said = f"{self._settings.base} cannot be reached: {error}"
        return _refusal(502, said)

    def _say(self, error: Exception) -> None:
        self._log.warning("%s: %s: %s", self._settings.base, type(error).__name__, error)


def _refusal(code: int, said: str) -> web.Response:
    kind = "bad_gateway" if code == 502 else "invalid_request_error"
    body = {"error": {"message": f"slackwater tap: {said}", "type": kind, "code": code}}
    return web.json_response(body, status=code)


class _ClientGoneError(Exception):
    """The client does not take its answer any more."""


async def _to_client(writing: Awaitable[object]) -> None:
    """Write to the client; its failures are not the upstream's."""
    try:
        await writing
    except OSError as error:
        raise _ClientGoneError from error


async def _let_come(request: web.BaseRequest) -> None:
    """Answer a client that waits for leave to send its body."""
    if request.headers.get("Expect", "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0


async def _listen(runner: web.ServerRunner, where: Address) -> None:
    try:
        await web.TCPSite(runner, where.host, where.port).start()
    except OSError as error:
        msg = (
            f"cannot listen on {where.host}:{where.port}: {error.strerror or error}; "
            "choose another --listen"
        )
        raise InputError(msg) from None
