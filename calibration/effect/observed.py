"""What was observed: blocks of three arms, every request sent in them, and every merge window."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from slackwater.errors import InputError
from slackwater.statuses import CLIENT_STATUSES

Arm = Literal["nothing", "learners", "merges"]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ARMS: tuple[Arm, ...] = get_args(Arm)


@dataclass(frozen=True, slots=True)
class Block:
    """A stretch of one arm.

    Attributes:
        arm: which.
        round: blocks of one round played the same arrivals.
        start_s: from here on its requests count; what was sent before let the queue settle.
        end_s: arrivals up to here.
    """

    arm: Arm
    round: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Window:
    """One merge that was measured: [start, end), in the block of that number."""

    block: int
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class Account:
    """Where the requests of an arm went: the other figures add up to those that came due.

    Attributes:
        due: requests that came due.
        ok: finished.
        aborted: whose answer broke off.
        timeout: given up by the client.
        error: refused or failed.
        dropped: never sent, for too many were in flight.
    """

    due: int
    ok: int
    aborted: int
    timeout: int
    error: int
    dropped: int


@dataclass(frozen=True, eq=False)
class Observed:
    """All of one calibration; times in seconds on one clock.

    Attributes:
        blocks: in order of time.
        windows: likewise; those discarded are not among them.
        arrival_s: [n] when each request was due to be sent.
        end_s: [n] when it ended, however it did.
        status: [n] index into `CLIENT_STATUSES`.
        tokens: [n] tokens in and out: as counted by the server, as asked for where it did not say.
        block: [n] in whose time it was due, its settling included.
    """

    blocks: Sequence[Block]
    windows: Sequence[Window]
    arrival_s: Floats
    end_s: Floats
    status: Ints
    tokens: Ints
    block: Ints

    def __post_init__(self) -> None:
        lengths = {len(a) for a in (self.end_s, self.status, self.tokens, self.block)}
        if lengths != {len(self.arrival_s)}:
            msg = "a calibration needs one arrival, end, status, tokens and block a request"
            raise InputError(msg)
        if not (np.isfinite(self.arrival_s).all() and (self.end_s >= self.arrival_s).all()):
            msg = "a request of the calibration ends before it arrives, or never"
            raise InputError(msg)
        for window in self.windows:
            if not (window.end_s > window.start_s and self.blocks[window.block].arm == "merges"):
                msg = f"{window} is no merge window: it is empty, or in a block without merges"
                raise InputError(msg)

    def of_arm(self, arm: Arm) -> list[int]:
        """The numbers of its blocks."""
        return [number for number, block in enumerate(self.blocks) if block.arm == arm]

    @property
    def rounds(self) -> int:
        """How many rounds were played."""
        return len({block.round for block in self.blocks})

    def round_of(self, block: Ints) -> Ints:
        """The place of each block's round among those that were played, from 0."""
        of_block = np.array([one.round for one in self.blocks], np.int64)
        return np.searchsorted(np.unique(of_block), of_block[block]).astype(np.int64)

    def counted(self, arm: Arm) -> NDArray[np.bool_]:
        """[n] the requests of an arm that its figures are made from: those after its settling."""
        starts = np.array([block.start_s for block in self.blocks])
        inside = np.isin(self.block, self.of_arm(arm))
        inside[inside] = self.arrival_s[inside] >= starts[self.block[inside]]
        return np.asarray(inside)

    @property
    def latency_s(self) -> Floats:
        """[n] from due to ended; infinite for a request that never got its answer."""
        answered = self.status == CLIENT_STATUSES.index("ok")
        return np.where(answered, self.end_s - self.arrival_s, np.inf)

    def account(self, arm: Arm) -> Account:
        """All requests sent in the arm's blocks, settling included."""
        statuses = self.status[np.isin(self.block, self.of_arm(arm))]
        counts = np.bincount(statuses, minlength=len(CLIENT_STATUSES)).tolist()
        return Account(len(statuses), *counts)
