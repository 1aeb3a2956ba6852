"""A checkpoint is whole or absent: temporary file, sync, rename, sync of the folder."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from slackwater.errors import SlackwaterError


class CheckpointError(SlackwaterError):
    """The checkpoint could not be written; the one before it is still there."""


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> int:
    """Write `state` (tensors and plain values) to `path` and return its size in bytes.

    After a crash at any moment `path` holds either the old state or the new one, whole. Raises
    `CheckpointError` and leaves no temporary file.
    """
    temporary = path.with_suffix(".tmp")
    try:
        with temporary.open("wb") as file:
            torch.save(dict(state), file)
            file.flush()
            os.fsync(file.fileno())
        size = temporary.stat().st_size
        temporary.replace(path)
        _sync_folder(path.parent)
    except (OSError, RuntimeError) as error:
        temporary.unlink(missing_ok=True)
        # torch's zip writer hides what the system said behind a RuntimeError of its own.
        said = error if isinstance(error, OSError) else error.__context__
        why = said.strerror if isinstance(said, OSError) else "not all of it could be written"
        msg = f"cannot write the checkpoint {path}: {why}; free space or change --checkpoint-dir"
        raise CheckpointError(msg) from error
    return size


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
