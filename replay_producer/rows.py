"""Rows of a trace file to a trace: bad rows are counted and named, clocks are never mixed."""

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from replay_producer.trace import UNKNOWN_TOKENS, Floats, Ints, Objects, Trace
from slackwater.clock import US_PER_S
from slackwater.errors import InputError
from slackwater.events import MAX_NAME, MIN_TIME_US
from slackwater.printable import printable

OnBad = Literal["stop", "skip"]
SHOWN_VALUE_CHARS = 60
MAX_TOKENS = 10**9


class RowError(Exception):
    """One row cannot be used: its value, which column, and what is allowed."""

    def __init__(self, value: object, column: str, allowed: str) -> None:
        shown = str(value) if len(str(value)) <= SHOWN_VALUE_CHARS else f"{str(value)[:57]}..."
        what = "is missing" if value is None or value == "" else f"is {shown!r}"
        super().__init__(f"{column} {what}; it must be {allowed}")


class Row(NamedTuple):
    """One request as its file gives it.

    `time_us` is since the epoch or since an origin that only the file knows. Unknown tokens are
    -1, unknown durations NaN, an unknown sidecar or tenant None.
    """

    time_us: int
    prompt_tokens: int = UNKNOWN_TOKENS
    output_tokens: int = UNKNOWN_TOKENS
    e2e_s: float = math.nan
    ttft_s: float = math.nan
    status: str = "ok"
    sidecar: str | None = None
    tenant: str | None = None


def tokens(value: object, column: str) -> int:
    """A count of tokens, -1 where it is not given; raises `RowError`."""
    if value is None or value == "":
        return UNKNOWN_TOKENS
    try:
        count = int(value) if isinstance(value, int | str) else -1
    except ValueError:
        count = -1
    if isinstance(value, bool) or not 0 <= count <= MAX_TOKENS:
        raise RowError(value, column, f"a whole number of tokens from 0 to {MAX_TOKENS}")
    return count


def name(value: object, column: str) -> str | None:
    """A name, None where it is not given; raises `RowError` for one that no event can carry."""
    if value is None or value == "":
        return None
    if len(str(value)) > MAX_NAME:
        raise RowError(value, column, f"a name of {MAX_NAME} characters at most")
    return str(value)


class Collector:
    """Takes the rows of one file and makes the trace, or one clear error.

    Args:
        path: the file, for messages.
        unit: what a row's number counts: `line` or `request`.
        on_bad: `stop` refuses a file with bad rows (after counting them all), `skip` leaves
            them out and says how many.
    """

    def __init__(self, path: Path, unit: str, on_bad: OnBad) -> None:
        self._path = path
        self._unit = unit
        self._on_bad = on_bad
        self._rows: list[Row] = []
        self._total = 0
        self._bad = 0
        self._first_bad = ""
        self._epoch_row: int | None = None
        self._relative_row: int | None = None

    def take(self, raws: Iterable[tuple[int, Any]], parse: Callable[[Any], Row]) -> None:
        """Read all rows; raises `InputError` when epoch and relative times are mixed."""
        for position, raw in raws:
            self._total += 1
            try:
                row = parse(raw)
            except RowError as error:
                self._bad += 1
                self._first_bad = self._first_bad or f"{self._unit} {position}: {error}"
                continue
            self._check_clock(position, row.time_us)
            self._rows.append(row)

    def trace(self, format_name: str, sha256: str, notes: tuple[str, ...] = ()) -> Trace:
        """The trace; raises `InputError` for bad rows (unless told to skip) or no rows at all."""
        self._refuse_bad()
        if not self._rows:
            msg = f"{self._path}: no request in it; a trace needs at least one"
            raise InputError(msg)
        columns = Row(*zip(*self._rows, strict=True))  # type: ignore[arg-type]
        time_us = np.array(columns.time_us, np.int64)
        order = np.argsort(time_us, kind="stable")
        first_us = int(time_us[order[0]])
        arrival_us = time_us[order] - first_us
        return Trace(
            name=printable(self._path.name),
            format=format_name,
            arrival_us=arrival_us,
            prompt_tokens=_ints(columns.prompt_tokens, order),
            output_tokens=_ints(columns.output_tokens, order),
            e2e_s=_floats(columns.e2e_s, order),
            ttft_s=_floats(columns.ttft_s, order),
            status=_objects(columns.status, order),
            sidecar=_objects(columns.sidecar, order),
            tenant=_objects(columns.tenant, order),
            duration_us=int(arrival_us[-1]),
            sha256=sha256,
            origin_us=first_us if first_us >= MIN_TIME_US else None,
            skipped=self._bad,
            notes=notes + self._notes(time_us),
        )

    def _check_clock(self, position: int, time_us: int) -> None:
        if time_us >= MIN_TIME_US:
            self._epoch_row = self._epoch_row or position
        else:
            self._relative_row = self._relative_row or position
        if self._epoch_row and self._relative_row:
            kind, other = ("an epoch", "relative")
            first = self._relative_row
            if time_us < MIN_TIME_US:
                kind, other, first = "a relative", "since the epoch", self._epoch_row
            msg = (
                f"{self._path}: {self._unit} {position} has {kind} time "
                f"({time_us / US_PER_S:.6f} s), but times from {self._unit} {first} on are "
                f"{other}; a file must keep one clock: correct that row or split the file"
            )
            raise InputError(msg)

    def _refuse_bad(self) -> None:
        if self._bad and (self._on_bad == "stop" or not self._rows):
            todo = "correct the file" if not self._rows else "correct the file or use --skip-bad"
            msg = (
                f"{self._path}: {self._first_bad} "
                f"({self._bad} of {self._total} rows cannot be used; {todo})"
            )
            raise InputError(msg)

    def _notes(self, time_us: Ints) -> tuple[str, ...]:
        notes = []
        if self._bad:
            notes.append(f"{self._bad} of {self._total} rows left out, first {self._first_bad}")
        behind = int(np.count_nonzero(np.diff(time_us) < 0))
        if behind:
            notes.append(f"{behind} rows stood before an earlier one: sorted by arrival")
        return tuple(notes)


def _ints(values: Any, order: Ints) -> Ints:
    return np.array(values, np.int64)[order]


def _floats(values: Any, order: Ints) -> Floats:
    return np.array(values, np.float64)[order]


def _objects(values: Any, order: Ints) -> Objects:
    return np.array(values, object)[order]
