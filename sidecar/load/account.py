"""The account of a client: finished, aborted, timed out, failed and dropped make scheduled."""

from collections import Counter

from sidecar.load.outcome import Outcome
from slackwater.errors import SlackwaterError
from slackwater.statuses import CLIENT_STATUSES, ClientStatus

MIN_ANSWERED = 0.5
"""Share of requests below which the server was not well, and nothing was measured."""


class AccountError(SlackwaterError):
    """Requests came due and nobody said what became of them, or more was said than came due."""


class Account:
    """Counts requests when they come due and, apart from that, when they end.

    Attributes:
        scheduled: requests that came due.
    """

    def __init__(self) -> None:
        self.scheduled = 0
        self._ended: Counter[ClientStatus] = Counter()

    def end(self, outcome: Outcome) -> None:
        """Count one outcome."""
        self._ended[outcome.status] += 1

    @property
    def in_flight(self) -> int:
        """Requests that came due and have not ended."""
        return self.scheduled - self._ended.total()

    @property
    def ended(self) -> dict[str, int]:
        """How many ended in which way; every way is named."""
        return {status: self._ended[status] for status in CLIENT_STATUSES}

    def check(self) -> None:
        """Raise `AccountError` unless every request that came due has ended, once."""
        if self.in_flight:
            parts = " + ".join(f"{count} {name}" for name, count in self.ended.items())
            msg = f"{parts} are not {self.scheduled} scheduled: {self.in_flight} unaccounted for"
            raise AccountError(msg)
