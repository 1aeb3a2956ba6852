"""An evaluation written into a run log, so that a person with that file alone can check it."""

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.clock import US_PER_S

if TYPE_CHECKING:
    import pyarrow as pa

    from calibration.experiment import Scored
    from calibration.results import Run
    from calibration.verdict import Verdict
    from slackwater.cli.evaluate_job import Evaluation, Group
    from slackwater.cli.evaluate_sources import Traffic
    from streams.runlog import RunLog

Record = Callable[["Evaluation", "Sequence[Group]"], None]
Rows = tuple[str, "pa.Table"]


@contextlib.contextmanager
def recording(path: Path | None) -> Iterator[Record]:
    """Hold the run log open from before the work until it is written; None writes nothing.

    A file that this made is removed again when nothing came of the evaluation.

    Raises:
        InputError: the path cannot hold a run log.
        RunLogError: another process has it, or it is no run log of this version.
    """
    if path is None:
        yield lambda *_: None
        return
    from streams.runlog import RunLog

    new, written = not path.exists(), False

    def record(evaluation: "Evaluation", groups: "Sequence[Group]") -> None:
        nonlocal written
        _record(log, evaluation, groups)
        written = True

    try:
        with RunLog(path, run_id="evaluate") as log:
            yield record
    finally:
        if new and not written:
            path.unlink(missing_ok=True)


def check_recordable(path: Path | None) -> None:
    """Raise before any work when `recording` could not write there."""
    with recording(path):
        pass


def _record(log: "RunLog", evaluation: "Evaluation", groups: "Sequence[Group]") -> None:
    name = f"evaluate-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(2)}"
    log.add_rows(_rows(name, evaluation, groups))


def _rows(name: str, evaluation: "Evaluation", groups: "Sequence[Group]") -> Iterator[Rows]:
    """Every table's rows, one run at a time."""
    at_us = time.time_ns() // 1000
    for group in groups:
        by_name = {traffic.source.name: traffic for traffic in group.traffic}
        for one in group.scored:
            yield from _run_rows(name, group, one, by_name[one.runs[0].trace], evaluation)
        model = evaluation.protocol.model.name
        verdicts = [_verdict(name, group, v, model, at_us) for v in group.verdicts]
        yield "verdicts", _table(verdicts)


def _run_rows(
    name: str, group: "Group", one: "Scored", traffic: "Traffic", evaluation: "Evaluation"
) -> Iterator[Rows]:
    from slackwater.cli.evaluate_traffic import request_columns, stretch_of

    run, protocol = one.runs[0], evaluation.protocol
    run_id = f"{name}/{run.run}"
    first_cell = traffic.source.first_cells[run.segment]
    stretch = stretch_of(first_cell, protocol)
    scored = _scored_as(name, group, run, evaluation)
    yield "runs", _table([_run(run_id, traffic, stretch.begin_us, stretch.end_us, scored)])
    yield "requests", request_columns(run_id, traffic, stretch)
    model = protocol.model.name
    yield "placements", _table([_placement(run_id, model, policy) for policy in one.runs])
    for budget in sorted({policy.budget for policy in one.runs}):
        yield "draws", _draws(run_id, one, budget, evaluation)


def _scored_as(name: str, group: "Group", run: "Run", evaluation: "Evaluation") -> dict[str, Any]:
    """What SQL needs to count a run's costs again, and all that was asked for."""
    from slackwater.cli.evaluate_document import configuration

    protocol = evaluation.protocol
    model = protocol.model
    return {
        "name": name,
        "load": group.name,
        "segment": run.segment,
        **asdict(protocol.corridor),
        "cell_us": round(protocol.cell_s * US_PER_S),
        "serving_model": model.name,
        "counting": getattr(model, "counting", None),
        "slowdown": getattr(model, "slowdown", None),
        "slo_s": protocol.slo_s,
        "configuration": configuration(evaluation),
    }


def _run(
    run_id: str, traffic: "Traffic", begin_us: int, end_us: int, scored: dict[str, Any]
) -> dict[str, Any]:
    from slackwater.cli.evaluate_document import versions

    return {
        "run_id": run_id,
        "created_us": begin_us,
        "finished_us": end_us,
        "settings": _json({"slo_s": scored.pop("slo_s"), "evaluation": scored}),
        "versions": _json(versions()),
        "seed": traffic.source.seed,
        "status": "complete",
        "trace": traffic.trace.name,
        "trace_sha256": traffic.sha256,
    }


def _placement(run_id: str, model: str, run: "Run") -> dict[str, Any]:
    """One policy's row; figures that have no column of their own go into `detail`."""
    fields = asdict(run)
    for known in ("run", "trace", "segment"):
        del fields[known]
    fields |= {"starts_s": list(run.starts_s), "reasons": list(run.reasons)}
    columns = {key: fields.pop(key) for key in PLACEMENT if key in fields}
    return {"run_id": run_id, "serving_model": model, **columns, "detail": _json(fields)}


PLACEMENT = (
    *("policy", "budget", "starts_s", "reasons", "requests", "cost", "random_mean", "random_sd"),
    *("random_p05", "percentile", "oracle_exact", "oracle_greedy", "gain", "gain_pp", "capture"),
    *("excess_pp", "jain_sidecars", "jain_tenants"),
)
"""The figures of a run that `placements` has columns for."""


def _draws(run_id: str, one: "Scored", budget: int, evaluation: "Evaluation") -> "pa.Table":
    import numpy as np
    import pyarrow as pa

    protocol = evaluation.protocol
    envelope = one.envelopes[budget]
    cells = envelope.starts
    ends = np.arange(len(cells) + 1, dtype=np.int32) * budget
    starts_s = pa.ListArray.from_arrays(ends, protocol.cell_s * cells.ravel())
    same: dict[str, str | int] = {"run_id": run_id, "serving_model": protocol.model.name}
    same |= {"seed": protocol.seed, "budget": budget}
    columns = {key: pa.repeat(value, len(cells)) for key, value in same.items()}
    columns |= {"draw": np.arange(len(cells)), "starts_s": starts_s, "cost": envelope.costs}
    return pa.table(columns)


def _verdict(
    name: str, group: "Group", verdict: "Verdict", model: str, at_us: int
) -> dict[str, Any]:
    low, high = verdict.interval_pp or (None, None)
    return {
        "run_id": f"{name}/{group.name}",
        "at_us": at_us,
        "policy": verdict.policy,
        "serving_model": model,
        "verdict": verdict.verdict,
        "runs": verdict.n,
        "gain": verdict.gain,
        "gain_pp": verdict.gain_pp,
        "gain_pp_low": low,
        "gain_pp_high": high,
        "p_value": verdict.p_value,
        "capture": verdict.capture,
        "detail": _json({**asdict(verdict), "notes": group.notes}),
    }


def _table(rows: list[dict[str, Any]]) -> "pa.Table":
    import pyarrow as pa

    return pa.Table.from_pylist(rows)


def _json(value: object) -> str:
    import msgspec

    from slackwater.cli.evaluate_document import plain

    return msgspec.json.encode(value, enc_hook=plain).decode()
