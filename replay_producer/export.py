"""The events that a source yields, written to a file without broker or pacing."""

import os
from collections.abc import Callable
from pathlib import Path

from replay_producer.source import Source
from slackwater.codec import encode_lines
from slackwater.errors import InputError, SlackwaterError

STEP_US = 10_000_000
# Event time of a trace that has no epoch origin: 2024-01-01T00:00:00Z, the same on every machine.
DEFAULT_ORIGIN_US = 1_704_067_200_000_000


def export(source: Source, path: Path) -> int:
    """Write all events of `source` as JSON lines in order of `at_us`; returns how many.

    The file appears whole or not at all. Raises `InputError` when `path` is something else than a
    regular file, and `SlackwaterError` when it cannot be written.
    """
    if path.exists() and not path.is_file():
        msg = f"{path} is not a regular file; --export writes a new file or replaces a regular one"
        raise InputError(msg)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with temporary.open("xb") as out:
                count = _write(source, out.write)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        msg = f"cannot write {path}: {error.strerror}; choose another file or make room"
        raise SlackwaterError(msg) from None
    return count


def _write(source: Source, write: Callable[[bytes], object]) -> int:
    count = 0
    while (next_us := source.next_us()) is not None:
        messages = source.advance(next_us + STEP_US)
        write(encode_lines(message.event for message in messages))
        count += len(messages)
    return count
