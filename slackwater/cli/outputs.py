"""The files that a command writes: checked before any work, replaced whole or not at all."""

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from slackwater.errors import InputError, SlackwaterError

HEAD_BYTES = 4096
# What only our own files begin with; documents have a schema_version as profiles do.
OURS = {
    "a JSON document of slackwater": re.compile(
        rb'\s*\{\s*"schema_version":\s*\d+,\s*"configuration":'
    ),
    "a file of tuned settings": re.compile(rb'\s*\{\s*"kind":\s*"slackwater tuned settings"'),
    "a report of slackwater": re.compile(rb"\s*<!doctype html>.*<title>Slackwater report: ", re.S),
    "outcomes of a load": re.compile(rb'\{"id":"[^"]*","status":"[a-z]+","scheduled_us":\d+'),
    "a calibration profile": re.compile(rb'\s*\{\s*"schema_version":\s*\d+,\s*"name":'),
}
DOCUMENT, TUNED, REPORT, OUTCOMES, PROFILE = OURS
RUN_LOG = "a run log"
BESIDE_A_RUN_LOG = (".wal", ".sock")


@dataclass(frozen=True, slots=True)
class Output:
    """A file that an option names, and what is written there; `path` is None without it."""

    option: str
    path: Path | None
    kind: str


def check_outputs(outputs: Sequence[Output], inputs: Sequence[Path | None] = ()) -> None:
    """Raise `InputError` before any work when an output could not be written, or would harm a file.

    Outputs are distinct and none is an input. An existing file is replaced only by what is of its
    own kind; a run log is added to, and its own opening says what it can be.
    """
    read = [path for path in inputs if path is not None]
    taken: list[tuple[str, Path]] = []
    for output in outputs:
        if output.path is None:
            continue
        for path in read:
            if _same(output.path, path):
                msg = f"{output.option} {output.path} is read by this command; name another file"
                raise InputError(msg)
        for option, path in taken:
            if _same(output.path, path):
                msg = f"{output.option} {output.path} is what {option} writes; name another file"
                raise InputError(msg)
        if output.kind != RUN_LOG:
            _check_place(output.option, output.path)
            _check_kind(output.option, output.path, output.kind)
        taken += [(output.option, path) for path in _all_of(output.path, output.kind)]


def write_output(option: str, path: Path, content: bytes) -> None:
    """Write the file that an option names, whole or not at all; raises `SlackwaterError`.

    A device or pipe is written to; else a file beside it takes the old one's place when it is
    complete.
    """
    try:
        if _special(path):
            with path.open("ab") as stream:
                stream.write(content)
        else:
            _replace(Path(os.path.realpath(path)), content)
    except OSError as error:
        msg = f"cannot write {option} {path}: {error.strerror}"
        raise SlackwaterError(msg) from None


class Failures:
    """What went wrong in writing: one output that fails keeps no other from being written."""

    def __init__(self) -> None:
        self._found: list[SlackwaterError] = []

    @contextlib.contextmanager
    def later(self) -> Iterator[None]:
        """Keep a `SlackwaterError` for the end."""
        try:
            yield
        except SlackwaterError as error:
            self._found.append(error)

    def end(self) -> None:
        """Raise what was kept; several as one `SlackwaterError`."""
        if len(self._found) == 1:
            raise self._found[0]
        if self._found:
            raise SlackwaterError("; ".join(str(error) for error in self._found))


def _check_place(option: str, path: Path) -> None:
    """Refuse a folder, a folder that is not there, and what may not be written."""
    if path.is_dir() or not path.absolute().parent.is_dir():
        msg = f"cannot write {option} {path}: give a file in a folder that exists"
        raise InputError(msg)
    folder = Path(os.path.realpath(path)).parent
    closed = path if path.exists() else folder
    if not os.access(closed, os.W_OK) or not (_special(path) or os.access(folder, os.W_OK)):
        msg = f"cannot write {option} {path}: no permission to write there; name another file"
        raise InputError(msg)


def _check_kind(option: str, path: Path, kind: str) -> None:
    """Refuse to replace what is of another kind; an empty file holds nothing to lose."""
    if not path.exists() or _special(path):
        return
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        msg = f"cannot read {option} {path}: {error.strerror}; only {kind} is replaced"
        raise InputError(msg) from None
    if head and not OURS[kind].match(head):
        msg = f"{option} {path} is there and is not {kind}; remove it, or name another file"
        raise InputError(msg)


def _special(path: Path) -> bool:
    """A device, a pipe, or a name for an open file: these have no place for another file."""
    named = str(path.absolute()).startswith(("/dev/", "/proc/"))
    return named or (path.exists() and not path.is_file())


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file; a device may take several outputs."""
    if _special(one):
        return False
    if one.exists() and other.exists():
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _all_of(path: Path, kind: str) -> list[Path]:
    beside = BESIDE_A_RUN_LOG if kind == RUN_LOG else ()
    return [path, *(path.with_name(path.name + suffix) for suffix in beside)]


def _replace(path: Path, content: bytes) -> None:
    part = path.with_name(f".slackwater-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as file:
            if path.exists():
                part.chmod(path.stat().st_mode & 0o7777)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
