"""The URL of a server, looked at before anything is asked of it."""

from urllib.parse import SplitResult, urlsplit

from slackwater.errors import InputError


def check_url(url: str, what: str) -> None:
    """Raise `InputError` unless `url` names a server that paths can be put after."""
    try:
        fine = _names_a_server(urlsplit(url))
    except ValueError:  # Brackets that do not close, or a port that is none.
        fine = False
    if not fine:
        msg = f"{what} {url!r} is no URL of a server; give http://HOST:PORT"
        raise InputError(msg)


def _names_a_server(parts: SplitResult) -> bool:
    host, port = parts.hostname, parts.port
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        return False
    return not (parts.query or parts.fragment)
