"""A checkpoint is whole or absent: temporary file, sync, rename, sync of the folder.

Tensors are kept as they are, in the safetensors format; the tree they hang in and all plain values
are JSON beside them. Reading one runs nothing, unlike a pickle.
"""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from slackwater.errors import InputError, SlackwaterError
from trainer.alone import HeldError, alone
from trainer.tensorfile import CHECKSUM, DamagedError, read_tensors, write_tensors

TREE = "slackwater.checkpoint"


class CheckpointError(SlackwaterError):
    """The checkpoint could not be written; the one before it is still there."""


def write_checkpoint(path: Path, state: Mapping[str, Any]) -> int:
    """Write `state` (tensors, plain values, dicts, lists and tuples of them); returns bytes.

    After a crash at any moment `path` holds either the old state or the new one, whole. Raises
    `CheckpointError` and leaves no temporary file. Who else writes the same is waited for,
    up to a minute. Raises `InputError` when `path` is something other than a file.
    """
    refuse_special(path)
    temporary = path.with_name(f"{path.name}.tmp")
    try:
        tensors: dict[str, torch.Tensor] = {}
        tree = json.dumps(_plain(state, "", tensors, {}))
        with alone(temporary) as file:
            try:
                file.truncate()
                write_tensors(file, tensors, {TREE: tree})
                file.flush()
                os.fsync(file.fileno())
                size = temporary.stat().st_size
                temporary.replace(path)
            except BaseException:
                # While it is still locked: later it may be another's.
                temporary.unlink(missing_ok=True)
                raise
        _sync_folder(path.parent)
    except (OSError, TypeError, HeldError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        advice = "; free space or change --checkpoint-dir" if isinstance(error, OSError) else ""
        msg = f"cannot write the checkpoint {path}: {why}{advice}"
        raise CheckpointError(msg) from error
    return size


def read_checkpoint(path: Path) -> dict[str, Any]:
    """What `write_checkpoint` wrote, tensors on the CPU.

    Raises `InputError` when there is no checkpoint, it is damaged, or it is of something else.
    """
    refuse_special(path)
    try:
        tensors, text = read_tensors(path)
        if TREE not in text or CHECKSUM not in text:
            missing = TREE if TREE not in text else CHECKSUM
            msg = f"it has no {missing}"
            raise ValueError(msg)
        found: dict[str, Any] = _tree(json.loads(text[TREE]), tensors)
    except OSError as error:
        msg = f"cannot read the checkpoint {path}: {error.strerror}"
        raise InputError(msg) from None
    except DamagedError as error:
        msg = (
            f"the checkpoint {path} is damaged: {error}; take another copy of it, or move it away "
            "and start without it"
        )
        raise InputError(msg) from None
    except (ValueError, KeyError, TypeError) as error:
        why = f"its header lacks {error}" if isinstance(error, KeyError) else error
        msg = f"{path} is no checkpoint of a learner: {why}"
        raise InputError(msg) from None
    return found


def refuse_special(path: Path) -> None:
    """Raise `InputError` when `path` is there and is no file, such as a device or a folder."""
    try:
        mode = path.stat().st_mode
    except OSError:
        # Not there, or not to be had: whoever opens it says which.
        return
    if not stat.S_ISREG(mode):
        msg = f"{path} is there and is no regular file; give the checkpoint another path"
        raise InputError(msg)


def _plain(value: Any, name: str, tensors: dict[str, torch.Tensor], seen: dict[Any, str]) -> Any:
    """JSON of a tree, its tensors moved to `tensors`; one that comes twice is kept once."""
    if isinstance(value, torch.Tensor):
        where = (value.device, value.data_ptr(), value.dtype, tuple(value.shape), value.stride())
        known = seen.setdefault(where, name) if value.numel() else name
        tensors[known] = value
        return {"tensor": known}
    if isinstance(value, Mapping):
        pairs = [
            [key, _plain(one, f"{name}.{key}" if name else str(key), tensors, seen)]
            for key, one in value.items()
        ]
        return {"dict": pairs}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_plain(v, f"{name}.{n}", tensors, seen) for n, v in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    msg = f"{name} is a {type(value).__name__}: a checkpoint holds tensors and plain values"
    raise TypeError(msg)


def _tree(node: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if not isinstance(node, dict):
        return node
    ((kind, content),) = node.items()
    if kind == "tensor":
        if content not in tensors:
            msg = f"it has no tensor {content}"
            raise ValueError(msg)
        return tensors[content]
    if kind == "dict":
        return {key: _tree(one, tensors) for key, one in content}
    return (list if kind == "list" else tuple)(_tree(one, tensors) for one in content)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
