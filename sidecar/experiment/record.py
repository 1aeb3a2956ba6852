"""The record of a calibration: JSON lines, one for what was set up and one a block as it ends.

A block is written and synced whole; a line that a crash cut short is left out when it is read, and
the next block takes its place. Who writes holds it (`sidecar.held`); a look changes nothing.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Literal

import msgspec

from calibration.effect.observed import Arm
from sidecar.experiment.design import Design
from sidecar.load import Outcome
from sidecar.server import Server
from slackwater.errors import InputError, SlackwaterError

SAME_US = 1_000
"""A client's last look and its schedule may lie a little apart."""
WARM_UP: Literal["warm_up"] = "warm_up"


class Merge(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One merge, from the first learner's start to the last one's end; microseconds.

    Attributes:
        id: of the merge.
        start_us, end_us: the window.
        done: false when it failed; its window is then no merge's.
        detail: bytes, seconds, and what else the learners said.
        reason: why it failed.
    """

    id: str
    start_us: int
    end_us: int
    done: bool = True
    detail: dict[str, Any] = {}
    reason: str | None = None


class PlayedBlock(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="block"):
    """What happened in one block.

    Attributes:
        number: of the design; -1 for a warm-up.
        round: likewise.
        arm: or `warm_up`.
        began_us: when its load began.
        start_us: from here on it is measured.
        end_us: arrivals up to here.
        complete: false for one that was interrupted: it is in no figure.
        client_cpu_s: of the load client.
        merges: all of them, in order.
        requests: everything that came due, in order of its end.
    """

    number: int
    round: int
    arm: Arm | Literal["warm_up"]
    began_us: int
    start_us: int
    end_us: int
    complete: bool
    client_cpu_s: float
    merges: list[Merge]
    requests: list[Outcome]


class SetUp(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="calibration"):
    """The first line.

    Attributes:
        schema_version: of the record.
        started_us: when it began.
        design: what is played.
        server: what was measured, for people, and where.
        endpoint: the same, to compare with; None in records of versions that did not keep it.
        merging: how merges are made.
        hardware, versions: of the host.
        options: what else was asked for.
    """

    schema_version: Literal[1] = 1
    started_us: int
    design: Design
    server: str
    endpoint: Server | None = None
    merging: str
    hardware: dict[str, Any]
    versions: dict[str, str]
    options: dict[str, Any] = {}


def check_new(path: Path) -> None:
    """Raise `InputError` where a new record would have the place of a file that is there."""
    if path.exists():
        msg = f"{path} is there; continue it with --resume {path}, or name another --output"
        raise InputError(msg)


class Record:
    """A record that is being written; `open_new` or `reopen` make one.

    Args:
        path: of its file.
        set_up: its first line.
        blocks: the others.
        end: bytes of the file that are whole lines.
    """

    def __init__(
        self, path: Path, set_up: SetUp, blocks: Sequence[PlayedBlock] = (), end: int = 0
    ) -> None:
        self.path = path
        self.set_up = set_up
        self.blocks = list(blocks)
        self._end = end

    @classmethod
    def open_new(cls, path: Path, set_up: SetUp) -> "Record":
        """Begin a file that is not there yet; raises `InputError`."""
        check_new(path)
        record = cls(path, set_up)
        made = False
        try:
            with path.open("xb") as file:
                made = True
                record._write(file, set_up)
        except OSError as error:
            if made:
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
            msg = f"cannot write {path}: {error.strerror}; name another --output"
            raise InputError(msg) from None
        return record

    @classmethod
    def reopen(cls, path: Path) -> "Record":
        """Read one back, to go on with or to make its figures again; raises `InputError`."""
        try:
            text = path.read_bytes()
        except OSError as error:
            msg = f"cannot read --resume {path}: {error.strerror}"
            raise InputError(msg) from None
        end = text.rfind(b"\n") + 1
        whole = text[:end].splitlines()
        try:
            set_up = msgspec.json.decode(whole[0] if whole else b"", type=SetUp)
            blocks = [msgspec.json.decode(line, type=PlayedBlock) for line in whole[1:]]
        except msgspec.MsgspecError as error:
            msg = f"{path} is no record of a calibration: {error}; give what --output left beside"
            raise InputError(msg) from None
        record = cls(path, set_up, blocks, end)
        record._check()
        if twice := [number for number, times in record._times.items() if times > 1]:
            msg = (
                f"block {min(twice)} of {path} is there whole twice: two processes wrote this "
                "record, and its figures would count requests twice; measure anew"
            )
            raise InputError(msg)
        return record

    def _check(self) -> None:
        """Raise `InputError` for what no calibration writes."""
        known = {block.number for block in self.set_up.design.planned()} | {-1}
        for block in self.blocks:
            if block.number not in known:
                msg = (
                    f"{self.path} has a block {block.number}, and its design none: it was changed; "
                    "measure anew"
                )
                raise InputError(msg)
            # An interrupted block's beginning is known less well, and it is in no figure.
            for one in block.requests if block.complete else ():
                if one.ended_us < one.scheduled_us - SAME_US or one.scheduled_us < block.began_us:
                    msg = (
                        f"request {one.id} of block {block.number} of {self.path} is due at "
                        f"{one.scheduled_us} and ends at {one.ended_us} us, in a block that begins "
                        f"at {block.began_us}: it was changed; measure anew"
                    )
                    raise InputError(msg)

    def add(self, block: PlayedBlock) -> None:
        """Write a block; raises `SlackwaterError` when it cannot be."""
        self.blocks.append(block)
        try:
            with self.path.open("r+b") as file:
                self._write(file, block)
        except OSError as error:
            msg = f"cannot write {self.path}: {error.strerror}; free space, then --resume it"
            raise SlackwaterError(msg) from None

    @property
    def played(self) -> set[int]:
        """Numbers of the blocks that are complete."""
        return set(self._times)

    @property
    def whole(self) -> bool:
        """Whether every block of the design is complete."""
        return self.played >= {block.number for block in self.set_up.design.planned()}

    @property
    def _times(self) -> Counter[int]:
        """How often each block is there whole."""
        return Counter(b.number for b in self.blocks if b.complete and b.arm != WARM_UP)

    def _write(self, file: IO[bytes], line: SetUp | PlayedBlock) -> None:
        file.truncate(self._end)
        file.seek(self._end)
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())
        self._end = file.tell()
