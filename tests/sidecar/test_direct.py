"""What is asked of a server beside its load: directly, in bounds, and whatever it answers."""

import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sidecar.direct import MOST_BYTES, answer_of
from sidecar.experiment.host import server_version
from sidecar.launch import LaunchedVllm


class Server(socketserver.ThreadingTCPServer):
    """Answers every request with `said`, raw bytes."""

    said = b""
    daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Answer(socketserver.StreamRequestHandler):
    server: Server

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(self.server.said)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    # A proxy that nobody is: what went through it would find no answer.
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    with Server(("127.0.0.1", 0), _Answer) as one:
        threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True).start()
        yield one
        one.shutdown()


def said(body: bytes, length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length + body


def test_a_launched_server_is_asked_for_its_health_past_any_proxy(
    server: Server, tmp_path: Path
) -> None:
    server.said = said(b"")
    launched = LaunchedVllm(log=tmp_path / "log")
    assert not launched.healthy()
    launched.base_url = server.url
    assert launched.healthy()
    server.said = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    assert not launched.healthy()


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        (said(b'{"version": "0.32.0", "more": [1]}'), "0.32.0"),
        (said(b'{"version": "0.32.0"', 500), None),
        (said(b'{"version": 3}'), None),
        (said(b'["0.32.0"]'), None),
        (said(b"[" * 50_000), None),
        (said(b'{"version": "' + b"9" * MOST_BYTES + b'"}'), None),
        (b"no HTTP at all", None),
        (b"", None),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", None),
    ],
)
def test_a_version_is_what_a_server_says_well_and_else_unknown(
    server: Server, answer: bytes, version: str | None
) -> None:
    server.said = answer
    assert server_version(server.url) == version


def test_an_endless_answer_is_read_to_its_bound(server: Server) -> None:
    server.said = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * (4 * MOST_BYTES)
    assert answer_of(server.url, 2) == b"x" * MOST_BYTES
