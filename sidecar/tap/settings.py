"""What a tap stands in front of, and under which name it reports."""

from typing import NamedTuple

import msgspec
from yarl import URL

from sidecar.url import check_url
from slackwater.errors import InputError
from slackwater.settings import check_name

GENERATIONS = (
    "/completions",
    "/chat/completions",
    "/responses",
    "/messages",
    "/generate",
    "/generate_stream",
)
"""Ends of the paths whose POSTs are requests for tokens: OpenAI, Anthropic, SGLang, TGI."""


class Address(NamedTuple):
    """Where to listen."""

    host: str
    port: int


class TapSettings(msgspec.Struct, frozen=True, kw_only=True):
    """One tap.

    Attributes:
        upstream: the server's URL; paths are appended to it.
        sidecar: its name in events.
        run_id: of the events.
        connect_timeout_s: seconds to wait for a connection to it.
    """

    upstream: str
    sidecar: str = "sidecar-0"
    run_id: str = "live"
    connect_timeout_s: float = 10.0

    def __post_init__(self) -> None:
        check_url(self.upstream, "--upstream")
        check_name(self.sidecar, "--sidecar")
        check_name(self.run_id, "run_id")

    @property
    def base(self) -> str:
        """The URL without a slash at its end."""
        return self.upstream.rstrip("/")

    def location(self, said: str) -> str:
        """Where a redirect of the upstream leads through the tap; elsewhere it leads as it did.

        >>> TapSettings(upstream="http://h:8000/a").location("http://h:8000/a/v1/x?y")
        '/v1/x?y'
        """
        own = URL(self.base, encoded=True)
        for start in (self.base, str(own), own.raw_path):
            rest = said.removeprefix(start.rstrip("/")) or "/"
            # Two slashes would name another host.
            if rest != said and rest.startswith("/") and not rest.startswith("//"):
                return rest
        return said


def address(text: str) -> Address:
    """Read HOST:PORT, port 0 for any free one; raises `InputError`."""
    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) < 65536):
        msg = f"--listen {text!r} is not HOST:PORT, such as 127.0.0.1:8001"
        raise InputError(msg)
    return Address(host.strip("[]"), int(port))


def asks_for_tokens(method: str, path: str) -> bool:
    """Whether a request is one that the tap reports."""
    return method == "POST" and path.rstrip("/").endswith(GENERATIONS)
