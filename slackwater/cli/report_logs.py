"""Live runs read from their logs, also while these are being written."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slackwater.clock import US_PER_S
from slackwater.errors import InputError

if TYPE_CHECKING:
    from calibration.live import LiveRun

RUN_LOGS = Path("runs")

ABOUT = """
SELECT run_id, policy, status, created_us, finished_us, seed, trace, trace_sha256,
       settings::VARCHAR AS settings, versions::VARCHAR AS versions, slo_of(settings) AS slo_s
FROM runs ORDER BY created_us
"""
REQUESTS = """
SELECT arrival_us, ended_us, status, e2e_s, prompt_tokens + output_tokens AS tokens, sidecar, tenant
FROM stg_requests WHERE run_id = {run} ORDER BY arrival_us, request_id
"""
WINDOWS = """
SELECT merge_group, started_us, window_end_us, coalesce(reason, 'unknown') AS reason
FROM stg_windows WHERE run_id = {run} AND started_us IS NOT NULL ORDER BY started_us
"""
# A run begins with the last of the learners that made its first merge, as in stg_live_runs.
STEPS = """
SELECT coalesce(max(first_us) FILTER (first_us <= coalesce(merge_us, first_us)), min(first_us))
        AS first_us,
    max(last_us) AS last_us, avg(step_s) AS step_s
FROM (
    SELECT min(at_us - coalesce((step_time_s * 1e6)::BIGINT, 0)) AS first_us, max(at_us) AS last_us,
           avg(step_time_s) AS step_s
    FROM learner_steps WHERE run_id = {run} GROUP BY learner
), (SELECT min(started_us) AS merge_us FROM stg_windows WHERE run_id = {run})
"""
PAUSED = """
SELECT max(at_us) FILTER ("type" = 'pause') AS paused_us,
       max(at_us) FILTER ("type" = 'resume') AS resumed_us
FROM commands WHERE run_id = {run}
"""
SLO = """
SELECT place, requests, violations, violation_rate, p50_s, p95_s
FROM slo_by_overlap WHERE run_id = {run} ORDER BY place
"""


@dataclass(frozen=True, slots=True, eq=False)
class Logged:
    """One run, what its log says about it, and its measured latency inside and outside windows."""

    run: "LiveRun"
    about: dict[str, Any]
    slo: list[dict[str, Any]]


def logs_of(named: Sequence[str]) -> list[Path]:
    """The files that are meant; the newest log where none is named. Raises `InputError`."""
    from slackwater.cli.sql import newest_log

    if not named:
        return [newest_log("name a RUN for another")]
    paths = [_log_of(name) for name in named]
    repeated = [path for path in paths if paths.count(path) > 1]
    if repeated:
        msg = f"{repeated[0]} is given twice; a run that repeats is no evidence"
        raise InputError(msg)
    return paths


def _log_of(name: str) -> Path:
    file, by_id = Path(name), RUN_LOGS / f"{name}.duckdb"
    for path in (file, by_id):
        if path.is_file():
            return path
    msg = f"no run log {name}: neither the file {file} nor {by_id} is there"
    raise InputError(msg)


def read_log(path: Path) -> list[Logged]:
    """Every run of a log. Raises `InputError` when there is none or one cannot be judged."""
    from slackwater.livequery import query

    about = query(path, ABOUT).to_pylist()
    if not about:
        msg = f"{path}: no run is in this log"
        raise InputError(msg)
    return [read_run(path, fields) for fields in about]


def read_run(path: Path, about: dict[str, Any]) -> Logged:
    """The run that a row of `ABOUT` tells of. Raises `InputError` when it cannot be judged."""
    from slackwater.livequery import query

    name = about["run_id"]

    def ask(sql: str) -> Any:
        return query(path, sql.format(run="'" + name.replace("'", "''") + "'"))

    requests, windows = ask(REQUESTS), ask(WINDOWS).to_pylist()
    if not requests.num_rows:
        msg = f"{path}: no request of run {name} is logged"
        raise InputError(msg)
    if len({window["merge_group"] for window in windows}) > 1:
        msg = f"{path}: run {name} has several merge groups; the report is on runs of one"
        raise InputError(msg)
    steps, paused = ask(STEPS).to_pylist()[0], ask(PAUSED).to_pylist()[0]
    run = _live_run(about, requests, windows, steps, _end_us(requests, steps, paused))
    return Logged(run, about, ask(SLO).to_pylist())


def _end_us(requests: Any, steps: dict[str, Any], paused: dict[str, Any]) -> int:
    """Up to when merges were allowed: the last step or request, or a pause that was not undone."""
    ends = [max(requests.column("ended_us").to_pylist())]
    if steps["last_us"] is not None:
        ends.append(steps["last_us"])
    if paused["paused_us"] is not None and (paused["resumed_us"] or 0) < paused["paused_us"]:
        ends.append(paused["paused_us"])
    return int(min(ends))


def _live_run(
    about: dict[str, Any],
    requests: Any,
    windows: list[dict[str, Any]],
    steps: dict[str, Any],
    end_us: int,
) -> "LiveRun":
    import numpy as np

    from calibration.live import LiveRun

    columns = {name: np.array(requests.column(name).to_pylist()) for name in requests.column_names}
    first_us = steps["first_us"]
    zero_us = int(columns["arrival_us"][0] if first_us is None else first_us)
    corridor = _corridor(about)
    made = [window for window in windows if window["started_us"] < end_us]
    return LiveRun(
        name=about["run_id"],
        policy=about["policy"] or "none",
        trace=about["trace"] or about["run_id"],
        load=_load(about),
        arrival_s=(columns["arrival_us"] - zero_us) / US_PER_S,
        length_s=np.maximum(columns["ended_us"] - columns["arrival_us"], 0) / US_PER_S,
        latency_s=_latency_s(columns["status"], columns["e2e_s"]),
        tokens=_known(columns["tokens"], np.int64),
        sidecar=columns["sidecar"].astype(str),
        tenant=_known(columns["tenant"], str),
        end_s=(end_us - zero_us) / US_PER_S,
        starts_s=np.array([(w["started_us"] - zero_us) / US_PER_S for w in made]),
        lengths_s=np.array([_length_s(window) for window in made]),
        reasons=tuple(window["reason"] for window in made),
        late_merges=len(windows) - len(made),
        min_gap_steps=corridor["min_gap_steps"],
        max_gap_steps=corridor["max_gap_steps"],
        step_s=steps["step_s"],
        slo_s=about["slo_s"],
    )


def _latency_s(status: Any, e2e_s: Any) -> Any:
    """What a violation is judged by: a timeout took too long, other failures say nothing."""
    import numpy as np

    known = np.array(e2e_s, dtype=np.float64)
    return np.where(status == "timeout", np.inf, np.where(status == "ok", known, np.nan))


def _known(values: Any, kind: type) -> Any:
    return None if any(value is None for value in values.tolist()) else values.astype(kind)


def _length_s(window: dict[str, Any]) -> float:
    end_us = window["window_end_us"]
    return float("nan") if end_us is None else (end_us - window["started_us"]) / US_PER_S


def settings_of(about: dict[str, Any], *names: str) -> dict[str, Any]:
    """A run's settings, or what they hold under a name in a name; {} where that is no object."""
    import msgspec

    found = msgspec.json.decode(about["settings"] or "{}")
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _corridor(about: dict[str, Any]) -> dict[str, int]:
    """The controller's settings, as the stream job wrote them down."""
    if "evaluation" in settings_of(about):
        msg = (
            f"{about['run_id']} is a run of an evaluation, not a live one; "
            "slackwater evaluate --report writes its page"
        )
        raise InputError(msg)
    controller = settings_of(about, "stream", "controller")
    if not {"min_gap_steps", "max_gap_steps"} <= controller.keys():
        msg = f"run {about['run_id']}: its settings name no corridor (stream.controller)"
        raise InputError(msg)
    return controller


def _load(about: dict[str, Any]) -> str:
    """What runs of one load have in common; traffic without a trace is its run's own."""
    if about["trace"] is None:
        return str(about["run_id"])
    return f"{about['trace']}, {about['trace_sha256'] or 'seed ' + str(about['seed'])}"
