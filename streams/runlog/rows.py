"""The rows that come from no topic: the run itself, drawn schedules and verdicts."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import pyarrow as pa

from streams.runlog.store import Store


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What a run is, as it is known at its start.

    `settings` should hold `slo_s`, the latency objective in seconds (1 s when it does not).
    `created_us` is event time.
    """

    run_id: str
    created_us: int
    policy: str | None = None
    settings: dict[str, Any] = {}
    versions: dict[str, str] = {}
    seed: int | None = None
    trace: str | None = None
    trace_sha256: str | None = None


class Draw(msgspec.Struct, frozen=True, kw_only=True):
    """One schedule drawn for the matched random envelope; `cost` in requests."""

    run_id: str
    serving_model: str
    seed: int
    draw: int
    budget: int
    starts_s: list[float]
    cost: float


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What may be claimed of one policy; figures that are undefined are None."""

    run_id: str
    at_us: int
    policy: str
    serving_model: str
    verdict: Literal["no effect", "load not matched", "budget only", "no claim", "placement gain"]
    budget: int | None = None
    cost: float | None = None
    runs: int | None = None
    gain: float | None = None
    gain_pp: float | None = None
    gain_pp_low: float | None = None
    gain_pp_high: float | None = None
    p_value: float | None = None
    capture: float | None = None
    detail: dict[str, Any] = {}


Status = Literal["complete", "failed"]


def start(store: Store, run: Run) -> None:
    """Write the row of a run that begins, in place of an earlier one of that name."""
    store.connection.execute("DELETE FROM runs WHERE run_id = ?", [run.run_id])
    _insert(store, "runs", [run], status="running")


def finish(store: Store, run_id: str, status: Status, finished_us: int, reason: str | None) -> None:
    """Set how and when a run ended."""
    store.connection.execute(
        "UPDATE runs SET status = ?, finished_us = ?, status_reason = ? WHERE run_id = ?",
        [status, finished_us, reason, run_id],
    )


def fail_abandoned(store: Store, run_id: str) -> None:
    """Runs of other names that are still `running` lost their writer: this one has the file."""
    store.connection.execute(
        "UPDATE runs SET status = 'failed', status_reason = 'its writer ended early' "
        "WHERE status = 'running' AND run_id <> ?",
        [run_id],
    )


def add(store: Store, table: str, made: Sequence[Draw] | Sequence[Verdict]) -> None:
    """Add rows to `draws` or `verdicts`."""
    if made:
        _insert(store, table, made)


def _insert(store: Store, table: str, made: Sequence[msgspec.Struct], **more: str) -> None:
    plain = [{**_as_columns(row), **more} for row in made]
    store.insert([(table, pa.Table.from_pylist(plain, store.schemas[table]))])


def _as_columns(row: msgspec.Struct) -> dict[str, Any]:
    """The fields by name, those that hold anything (dicts) as JSON."""
    values = msgspec.structs.asdict(row)
    return {
        k: msgspec.json.encode(v).decode() if isinstance(v, dict) else v for k, v in values.items()
    }
