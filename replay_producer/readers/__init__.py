"""Trace readers: one module a format, one table of them, recognised by content."""

from pathlib import Path

from replay_producer.readers.aiperf import AIPERF
from replay_producer.readers.azure import AZURE
from replay_producer.readers.burstgpt import BURSTGPT
from replay_producer.readers.events import SLACKWATER, event_type
from replay_producer.readers.file import TraceFile
from replay_producer.readers.format import Format
from replay_producer.readers.guidellm import GUIDELLM
from replay_producer.readers.mooncake import MOONCAKE
from replay_producer.readers.vllm_bench import VLLM_BENCH
from replay_producer.rows import Collector, OnBad
from replay_producer.trace import Trace
from slackwater.errors import InputError

FORMATS = (AZURE, BURSTGPT, SLACKWATER, AIPERF, MOONCAKE, VLLM_BENCH, GUIDELLM)
RECORDING = "recording"

__all__ = ["FORMATS", "RECORDING", "check_format", "detect_format", "read_trace"]


def check_format(name: str) -> str:
    """Return `name` when it is a format or `recording`; raises `InputError` otherwise."""
    known = [item.name for item in FORMATS] + [RECORDING]
    if name not in known:
        msg = f"format {name!r} is not known; it must be one of {', '.join(known)}"
        raise InputError(msg)
    return name


def detect_format(path: Path) -> str:
    """The format of a file by its content; raises `InputError` when it is none of ours.

    A file of our own events with any besides `request` is a `recording`: it is replayed as it
    was, not served again by the model.
    """
    file = TraceFile(path)
    found = _recognise(file)
    if found is SLACKWATER and any(event_type(line) != "request" for _, line in file.lines()):
        return RECORDING
    return found.name


def read_trace(path: Path, format_name: str | None = None, on_bad: OnBad = "stop") -> Trace:
    """Read a trace file.

    Args:
        path: the file.
        format_name: forces a format; None recognises it by content. A `recording` gives the
            trace of its requests.
        on_bad: `stop` refuses a file with rows that cannot be used, `skip` leaves them out.

    Raises:
        InputError: names the file, the row, the value, what is allowed and what to do.
    """
    file = TraceFile(path)
    chosen = _recognise(file) if format_name is None else _named(format_name)
    collector = Collector(path, chosen.unit, on_bad)
    collector.take(chosen.rows(file), chosen.parse)
    return collector.trace(chosen.name, file.sha256)


def _named(name: str) -> Format:
    if check_format(name) == RECORDING:
        return SLACKWATER
    return next(item for item in FORMATS if item.name == name)


def _recognise(file: TraceFile) -> Format:
    if next(file.lines(), None) is None:
        msg = f"{file.path}: an empty file; a trace needs at least one request"
        raise InputError(msg)
    for item in FORMATS:
        if item.recognises(file):
            return item
    known = ", ".join(f"{item.name} ({item.title})" for item in FORMATS)
    first = next(file.lines())[1][:60]
    msg = (
        f"{file.path}: format not recognised (it begins {first!r}); known are {known}; "
        "--format NAME forces one"
    )
    raise InputError(msg)
