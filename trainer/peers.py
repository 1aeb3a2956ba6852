"""The learners that a training loop of one's own merges with, by torchrun's environment."""

import dataclasses
import os
from collections.abc import Sequence

from slackwater.errors import InputError
from slackwater.settings import GROUP_ENV, RUN_ID_ENV
from trainer.cards import Group, Solo
from trainer.join import Place, join
from trainer.outer import OuterState
from trainer.shared import Shared


@dataclasses.dataclass(frozen=True, slots=True)
class Peers:
    """Where and with whom to meet; `DiLoCo` does it on entering.

    Attributes:
        names: all learners' names, by rank, this one's among them.
        place: this learner's rank, and where they meet; None: RANK, WORLD_SIZE, MASTER_ADDR and
            MASTER_PORT, as torchrun sets them.
        timeout_s: how long a merge may take, waiting for others included.
        join_timeout_s: how long to wait for the others at the start.
    """

    names: Sequence[str]
    place: Place | None = None
    timeout_s: float = 30.0
    join_timeout_s: float = 300.0

    def join(self, outer: OuterState) -> Group:
        """Meet them; raises `JoinError` or `InputError` when that cannot be."""
        place = self.place or Place.from_env()
        if len(self.names) != place.world_size:
            msg = f"{len(self.names)} learners are named but WORLD_SIZE is {place.world_size}"
            raise InputError(msg)
        if place.world_size == 1:
            return Solo()
        # torch's own C++ warnings about a peer that is gone say less than the log line does.
        os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
        return join(
            place,
            self.names[place.rank],
            self.names,
            Shared(outer),
            # These learners take no state over yet: it needs all of them, as long as the run.
            room=os.environ.get(RUN_ID_ENV, "live") + "/" + os.environ.get(GROUP_ENV, "default"),
            quorum=len(self.names),
            timeout_s=self.timeout_s,
            join_timeout_s=self.join_timeout_s,
            stopping=lambda: False,
        )
