"""The one error root: what a user can cause is a `SlackwaterError` and never shows a traceback."""


class SlackwaterError(Exception):
    """A problem that the user can act on.

    The message names the value, what is allowed and what to do. `exit_code` is what the command
    line returns: 2 for bad input or settings, 1 for something that failed while running.
    """

    exit_code = 1


class InputError(SlackwaterError):
    """A value, option or file given by the user cannot be used."""

    exit_code = 2


class EventError(SlackwaterError):
    """Bytes that are not a valid event; goes to the dead-letter topic with its raw bytes."""


class BrokerError(SlackwaterError):
    """No Kafka broker can be reached, or it refused."""


class RunLogError(SlackwaterError):
    """The DuckDB run log cannot be opened, written or read."""
