"""The log of a trial: one DuckDB run log to which each run is added whole, once it has ended."""

import os
import shutil
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from sidecar.server import Server
from sidecar.trial.design import TrialDesign
from slackwater.clock import US_PER_S
from slackwater.errors import InputError, RunLogError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from calibration.paired import ServedRun

Rows = list[dict[str, Any]]

ONE = "one_run"
NOT_OF_A_RUN = ("schema_info",)
HELD = "Could not set lock"
JUDGE_PATIENCE_S = 3.0
AGAIN_S = 0.25

TRIALS = """
SELECT run_id, status, settings ->> '$.trial' AS trial FROM runs
WHERE settings ->> '$.trial' IS NOT NULL ORDER BY created_us
"""

# What was measured: every request that came due. One that found no answer violates, and so does
# one that the client never sent.
OUTCOMES = """
WITH
    trial AS (
        SELECT run_id, slo_of(settings) AS slo_s,
            coalesce((settings ->> '$.trial.client.report.ended.dropped')::BIGINT, 0) AS dropped,
            (settings ->> '$.trial.design.prompt_tokens')::BIGINT AS asked_in,
            (settings ->> '$.trial.design.output_tokens')::BIGINT AS asked_out
        FROM runs WHERE settings ->> '$.trial' IS NOT NULL
    ),
    served AS (
        SELECT run_id, count(*) AS sent, max(arrival_us) AS last_us,
            count(*) FILTER (status <> 'ok' OR e2e_s IS NULL OR e2e_s > slo_s) AS late,
            count(*) FILTER (status <> 'ok') AS unanswered,
            quantile_cont(e2e_s, 0.95) AS p95_s,
            CASE WHEN count(prompt_tokens) > 0 AND count(output_tokens) > 0 THEN
                sum(coalesce(prompt_tokens, asked_in) + coalesce(output_tokens, asked_out))::BIGINT
            END AS tokens
        FROM requests JOIN trial USING (run_id) GROUP BY run_id
    ),
    merged AS (
        SELECT run_id, count(*) FILTER (complete) AS merges,
            count(*) FILTER (NOT complete) AS failed,
            median(window_end_us - started_us) FILTER (complete) / 1e6 AS window_s,
            coalesce(list(step ORDER BY started_us) FILTER (complete), []) AS steps
        FROM stg_windows JOIN served USING (run_id)
        WHERE started_us <= last_us GROUP BY run_id
    ),
    stepped AS (
        SELECT run_id, max(step) AS last_step
        FROM learner_steps JOIN served USING (run_id) WHERE at_us <= last_us GROUP BY run_id
    )
SELECT run_id, sent + dropped AS requests, late + dropped AS violations,
    unanswered + dropped AS unanswered, p95_s, tokens, window_s, last_step,
    coalesce(merges, 0) AS merges, coalesce(failed, 0) AS failed, coalesce(steps, []) AS steps
FROM trial JOIN served USING (run_id)
LEFT JOIN merged USING (run_id)
LEFT JOIN stepped USING (run_id)
"""


SERVED = """
SELECT run_id, id, arrival_us,
    requests.status <> 'ok' OR e2e_s IS NULL OR e2e_s > slo_of(settings) AS violates
FROM requests JOIN runs USING (run_id)
WHERE settings ->> '$.trial' IS NOT NULL ORDER BY run_id, arrival_us, id
"""

# A merge whose end nobody told took as long as the design reckons with.
WINDOWS = """
SELECT run_id, started_us, coalesce(
    window_end_us,
    started_us + (1e6 * (settings ->> '$.trial.design.window_s')::DOUBLE)::BIGINT
) AS ended_us
FROM stg_windows JOIN runs USING (run_id)
WHERE settings ->> '$.trial' IS NOT NULL AND started_us IS NOT NULL ORDER BY run_id, started_us
"""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial notes of a run, in the settings of its row in `runs`.

    Attributes:
        design: of the trial.
        claim: the policy named before the first run; None where none was, and in logs of versions
            that did not keep it.
        block, place, arm: of the run in it.
        attempt: from 0; a run whose parts failed is played again.
        scheduled_steps: of a control: the merges it was told to make.
        server: which was asked; None in logs of versions that did not keep it.
        client: what the load client said at its end.
        problems: what is wrong with the run.
    """

    version: Literal[1] = 1
    design: TrialDesign
    claim: str | None = None
    block: int
    place: int
    arm: str
    attempt: int = 0
    scheduled_steps: tuple[int, ...] | None = None
    server: Server | None = None
    client: dict[str, Any] = {}
    problems: list[str] = []


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the log that is whole; see `OUTCOMES`.

    Attributes:
        run_id: its name.
        about: of it.
        requests: that came due.
        violations: of them, that took longer than the objective or found no answer.
        unanswered: of them, that found no answer.
        p95_s: of those answered; None where none was.
        tokens: in and out, by the server's count, of a request that it did not count as asked
            for; None where it counted none.
        window_s: median length of the merges.
        merges: that began before the last arrival and that every learner finished.
        failed: that began before it and that not every learner finished.
        steps: of those finished.
        last_step: that the learners had reached by then.
    """

    run_id: str
    about: About
    requests: int
    violations: int
    unanswered: int
    p95_s: float | None
    tokens: int | None
    window_s: float | None
    merges: int
    failed: int
    steps: tuple[int, ...]
    last_step: int | None

    @property
    def violations_pp(self) -> float:
        """Violations in percentage points of requests."""
        return 100 * self.violations / self.requests


class TrialLog:
    """The log at `path`; it is a run log from the first run on, and not there before.

    Attributes:
        patience_s: how long a run that is to be kept waits for somebody who has the log open.
    """

    patience_s = 60.0

    def __init__(self, path: Path) -> None:
        self.path = path

    def about(self) -> list[tuple[str, About]]:
        """Status and notes of every run, in order; [] before the first. Raises `InputError`."""
        return [(status, about) for _, status, about in self._runs()]

    def played(self) -> list[Played]:
        """The runs that are whole, in order. Raises `InputError`."""
        runs = self._runs()
        figures = {row.pop("run_id"): row for row in self._ask(OUTCOMES)} if runs else {}
        return [
            Played(run_id=run_id, about=about, **_tupled(figures[run_id]))
            for run_id, status, about in runs
            if status == "complete" and run_id in figures
        ]

    def excess(self, played: "Sequence[Played]") -> dict[str, float]:
        """By run: violations that its windows added; one of which that cannot be told is left out.

        A request that was never sent violates; one that no run of the block sent is in none.
        """
        from calibration.paired import excess_violations

        served = _grouped(self._ask(SERVED), "run_id")
        windows = _grouped(self._ask(WINDOWS), "run_id")
        blocks: dict[int, list[Played]] = {}
        for one in played:
            blocks.setdefault(one.about.block, []).append(one)
        found = {}
        for own in blocks.values():
            runs = _aligned(
                [served[one.run_id] for one in own], [windows.get(one.run_id, []) for one in own]
            )
            for one, added in zip(
                own, excess_violations(runs, own[0].about.design.slo_s), strict=True
            ):
                if added is not None:
                    found[one.run_id] = added
        return found

    def keep(
        self,
        run_log: Path,
        run_id: str,
        about: About,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Add the one run of a closed log, all of it or nothing; raises `RunLogError`.

        `say` is told in words when the log is waited for.
        """
        import duckdb

        try:
            with duckdb.connect(str(run_log)) as one:
                one.execute(
                    "UPDATE runs SET settings = json_merge_patch(settings, ?) WHERE run_id = ?",
                    [msgspec.json.encode({"trial": about}).decode(), run_id],
                )
            if not self.path.exists():
                self._begin(run_log)
                return
            with self._opened(self.patience_s, say) as log:
                log.execute(f"ATTACH {_quoted(run_log)} AS {ONE} (READ_ONLY)")
                names = log.execute(
                    "SELECT table_name FROM duckdb_tables() WHERE database_name = ?", [ONE]
                ).fetchall()
                log.execute("BEGIN")
                for (name,) in names:
                    if name not in NOT_OF_A_RUN:
                        log.execute(f'INSERT INTO "{name}" BY NAME FROM {ONE}."{name}"')
                log.execute("COMMIT")
        except (duckdb.Error, OSError) as error:
            text = str(error).strip().partition("\n")[0]
            msg = f"run {run_id} cannot be added to {self.path}: {text}"
            raise RunLogError(msg) from error

    def judge(self, rows: list[dict[str, Any]]) -> None:
        """Write rows of `verdicts` in the place of earlier ones of the same trial and policy."""
        import duckdb

        try:
            with self._opened(JUDGE_PATIENCE_S, lambda _: None) as log:
                log.execute("BEGIN")
                for row in rows:
                    log.execute(
                        "DELETE FROM verdicts WHERE run_id = ? AND policy = ?",
                        [row["run_id"], row["policy"]],
                    )
                    names = ", ".join(row)
                    marks = ", ".join("?" * len(row))
                    log.execute(
                        f"INSERT INTO verdicts ({names}) VALUES ({marks})",  # noqa: S608
                        list(row.values()),
                    )
                log.execute("COMMIT")
        except duckdb.Error as error:
            text = str(error).strip().partition("\n")[0]
            msg = f"verdicts cannot be written to {self.path}: {text}"
            raise RunLogError(msg) from error

    def _opened(self, patience_s: float, say: Callable[[str], None]) -> "DuckDBPyConnection":
        """The log, open for writing; whoever reads it is waited for. Raises `duckdb.Error`."""
        import duckdb

        until_s = time.monotonic() + patience_s
        while True:
            try:
                return duckdb.connect(str(self.path))
            except duckdb.IOException as error:
                if HELD not in str(error) or time.monotonic() > until_s:
                    raise
            say(f"{self.path} is open in another process: waiting for its end, {patience_s:g} s")
            time.sleep(AGAIN_S)

    def _runs(self) -> list[tuple[str, str, About]]:
        """Name, status and notes of every run, in order."""
        if not self.path.exists():
            return []
        try:
            runs = [
                (row["run_id"], row["status"], msgspec.json.decode(row["trial"], type=About))
                for row in self._ask(TRIALS)
            ]
        except (msgspec.MsgspecError, TypeError) as error:
            msg = f"{self.path}: its runs are not those of a trial that this version made: {error}"
            raise InputError(msg) from None
        whole = Counter((a.block, a.arm) for _, status, a in runs if status == "complete")
        if twice := [one for one, times in whole.items() if times > 1]:
            block, arm = min(twice)
            msg = (
                f"{self.path}: {arm} in block {block} is there whole twice: two processes wrote "
                "this log side by side, and it is no evidence; begin another"
            )
            raise InputError(msg)
        return runs

    def _begin(self, run_log: Path) -> None:
        # Under its name only once it is whole.
        beside = self.path.with_name(f"{self.path.name}.new")
        shutil.copyfile(run_log, beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.rename(self.path)

    def _ask(self, sql: str) -> list[dict[str, Any]]:
        from slackwater.livequery import query

        rows: list[dict[str, Any]] = query(self.path, sql).to_pylist()
        return rows


def _aligned(served: list[Rows], windows: list[Rows]) -> "list[ServedRun]":
    """The runs of a block, whose requests come at the same times after their begin."""
    import numpy as np

    from calibration.paired import ServedRun

    after_us: dict[str, int] = {}
    begun_us = []
    for requests in served:
        # The first one may never have been sent: any that is known tells when the run began.
        known = next((row for row in requests if row["id"] in after_us), requests[0])
        begun_us.append(known["arrival_us"] - after_us.get(known["id"], 0))
        for row in requests:
            after_us.setdefault(row["id"], row["arrival_us"] - begun_us[-1])
    names = sorted(after_us, key=lambda name: (after_us[name], name))
    arrival_s = np.array([after_us[name] for name in names]) / US_PER_S
    runs = []
    for requests, merges, begun in zip(served, windows, begun_us, strict=True):
        violates = {row["id"]: bool(row["violates"]) for row in requests}
        spans_us = [(row["started_us"], row["ended_us"]) for row in merges]
        windows_s = (np.array(spans_us, np.float64).reshape(-1, 2) - begun) / US_PER_S
        late = np.array([violates.get(name, True) for name in names])
        runs.append(ServedRun(arrival_s, late, windows_s))
    return runs


def _grouped(rows: Rows, name: str) -> dict[Any, Rows]:
    found: dict[Any, Rows] = {}
    for row in rows:
        found.setdefault(row[name], []).append(row)
    return found


def _tupled(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"steps": tuple(row["steps"])}


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
