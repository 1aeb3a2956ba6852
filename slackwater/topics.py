"""The topics: name, key and event types of each, in one table."""

from dataclasses import dataclass
from types import UnionType

from slackwater import events


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic of the contract.

    Attributes:
        kind: the last part of its name; `name(prefix)` gives the whole.
        key: what its messages are keyed by.
        types: the event type, or the union of them, that it carries.
    """

    kind: str
    key: str
    types: type | UnionType

    def name(self, prefix: str = "slackwater") -> str:
        """The topic's full name under a prefix."""
        return f"{prefix}.{self.kind}"


REQUESTS = Topic("requests", "sidecar", events.RequestsEvent)
LEARNERS = Topic("learners", "learner", events.LearnersEvent)
BINS = Topic("bins", "merge group", events.Bins)
DECISIONS = Topic("decisions", "merge group", events.Decision)
COMMANDS = Topic("commands", "merge group", events.CommandsEvent)
MERGES = Topic("merges", "merge group", events.MergesEvent)
DEADLETTER = Topic("deadletter", "source topic", events.DeadLetter)

ALL_TOPICS = (REQUESTS, LEARNERS, BINS, DECISIONS, COMMANDS, MERGES, DEADLETTER)
