"""`slackwater group status`: the members of a merge group, by what they said lately."""

import time
from dataclasses import dataclass, field
from typing import Any

from slackwater.clock import US_PER_S
from slackwater.codec import Codec
from slackwater.events import Finished, Heartbeat, MergeReport, Pause, Resume, Skipped, Step
from slackwater.settings import RunSettings
from slackwater.topics import COMMANDS, LEARNERS, MERGES
from slackwater.transport import reader

READ_LIMIT_S = 20.0
# As `learner_stale_s` of the controller, unless that is set otherwise; event time.
SILENT_S = 10.0


@dataclass(slots=True)
class MemberStatus:
    """One learner; what it has not said is None.

    Attributes:
        step, gap_steps, epoch: from its last step; the epoch counts its group's merges.
        heard_us: when it last said anything, event time.
        left: true when it said that it leaves for good.
        merge_id, merge_us, digest: of its last merge.
        skipped: why it skipped the last merge, when that was after its last finished one.
    """

    learner: str
    step: int | None = None
    gap_steps: int | None = None
    epoch: int | None = None
    heard_us: int = 0
    left: bool = False
    merge_id: str | None = None
    merge_us: int | None = None
    digest: str | None = None
    skipped: str | None = None


@dataclass(slots=True)
class GroupStatus:
    """What a group's topics say; feed it events in the order of each topic.

    Attributes:
        unread_messages: how many of the topics were not read in time: the newest ones.
    """

    members: dict[str, MemberStatus] = field(default_factory=dict)
    paused: bool = False
    unread_messages: int = 0

    def hear(self, event: Any) -> None:
        """Take one event of the group."""
        if isinstance(event, Pause | Resume):
            self.paused = isinstance(event, Pause)
        if not isinstance(event, Step | Heartbeat | MergeReport):
            return
        member = self.members.setdefault(event.learner, MemberStatus(event.learner))
        if event.at_us >= member.heard_us and not isinstance(event, MergeReport):
            member.left = isinstance(event, Heartbeat) and event.final
        member.heard_us = max(member.heard_us, event.at_us)
        if isinstance(event, Step):
            member.step, member.gap_steps = event.step, event.steps_since_merge
            member.epoch = event.epoch
        elif isinstance(event, Finished):
            member.merge_id, member.merge_us = event.merge_id, event.at_us
            member.digest, member.skipped = event.digest, None
        elif isinstance(event, Skipped):
            member.skipped = event.reason


def read_status(run: RunSettings, since_s: float) -> GroupStatus:
    """What the group's topics say of the last `since_s` seconds of wall time.

    It reads for `READ_LIMIT_S` at most, and says how much it did not come to.

    Raises `BrokerError` when the broker or a topic is not there.
    """
    status = GroupStatus()
    codecs = {topic.name(run.prefix): Codec(topic) for topic in (COMMANDS, LEARNERS, MERGES)}
    consumer = reader(run.bootstrap, (COMMANDS, LEARNERS, MERGES), run.prefix)
    try:
        ends = {p: consumer.position(p) for p in consumer.assignment()}
        since_ms = int((time.time() - since_s) * 1000)
        found = consumer.offsets_for_times(dict.fromkeys(ends, since_ms))
        for partition, start in found.items():
            consumer.seek(partition, ends[partition] if start is None else start.offset)
        give_up = time.monotonic() + READ_LIMIT_S
        while left := sum(max(0, end - consumer.position(p)) for p, end in ends.items()):
            if time.monotonic() >= give_up:
                status.unread_messages = left
                break
            for partition, records in consumer.poll(timeout_ms=200).items():
                for record in records:
                    for event in codecs[partition.topic].decode(record.value).events:
                        if event.run_id == run.run_id and event.group in {None, run.group}:
                            status.hear(event)
    finally:
        consumer.close()
    return status


def status_lines(status: GroupStatus, now_us: int) -> list[str]:
    """A table, a line a learner."""
    head = ("learner", "step", "gap", "epoch", "last heard", "last merge", "weights")
    rows = [head, *(_row(status.members[name], now_us) for name in sorted(status.members))]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    for name, member in sorted(status.members.items()):
        if member.skipped:
            lines.append(f"{name} skipped its last merge: {member.skipped}")
    return [*lines, "merges are paused but for H_max"] if status.paused else lines


def who_is_there(status: GroupStatus, now_us: int) -> tuple[list[str], list[str]]:
    """Names of the members that were heard of lately, and of those that fell silent.

    Those who have left are in neither.
    """
    members = [member for _, member in sorted(status.members.items()) if not member.left]
    since_us = now_us - round(SILENT_S * US_PER_S)
    there = [member.learner for member in members if member.heard_us >= since_us]
    return there, [member.learner for member in members if member.learner not in there]


def unread_line(status: GroupStatus) -> str | None:
    """What to tell of messages not read; None when all were."""
    if not status.unread_messages:
        return None
    return (
        f"not the newest state: {status.unread_messages} messages were not read within "
        f"{READ_LIMIT_S:g} s; look less far back, --since-s"
    )


def _row(member: MemberStatus, now_us: int) -> tuple[str, ...]:
    heard = "left" if member.left else _ago(member.heard_us, now_us)
    merge = (
        "-" if member.merge_us is None else f"{member.merge_id}, {_ago(member.merge_us, now_us)}"
    )
    numbers = (member.step, member.gap_steps, member.epoch)
    told = tuple("-" if number is None else str(number) for number in numbers)
    return (member.learner, *told, heard, merge, member.digest or "-")


def _ago(us: int, now_us: int) -> str:
    return f"{max(0, now_us - us) / US_PER_S:.1f} s ago"
