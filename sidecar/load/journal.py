"""Outcomes on file as JSON lines, written as they come: what has ended is there after any end."""

from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from sidecar.load.outcome import Outcome
from slackwater.errors import SlackwaterError


class Journal:
    """Writes one line an outcome, at once, until that fails: the load goes on without it.

    Args:
        path: replaced; None writes nothing.

    Raises:
        SlackwaterError: the file cannot be opened.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._encode = msgspec.json.Encoder().encode
        self._file: BinaryIO | None = None
        self._failed: OSError | None = None
        if path is not None:
            try:
                self._file = path.open("wb")
            except OSError as error:
                raise self._unwritten(error) from None

    def add(self, outcome: Outcome) -> None:
        """Write one outcome."""
        if self._file is None or self._failed is not None:
            return
        try:
            self._file.write(self._encode(outcome) + b"\n")
            self._file.flush()
        except OSError as error:
            self._failed = error

    def check(self) -> None:
        """Raise `SlackwaterError` when not every outcome has been written; for the end."""
        if self._failed is not None:
            raise self._unwritten(self._failed)

    def _unwritten(self, error: OSError) -> SlackwaterError:
        return SlackwaterError(f"cannot write --output {self._path}: {error.strerror}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if self._file is None:
            return
        try:
            self._file.close()
        except OSError as error:
            self._failed = self._failed or error
