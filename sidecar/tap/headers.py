"""Which headers a proxy hands on: all but those that are of one connection (RFC 9110, 7.6.1)."""

from collections.abc import Iterable

Headers = list[tuple[str, str]]

OF_ONE_CONNECTION = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def handed_on(headers: Iterable[tuple[str, str]], *, but: frozenset[str] = frozenset()) -> Headers:
    """The headers that go to the other side, less those named in `but` (lower case).

    >>> handed_on([("Connection", "close, X-Mine"), ("X-Mine", "1"), ("Accept", "*/*")])
    [('Accept', '*/*')]
    """
    given = list(headers)
    named = {
        part.strip().lower()
        for name, value in given
        if name.lower() == "connection"
        for part in value.split(",")
    }
    dropped = OF_ONE_CONNECTION | named | but
    return [(name, value) for name, value in given if name.lower() not in dropped]
