"""Whether a DuckDB write-ahead log ends with a whole transaction, and setting it aside if not.

DuckDB replays what is whole and drops the rest without a word. A log that says what it holds has
to say what it lost as well. The layout is that of DuckDB 2.0 (WAL version 2): a version entry,
then entries of size (8 bytes), checksum (8 bytes) and payload; a flush entry ends a transaction.
"""

import shutil
import struct
import time
from pathlib import Path

_VERSION_2 = bytes.fromhex("640062650002")
_HEADER = _VERSION_2 + bytes.fromhex("660010")
_IDENTIFIER_NUMBERS = 16
_FLUSH = bytes.fromhex("640064")
_FRAME = struct.Struct("<QQ")


def wal_path(database: Path) -> Path:
    """Where DuckDB keeps the write-ahead log of `database`."""
    return database.with_name(database.name + ".wal")


def torn_bytes(wal: Path) -> int:
    """Bytes after the last whole transaction of `wal`; 0 when it is whole, empty or not there.

    0 as well for a layout that is not known: then DuckDB alone judges.
    """
    if not wal.exists() or wal.stat().st_size == 0:
        return 0
    with wal.open("rb") as file:
        head = file.read(256)
        start = _after_header(head)
        size = wal.stat().st_size
        if start is None:
            return size if _VERSION_2.startswith(head[: len(_VERSION_2)]) else 0
        whole = position = start
        while position + _FRAME.size <= size:
            file.seek(position)
            length, _checksum = _FRAME.unpack(file.read(_FRAME.size))
            kind = file.read(min(length, len(_FLUSH)))
            position += _FRAME.size + length
            if position > size:
                break
            if kind == _FLUSH:
                whole = position
    return size - whole


def set_aside(wal: Path, *, keep: bool) -> Path:
    """Put `wal` (a copy of it when `keep`) beside itself under a name that DuckDB does not read."""
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    target = wal.with_name(f"{wal.name}.broken-{stamp}")
    if keep:
        shutil.copy2(wal, target)
    else:
        wal.rename(target)
    return target


def _after_header(head: bytes) -> int | None:
    """Length of the version entry: its numbers take 7 bits a byte; None for another layout."""
    if not head.startswith(_HEADER):
        return None
    position = len(_HEADER)
    for _ in range(_IDENTIFIER_NUMBERS):
        position = _after_number(head, position)
    if head[position : position + 2] != b"\x67\x00":
        return None
    position = _after_number(head, position + 2)
    return position + 2 if head[position : position + 2] == b"\xff\xff" else None


def _after_number(head: bytes, position: int) -> int:
    while position < len(head) and head[position] & 0x80:
        position += 1
    return position + 1
