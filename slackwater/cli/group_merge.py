"""`slackwater group merge-now`: who is asked for a merge, and what comes of it."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slackwater.codec import Codec
from slackwater.events import (
    PAUSED,
    Accepted,
    Decision,
    Finished,
    MergeCommand,
    MergeReport,
    Skipped,
)
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, DECISIONS, MERGES
from slackwater.transport import reader

POLL_MS = 100
# A merge is all or nothing: once one has refused, the others' words are on their way.
AFTER_REFUSAL_S = 2.0


@dataclass(slots=True)
class Answer:
    """What a group's topics say after it was asked; feed it events in the order of each topic.

    Attributes:
        asked: the learners that were heard of lately.
        command: the first one that came.
        waits: why the controller does not command, by its newest decision.
    """

    asked: Sequence[str]
    command: MergeCommand | None = None
    waits: str | None = None
    _said: dict[str, dict[str, MergeReport]] = field(default_factory=dict)

    def hear(self, event: Any) -> None:
        """Take one event of the group."""
        if isinstance(event, MergeCommand):
            self.command = self.command or event
        elif isinstance(event, MergeReport):
            self._said.setdefault(event.merge_id, {})[event.learner] = event
        elif isinstance(event, Decision) and event.active and event.action == "wait":
            self.waits = event.reason

    @property
    def paused(self) -> bool:
        """True when the controller does not command because of a pause."""
        return self.command is None and self.waits == PAUSED

    @property
    def merge_id(self) -> str | None:
        """The merge that it has come to: the one commanded, or one that was done without."""
        if self.command is not None:
            return self.command.merge_id
        done = (m for m, said in self._said.items() if _any(said, Finished))
        return next(done, None)

    @property
    def participants(self) -> Sequence[str]:
        """Who is to take part in that merge."""
        return self.asked if self.command is None else self.command.participants

    @property
    def settled(self) -> bool:
        """True when all who take part have ended it, well or not."""
        said = self._of_it()
        return bool(said) and all(
            isinstance(said.get(name), Finished | Skipped) for name in self.participants
        )

    @property
    def refused(self) -> bool:
        """True when one of them has."""
        return _any(self._of_it(), Skipped)

    @property
    def finished(self) -> bool:
        """True when all of them have finished it."""
        said = self._of_it()
        return (
            not self.paused
            and self.settled
            and all(isinstance(said[n], Finished) for n in self.participants)
        )

    def lines(self, waited_s: float) -> list[str]:
        """The merge, and a line a learner."""
        if self.paused:
            return [
                "the group is paused and this is not done: `slackwater group resume` first; at "
                "H_max the learners merge all the same"
            ]
        if self.merge_id is None:
            why = (
                f"the controller waits: {self.waits}"
                if self.waits
                else "nothing is heard of the controller: does slackwater stream run for them?"
            )
            return [f"no merge within {waited_s:.0f} s, one may still come; {why}"]
        said = self._of_it()
        head = f"{self.merge_id} was made without a command"
        if self.command is not None:
            at = self.command.at_step
            where = "at a moment" if at is None else f"at step {at}"
            head = f"{self.merge_id} commanded {where} ({self.command.reason})"
        return [head, *(f"{name}: {_told(said.get(name))}" for name in self.participants)]

    def _of_it(self) -> dict[str, MergeReport]:
        return self._said.get(self.merge_id or "", {})


def ask_and_follow(
    run: RunSettings, asked: Sequence[str], ask: Callable[[], None], wait_s: float
) -> Answer:
    """Call `ask`, and read what comes of it, for `wait_s` of wall time at most."""
    answer = Answer(asked)
    topics = (COMMANDS, MERGES, DECISIONS)
    codecs = {topic.name(run.prefix): Codec(topic) for topic in topics}
    consumer = reader(run.bootstrap, topics, run.prefix)
    try:
        # Where each topic ends now; what is asked comes after it.
        for partition in consumer.assignment():
            consumer.position(partition)
        ask()
        until_s = time.monotonic() + wait_s
        while not (answer.settled or answer.paused) and time.monotonic() < until_s:
            refused = answer.refused
            for partition, records in consumer.poll(timeout_ms=POLL_MS).items():
                for record in records:
                    for event in codecs[partition.topic].decode(record.value).events:
                        if (event.run_id, event.group) == (run.run_id, run.group):
                            answer.hear(event)
            if answer.refused and not refused:
                until_s = min(until_s, time.monotonic() + AFTER_REFUSAL_S)
    finally:
        consumer.close()
    return answer


def _any(said: dict[str, MergeReport], kind: type[MergeReport]) -> bool:
    return any(isinstance(report, kind) for report in said.values())


def _told(report: MergeReport | None) -> str:
    if report is None:
        return "no answer"
    if isinstance(report, Finished):
        return f"finished at step {report.step}, in {report.seconds:.3f} s"
    if isinstance(report, Skipped):
        return f"refused: {report.reason}"
    if isinstance(report, Accepted):
        return "accepted, no word since"
    return "started, no word since"
