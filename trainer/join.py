"""How the learners of a group find each other at the start."""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from slackwater.attach.waiting import Waiting
from slackwater.errors import InputError, SlackwaterError
from trainer.group import GlooGroup
from trainer.meeting import Meeting
from trainer.roster import Member
from trainer.shared import Shared

STORE_TIMEOUT_S = 5.0
LOOK_AGAIN_S = 0.01

log = logging.getLogger("trainer.group")


class JoinError(SlackwaterError):
    """The group did not come together."""


class StoppedError(Exception):
    """This process was told to end before the group was together."""


@dataclass(frozen=True, slots=True)
class Place:
    """This process's place among the learners, as torchrun's environment variables give it.

    Attributes:
        rank: 0 to world_size - 1.
        world_size: how many learners there are.
        address: host and port where the ranks meet.
        hosted: True when torchrun itself listens there, else rank 0 does.
    """

    rank: int = 0
    world_size: int = 1
    address: tuple[str, int] = ("127.0.0.1", 29500)
    hosted: bool = False

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> "Place":
        """RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; raises `InputError` when they are odd.

        Without WORLD_SIZE the learner is alone.
        """
        world_size = _whole(env, "WORLD_SIZE", "1")
        if world_size == 1:
            return cls()
        rank, port = _whole(env, "RANK"), _whole(env, "MASTER_PORT")
        if world_size < 1 or not 0 <= rank < world_size or not 0 < port < 65536:
            msg = (
                f"RANK={rank} WORLD_SIZE={world_size} MASTER_PORT={port}: "
                "RANK must be below WORLD_SIZE and the port from 1 to 65535"
            )
            raise InputError(msg)
        hosted = env.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        return cls(rank, world_size, (env.get("MASTER_ADDR", "127.0.0.1"), port), hosted)


def join(  # noqa: PLR0913
    place: Place,
    name: str,
    names: Sequence[str],
    shared: Shared,
    *,
    room: str,
    quorum: int,
    timeout_s: float,
    join_timeout_s: float,
    stopping: Callable[[], bool],
) -> GlooGroup:
    """Meet the others; returns once all are there, or at once when some train already.

    Args:
        place: where, and as which rank.
        name: this learner's.
        names: those who are expected, this one among them.
        shared: what this learner has in common with the others.
        room: the run and the group; what others do at the same place is none of it.
        quorum: fewer do not merge.
        timeout_s: how long a merge may take, later on; wall time, as all here.
        join_timeout_s: how long to wait for the others now.
        stopping: true once this process should end.

    Raises `JoinError` when fewer than the quorum come or one starts from something else,
    `InputError` when rank 0 cannot listen at the address, `StoppedError` when `stopping` came
    first.
    """
    host, port = place.address
    store_timeout_s = min(STORE_TIMEOUT_S, timeout_s / 2)
    serves = place.rank == 0 and not place.hosted
    meeting = Meeting(host, port, room, store_timeout_s, serves)
    group = GlooGroup(
        meeting,
        name,
        shared.digest,
        shared.read,
        quorum=quorum,
        timeout_s=timeout_s,
        stopping=stopping,
    )
    group.pulse.tell(epoch=shared.epoch, step=shared.step)
    try:
        _meet(group, meeting, names, quorum, time.monotonic() + join_timeout_s, stopping)
    except BaseException:
        group.leave()
        raise
    return group


def _meet(
    group: GlooGroup,
    meeting: Meeting,
    names: Sequence[str],
    quorum: int,
    deadline: float,
    stopping: Callable[[], bool],
) -> None:
    most_s = max(0.0, deadline - time.monotonic())
    waiting = Waiting(log, group.pulse.own.name, f"at {meeting.host}:{meeting.port}", most_s)
    while True:
        if group.pulse.failure is not None:
            raise group.pulse.failure
        here = list(group.pulse.here().values())
        others = [one for one in here if one.nonce != group.pulse.own.nonce]
        if any(one.training for one in others):
            waiting.over("the group trains already")
            return
        _check_same_start(group.pulse.own, others)
        absent = [name for name in names if name not in {one.name for one in here}]
        late = time.monotonic() > deadline and len(here) >= quorum
        if here and (not absent or late):
            if absent:
                log.warning("%s did not come in time; the others begin", ", ".join(absent))
            group.pulse.tell(met=tuple(one.nonce for one in here))
            waiting.over("all are there" if not absent else "with those who are there")
            return
        what = f"{', '.join(absent)} did not come"
        if not here:
            what = f"nothing listens at {meeting.host}:{meeting.port}"
        _check_time(deadline, stopping, what)
        waiting.look(absent.copy)
        time.sleep(LOOK_AGAIN_S)


def _check_same_start(own: Member, others: Sequence[Member]) -> None:
    for one in others:
        if one.epoch == own.epoch == 0 and one.digest != own.digest:
            msg = (
                f"{one.name} starts from other weights; all learners have to start from the same "
                "model: one seed before it is made (--seed of slackwater trainer), one size"
            )
            raise JoinError(msg)


def _check_time(deadline: float, stopping: Callable[[], bool], what: str) -> None:
    if stopping():
        raise StoppedError(what)
    if time.monotonic() > deadline:
        msg = f"{what} in time; start all learners of the group"
        raise JoinError(msg)


def _whole(env: Mapping[str, str], name: str, default: str | None = None) -> int:
    text = env.get(name, default)
    if text is None or not text.isdigit():
        msg = f"{name} is {text!r}; it must be a whole number, as torchrun sets it"
        raise InputError(msg)
    return int(text)
