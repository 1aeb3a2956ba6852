import asyncio
import contextlib
import logging
import socket
import time

import aiohttp
import pytest
from aiohttp import web
from openai_server import MODEL, OpenAIServer

from sidecar.load import Anchor, Endpoint, Scheduled, run_open_loop
from sidecar.outbox import Outbox
from sidecar.tap import Tap, TapSettings
from sidecar.tap.headers import handed_on
from sidecar.tap.seen import Seen
from sidecar.tap.settings import Address, address, asks_for_tokens
from slackwater.errors import InputError
from slackwater.events import Load, Request

LOG = logging.getLogger("tap")
ASKED = {"model": MODEL, "prompt": "a", "max_tokens": 3, "stream": True}


class Behind:
    """A tap before a server, what it emitted, and a client session."""

    def __init__(self, tap, url, session, events):
        self.tap, self.url, self.session, self.events = tap, url, session, events

    @property
    def requests(self):
        return [event for event in self.events if isinstance(event, Request)]

    def ask(self, path="/v1/completions", **fields):
        return self.session.post(self.url + path, json=ASKED | fields)


class Noted(Outbox):
    """An outbox that also shows what was put."""

    def __init__(self, saw):
        super().__init__("r", "s")
        self.noted, self.saw = [], saw

    def put(self, event):
        super().put(event)
        self.noted.append(event)
        self.saw(event)


@contextlib.asynccontextmanager
async def tapped(server=None, upstream=None, saw=lambda event: None, anchor=None):
    outbox = Noted(saw)
    async with contextlib.AsyncExitStack() as stack:
        if server is not None:
            await stack.enter_async_context(server.serving())
        settings = TapSettings(upstream=upstream or server.url, sidecar="s", run_id="r")
        tap = Tap(settings, outbox, anchor or Anchor.now(), LOG)
        where = await stack.enter_async_context(tap.serving(Address("127.0.0.1", 0)))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        yield Behind(tap, f"http://{where.host}:{where.port}", session, outbox.noted)


def test_a_stream_passes_chunk_by_chunk_and_its_event_says_what_was_seen():
    async def main():
        server = OpenAIServer()
        server.step = asyncio.Semaphore(0)
        async with tapped(server) as behind, behind.ask() as response:
            chunks = []
            for _ in range(2):
                # The server makes no further token until this one has come through.
                server.step.release()
                chunks.append(await response.content.readline())
                await response.content.readline()
            assert behind.requests == []
            assert behind.tap.in_flight == 1
            server.step.release()
            rest = await response.read()
        return chunks, rest, behind

    chunks, rest, behind = asyncio.run(main())
    assert all(chunk.startswith(b'data: {"id": "cmpl-1"') for chunk in chunks)
    assert rest.endswith(b"data: [DONE]\n\n")
    [event] = behind.requests
    assert (event.status, event.id, event.sidecar, event.run_id) == ("ok", "cmpl-1", "s", "r")
    assert (event.prompt_tokens, event.output_tokens) == (7, 3)
    assert 0 < event.ttft_s <= event.e2e_s
    assert event.at_us - event.arrival_us == pytest.approx(event.e2e_s * 1e6, abs=2)
    assert behind.tap.in_flight == 0


def test_what_the_server_does_not_count_is_unknown():
    async def main():
        server = OpenAIServer()
        server.usage = False
        async with tapped(server) as behind, behind.ask() as response:
            await response.read()
        return behind

    [event] = asyncio.run(main()).requests
    assert (event.status, event.prompt_tokens, event.output_tokens) == ("ok", None, None)


def test_a_client_that_goes_leaves_the_upstream_too_and_is_aborted():
    # Case 7, of the tap.
    async def main():
        server = OpenAIServer(fault="stall")
        async with tapped(server) as behind:
            async with behind.ask() as response:
                await response.content.readline()
                response.close()
            await server.left.wait()
        return behind

    [event] = asyncio.run(main()).requests
    assert (event.status, event.e2e_s, event.ttft_s) == ("aborted", None, None)


TOKEN = b'data: {"choices": [{"text": "a", "finish_reason": null}]}\n\n'
LAST = b'data: {"choices": [{"text": "b", "finish_reason": "stop"}]}\n\n'
FOREIGN = b'data: {"token": {"text": "a"}}\n\n'


@pytest.mark.parametrize(
    ("chunks", "cut", "status"),
    [
        ([TOKEN, LAST], None, "ok"),
        # It has the last token, and does not wait for the stream's end.
        ([TOKEN, LAST], "aborted", "ok"),
        ([TOKEN], "aborted", "aborted"),
        ([TOKEN, LAST], "error", "error"),
        # The upstream closed its stream as if that had been all.
        ([TOKEN], None, "aborted"),
        ([FOREIGN], None, "ok"),
    ],
)
def test_an_answer_is_whole_when_its_last_token_has_passed(chunks, cut, status):
    seen = Seen()
    seen.answer(200, "text/event-stream", "")
    for chunk in chunks:
        seen.chunk(chunk)
    seen.cut = cut
    assert seen.status == status


@pytest.mark.parametrize(
    ("http_status", "content_type", "status"),
    [
        (200, "application/json", "ok"),
        (201, "application/octet-stream", "ok"),
        (200, "text/html", "error"),
        (204, "application/json", "error"),
        (101, "application/json", "error"),
        (500, "application/json", "error"),
    ],
)
def test_a_page_or_nothing_is_no_answer(http_status, content_type, status):
    seen = Seen()
    seen.answer(http_status, content_type, "")
    assert seen.status == status


def test_a_stream_held_open_after_its_last_word_ended_with_that():
    began_s = time.monotonic()
    seen = Seen()
    seen.answer(200, "text/event-stream", "")
    for chunk in (TOKEN, LAST, b"data: [DONE]\n\n"):
        seen.chunk(chunk)
    said_s = time.monotonic() - began_s
    time.sleep(0.05)
    seen.chunk(b": ping\n\n")
    found = seen.event(seen.status, Anchor.now(), "r", "s")
    assert found.status == "ok"
    assert 0 < found.e2e_s <= said_s


def test_an_upstream_that_breaks_off_breaks_off_for_the_client():
    async def main():
        async with tapped(OpenAIServer(fault="cut")) as behind, behind.ask() as response:
            with pytest.raises(aiohttp.ClientPayloadError):
                await response.read()
        return behind

    [event] = asyncio.run(main()).requests
    assert (event.status, event.e2e_s) == ("error", None)


@pytest.mark.parametrize(("server", "http_status"), [(OpenAIServer(refuse=503), 503), (None, 502)])
def test_refusals_pass_and_an_upstream_that_is_down_is_a_bad_gateway(server, http_status):
    with socket.create_server(("127.0.0.1", 0)) as held:
        down = f"http://127.0.0.1:{held.getsockname()[1]}"

    async def main():
        async with tapped(server, None if server else down) as behind, behind.ask() as response:
            said = (await response.json())["error"]["message"]
        return response.status, said, behind

    status, said, behind = asyncio.run(main())
    [event] = behind.requests
    assert status == http_status
    assert said == "out of order" if server else down in said
    assert (event.status, event.e2e_s) == ("error", None)


def test_a_redirect_is_no_request_served_and_leads_through_the_tap():
    async def answer(request):
        if request.path == "/a/v1/completions":
            to = f"http://{request.host}/a/v1/other/completions"
            return web.Response(status=307, headers={"Location": to})
        return web.json_response({"id": "there", "choices": []})

    async def main():
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        upstream = "http://{}:{}/a/".format(*runner.addresses[0])
        async with tapped(upstream=upstream) as behind, behind.ask() as response:
            await response.read()
        await runner.cleanup()
        return response, behind

    response, behind = asyncio.run(main())
    assert [past.headers["Location"] for past in response.history] == ["/v1/other/completions"]
    assert (response.status, str(response.url).startswith(behind.url)) == (200, True)
    assert [(event.status, event.id) for event in behind.requests] == [("ok", "there")]


@pytest.mark.parametrize(
    ("said", "leads"),
    [
        ("http://h:8000/a/v1/x?y#z", "/v1/x?y#z"),
        ("http://h:8000/a", "/"),
        ("/a/v1/x", "/v1/x"),
        ("http://h:8000/ab/x", None),
        ("http://h:8000/a//other/x", None),
        ("http://h:80001/a/x", None),
        ("https://h:8000/a/x", None),
        ("x/y", None),
    ],
)
def test_a_redirect_elsewhere_leads_there(said, leads):
    assert TapSettings(upstream="http://h:8000/a").location(said) == (leads or said)
    assert TapSettings(upstream="http://h").location("/v1/x") == "/v1/x"


def test_what_the_tap_cannot_read_costs_the_client_nothing(monkeypatch, caplog):
    def broken(_reading, _chunk):
        msg = "what a day"
        raise RuntimeError(msg)

    async def main():
        async with tapped(OpenAIServer()) as behind, behind.ask() as response:
            return await response.read(), behind

    monkeypatch.setattr("sidecar.load.stream.Reading.feed", broken)
    said, behind = asyncio.run(main())
    assert said.endswith(b"data: [DONE]\n\n")
    [event] = behind.requests
    assert (event.status, event.output_tokens) == ("ok", None)
    assert caplog.text.count("RuntimeError: what a day") == 1


@pytest.mark.parametrize(
    "sent",
    [
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /\xff#\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01 no HTTP at all\r\n\r\n",
    ],
)
def test_what_is_no_http_is_told_in_a_line_and_the_tap_goes_on(sent, caplog):
    async def main():
        async with tapped(OpenAIServer()) as behind:
            host, port = behind.url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            await asyncio.wait_for(reader.read(1), 10)
            writer.close()
            async with behind.ask() as response:
                assert response.status == 200
                await response.read()

    asyncio.run(main())
    assert "Traceback" not in caplog.text
    assert not [one for one in caplog.records if one.exc_info]


def test_a_clock_that_was_set_is_followed_and_lengths_stay_their_own(caplog):
    now = Anchor.now()
    # As a tap has it that looked at the clock an hour before it was put right.
    before = now._replace(wall_us=now.wall_us - 3_600_000_000)

    async def main():
        slow = OpenAIServer(step_s=0.05)
        async with tapped(slow, anchor=before) as behind, behind.ask() as response:
            await response.read()
        return behind

    behind = asyncio.run(main())
    [event] = behind.requests
    for stamped in behind.events:
        assert 0 <= stamped.at_us - now.wall_us < 60_000_000
    assert event.at_us - event.arrival_us == pytest.approx(event.e2e_s * 1e6, abs=2)
    assert 0.1 < event.e2e_s < 60
    assert caplog.text.count("the clock was set by +3600.0 s") == 1


def test_the_load_counts_what_is_in_flight_and_leaves_the_queue_unknown():
    async def main():
        server, loaded = OpenAIServer(), asyncio.Event()
        server.gate = asyncio.Event()

        def saw(event):
            if isinstance(event, Load) and event.running == 2:
                loaded.set()

        async with tapped(server, saw=saw) as behind:
            asking = [asyncio.create_task(read(behind)) for _ in range(2)]
            await server.until_arrived(2)
            await loaded.wait()
            server.gate.set()
            await asyncio.gather(*asking)
        return behind.events

    async def read(behind):
        async with behind.ask() as response:
            await response.read()

    events = asyncio.run(main())
    loads = [event for event in events if isinstance(event, Load)]
    assert [load.seq for load in loads] == list(range(len(loads)))
    assert {load.waiting for load in loads} == {None}
    assert max(load.in_system for load in loads) == 2


def test_other_requests_pass_without_an_event_and_the_load_client_works_through_it():
    async def main():
        outcomes = []
        async with tapped(OpenAIServer()) as behind:
            async with behind.session.get(behind.url + "/v1/models") as response:
                models = await response.json()
            through = Endpoint(url=behind.url, model=MODEL)
            items = [Scheduled(f"r{i}", 0, 3, 2) for i in range(4)]
            await run_open_loop(through, items, on_outcome=outcomes.append)
        return models, outcomes, behind

    models, outcomes, behind = asyncio.run(main())
    assert models["data"] == [{"id": MODEL}]
    assert [outcome.status for outcome in outcomes] == ["ok"] * 4
    assert [event.status for event in behind.requests] == ["ok"] * 4


@pytest.mark.parametrize(
    "path", ["/v1/models/org%2Fname", "/v1/%7Eme?q=a%20b+c&r[]=%2f&e=", "/v1/a/../b//c"]
)
def test_a_path_goes_up_as_it_came(path):
    assert asked_for(path) == [path]


def test_a_request_for_another_host_is_refused_and_goes_nowhere():
    assert asked_for("http://other.example/v1/models", 400) == []


def asked_for(path, status=200):
    """The paths that the upstream saw when a client asked the tap for one."""
    paths = []

    async def answer(request):
        paths.append(request.raw_path)
        return web.Response()

    async def main():
        runner = web.ServerRunner(web.Server(answer))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        upstream = "http://{}:{}".format(*runner.addresses[0])
        async with tapped(upstream=upstream) as behind:
            port = int(behind.url.rpartition(":")[2])
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            head = await reader.readline()
            writer.close()
        await runner.cleanup()
        return head

    assert asyncio.run(main()).split()[1] == str(status).encode()
    return paths


def test_an_outbox_accounts_for_every_event_and_requests_go_first():
    def load(seq):
        return Load(
            run_id="r", at_us=Anchor.now().wall_us, sidecar="s", running=1, waiting=None, seq=seq
        )

    outbox = Outbox("r", "s")
    for seq in range(601):
        outbox.put(load(seq))
    taken = list(outbox.events(10))
    assert [event.seq for event in taken] == list(range(1, 11))
    outbox.acked(7)
    outbox.failed(2)
    counts = outbox.counts()
    assert (counts.recorded, counts.sent, counts.dropped, counts.queued) == (601, 7, 3, 591)
    assert outbox.in_flight == 1


@pytest.mark.parametrize(
    ("method", "path", "counts"),
    [
        ("POST", "/v1/completions", True),
        ("POST", "/openai/v1/chat/completions", True),
        ("POST", "/generate_stream", True),
        ("GET", "/v1/completions", False),
        ("POST", "/v1/embeddings", False),
    ],
)
def test_posts_that_ask_for_tokens_are_reported(method, path, counts):
    assert asks_for_tokens(method, path) is counts


def test_addresses_that_cannot_be_are_refused():
    assert address("127.0.0.1:8001") == ("127.0.0.1", 8001)
    for text in ("8001", "host:", "host:99999", ":1"):
        with pytest.raises(InputError, match="is not HOST:PORT"):
            address(text)
    for text in (
        "localhost:8000",
        "http://[::1",
        "http://127.0.0.1:abc",
        "http://:1",
        "http://h?a",
    ):
        with pytest.raises(InputError, match=r"--upstream .* is no URL"):
            TapSettings(upstream=text)


def test_names_that_no_event_can_carry_are_refused():
    for sidecar in ("", "x" * 201, "x\udcff"):
        with pytest.raises(InputError, match="--sidecar "):
            TapSettings(upstream="http://h", sidecar=sidecar)
    with pytest.raises(InputError, match="run_id has 201"):
        TapSettings(upstream="http://h", run_id="x" * 201)


def test_headers_of_one_connection_stay_there_and_others_pass():
    given = [
        ("Connection", "close, X-Mine"),
        ("x-mine", "1"),
        ("TE", "a"),
        ("Host", "h"),
        ("A", "b"),
    ]
    assert handed_on(given, but=frozenset({"host"})) == [("A", "b")]
