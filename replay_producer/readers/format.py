"""What a trace format is: how it is recognised, cut into rows, and each row understood."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from replay_producer.readers.file import TraceFile
from replay_producer.rows import Row


@dataclass(frozen=True, slots=True)
class Format:
    """One format that the reader knows.

    Attributes:
        name: what `--format` takes.
        title: what a person calls it.
        unit: what a row's number counts, `line` or `request`.
        recognises: True when the file's content is of this format.
        rows: number and raw content of each row; raises `InputError` for the file as a whole.
        parse: one raw row as a request; raises `RowError`.
    """

    name: str
    title: str
    unit: str
    recognises: Callable[[TraceFile], bool]
    rows: Callable[[TraceFile], Iterator[tuple[int, Any]]]
    parse: Callable[[Any], Row]
