"""Options that go with others: what would not be heeded is refused, not passed over."""

from collections.abc import Mapping

from slackwater.errors import InputError


def refuse(why: str, options: Mapping[str, object]) -> None:
    """Raise `InputError` for those of `options` that were given: are not None."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        msg = f"{why}; leave {', '.join(given)} out"
        raise InputError(msg)
