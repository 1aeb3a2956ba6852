"""Which headers a proxy hands on: all but those that are of one connection (RFC 9110, 7.6.1)."""

from multidict import CIMultiDict, CIMultiDictProxy

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


def handed_on(
    headers: CIMultiDictProxy[str], *, but: frozenset[str] = frozenset()
) -> CIMultiDict[str]:
    """The headers that go to the other side, less those named in `but` (lower case)."""
    named = {
        name.strip().lower()
        for value in headers.getall("Connection", [])
        for name in value.split(",")
    }
    dropped = OF_ONE_CONNECTION | named | but
    return CIMultiDict((k, v) for k, v in headers.items() if k.lower() not in dropped)
