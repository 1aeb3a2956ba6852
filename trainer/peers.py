"""The learners that a training loop of one's own merges with, by torchrun's environment."""

import dataclasses
import os
from collections.abc import Callable, Sequence

from slackwater.errors import InputError
from slackwater.settings import GROUP_ENV, RUN_ID_ENV
from trainer.cards import Group, Solo
from trainer.join import Place, join
from trainer.shared import Shared


def _never() -> bool:
    return False


@dataclasses.dataclass(frozen=True, slots=True)
class Peers:
    """Where and with whom to meet; `DiLoCo` does it on entering.

    Who comes late, or back after a crash, takes the group's shared weights over and merges with
    the others from then on.

    Attributes:
        names: all learners' names, by rank, this one's among them.
        place: this learner's rank, and where they meet; None: RANK, WORLD_SIZE, MASTER_ADDR and
            MASTER_PORT, as torchrun sets them.
        quorum: fewer do not merge; None for more than half of those named. Give the attachment
            the same, or it takes commands that name all of them alone.
        room: what others do at the same place is none of it; None for the run and the group of
            the environment.
        timeout_s: how long a merge may take, waiting for others included.
        join_timeout_s: how long to wait for the others at the start; then a quorum begins.
        stopping: true once this process should end; ends every wait.
    """

    names: Sequence[str]
    place: Place | None = None
    quorum: int | None = None
    room: str | None = None
    timeout_s: float = 30.0
    join_timeout_s: float = 300.0
    stopping: Callable[[], bool] = _never

    def join(self, shared: Shared) -> Group:
        """Meet them; raises `JoinError` or `InputError` when that cannot be.

        `StoppedError` when `stopping` came first.
        """
        place = self.place or Place.from_env()
        if len(self.names) != place.world_size:
            msg = f"{len(self.names)} learners are named but WORLD_SIZE is {place.world_size}"
            raise InputError(msg)
        quorum = len(self.names) // 2 + 1 if self.quorum is None else self.quorum
        if not 1 <= quorum <= len(self.names):
            msg = f"quorum is {quorum}; it must be from 1 to the learners named, {len(self.names)}"
            raise InputError(msg)
        if place.world_size == 1:
            return Solo()
        # torch's own C++ warnings about a peer that is gone say less than the log line does.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        return join(
            place,
            self.names[place.rank],
            self.names,
            shared,
            room=self.room or _room_of_environment(),
            quorum=quorum,
            timeout_s=self.timeout_s,
            join_timeout_s=self.join_timeout_s,
            stopping=self.stopping,
        )


def _room_of_environment() -> str:
    return os.environ.get(RUN_ID_ENV, "live") + "/" + os.environ.get(GROUP_ENV, "default")
