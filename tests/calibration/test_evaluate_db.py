"""`slackwater evaluate --db`: what it says can be counted again from the run log alone."""

import json
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sql
from slackwater.cli import main
from slackwater.cli.evaluate_db import recording
from slackwater.cli.sql_reason import LIVE, why_no_rows

pytestmark = pytest.mark.slow

ASKED = ("--regime", "bursty", "--runs", 2, "--segment", 120, "--draws", 2000)
POLICIES = ("--policies", "fixed_h,slack,wa_forecast")


def evaluate(*arguments: object) -> int:
    """Run the command in this process; its exit code."""
    before, sys.argv = sys.argv, ["slackwater", "evaluate", *map(str, arguments)]
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = before
    return ended.value.code if isinstance(ended.value.code, int) else 0


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run log with two evaluations of one seed, and the JSON of the second."""
    folder = tmp_path_factory.mktemp("evaluated")
    path, out = folder / "run.duckdb", folder / "out.json"
    assert evaluate(*ASKED, *POLICIES, "--db", path, "--serving", "arrivals") == 0
    assert evaluate(*ASKED, *POLICIES, "--db", path, "--json", out) == 0
    return path, json.loads(out.read_text())


@pytest.fixture(scope="module")
def reader(evaluated: tuple[Path, dict[str, Any]]) -> Any:
    with duckdb.connect(str(evaluated[0]), read_only=True) as connection:
        yield connection


ANALYSES = {script.name for script in sql.scripts("analyses")}


def analysis(name: str) -> str:
    (script,) = [s for s in sql.scripts("analyses") if s.name == name]
    return script.text.rstrip().removesuffix(";")


def test_costs_and_exact_means_are_the_evaluations_own(reader: Any) -> None:
    found = reader.execute(
        "SELECT g.cost, p.cost, g.random_mean, p.random_mean, g.gain, p.gain, g.gain_pp, p.gain_pp,"
        " g.requests, p.requests FROM placement_gain AS g JOIN placements AS p"
        " USING (run_id, policy)"
    ).fetchall()
    assert len(found) == 12
    for row in found:
        assert row[::2] == pytest.approx(row[1::2], rel=1e-11)
    assert len({row[0] for row in found}) > 2


def test_envelope_drawn_in_sql_agrees_within_sampling_error(reader: Any) -> None:
    found = reader.execute(
        "SELECT e.random_sd, p.random_sd, e.random_p05, p.random_p05, e.percentile, p.percentile,"  # noqa: S608
        f" e.least_cost, p.oracle_exact FROM ({analysis('envelope')}) AS e"
        " JOIN placements AS p USING (run_id, policy)"
    ).fetchall()
    assert len(found) == 12
    for sd, exact_sd, p05, other_p05, percentile, other, least, optimum in found:
        # 4 standard errors: of an sd from 10,000 draws; of two 5th percentiles and ranks, the
        # other from 2,000. A 5th percentile of n draws errs by 2.1 sd / sqrt(n), and by 1 for ties.
        assert sd == pytest.approx(exact_sd, rel=4 / (2 * 10_000) ** 0.5)
        assert abs(p05 - other_p05) <= 4 * 2.1 * exact_sd * (1 / 2000 + 1 / 10_000) ** 0.5 + 1
        assert abs(percentile - other) <= 4 * 50 * (1 / 2000 + 1 / 10_000) ** 0.5
        assert least >= optimum


def test_excess_violation_is_that_of_the_serving_model(reader: Any) -> None:
    found = reader.execute(
        "SELECT 100 * excess_violation_rate, excess_pp FROM excess_violation"
        " JOIN placements USING (run_id, policy)"
    ).fetchall()
    assert len(found) == 12
    for counted, said in found:
        assert counted == pytest.approx(said, rel=1e-9)
    assert any(said > 0 for _, said in found)


def test_harm_is_what_each_policys_windows_did_to_each_sidecar(
    evaluated: tuple[Path, dict[str, Any]], reader: Any
) -> None:
    found = reader.execute(
        "SELECT h.* EXCLUDE (run_id, share_inside), split_part(h.run_id, '/', 3)"  # noqa: S608
        f" FROM ({analysis('harm')}) AS h JOIN runs USING (run_id)"
        " WHERE settings ->> '$.evaluation.counting' = 'in_service'"
    ).fetchall()
    said = {
        (run["policy"], bearer["name"], run["run"].split("/")[1]): (
            bearer["requests"],
            bearer["harmed"],
        )
        for run in evaluated[1]["runs"]
        for bearer in run["sidecars"]
    }
    assert {(row[0], row[1], row[7]): row[3:5] for row in found} == said
    assert all(row[2] is None and row[5:7] == (None, None) for row in found)
    assert len({harmed for _, harmed in said.values()}) > 2


def test_live_questions_leave_evaluated_runs_out_and_say_so(
    evaluated: tuple[Path, dict[str, Any]], reader: Any
) -> None:
    for name in LIVE:
        asked = analysis(name) if name in ANALYSES else f"FROM {name}"
        assert reader.execute(asked).fetchall() == [], name
        assert f"{name} tells of live merges" in (why_no_rows(name, evaluated[0]) or ""), name
    assert why_no_rows("excess_violation", evaluated[0]) is None
    starts = reader.execute(f"SELECT DISTINCT merges_started FROM ({analysis('traffic')})")  # noqa: S608
    assert starts.fetchall() == [(None,)]


def test_draws_are_those_of_the_verdicts_and_cost_what_sql_says(reader: Any) -> None:
    off = reader.execute(
        "SELECT max(abs(m.p05_cost - p.random_p05)), min(m.draws), max(m.draws)"
        " FROM matched_random_envelope AS m JOIN placements AS p USING (run_id, budget)"
    ).fetchall()
    assert off == [(0.0, 2000, 2000)]
    wrong = reader.execute(
        "WITH windows AS (SELECT run_id, budget, draw, cost AS said,"
        "  unnest(list_transform(starts_s, lambda s: (2 * s)::BIGINT)) AS cell"
        "  FROM draws WHERE draw < 100),"
        " recounted AS (SELECT any_value(said) AS said, sum(c.cost) AS counted FROM windows"
        "  JOIN stg_start_costs AS c USING (run_id, cell) GROUP BY run_id, budget, draw)"
        "SELECT count(*), count(*) FILTER (WHERE said <> counted) FROM recounted"
    ).fetchall()
    assert wrong[0][0] >= 400
    assert wrong[0][1] == 0


def test_placements_and_verdicts_hold_the_figures_of_the_json(
    evaluated: tuple[Path, dict[str, Any]], reader: Any
) -> None:
    said = {(run["run"], run["policy"]): run for run in evaluated[1]["runs"]}
    rows = reader.sql(
        "SELECT * FROM placements WHERE run_id IN (SELECT run_id FROM runs"
        " WHERE settings ->> '$.evaluation.counting' = 'in_service')"
    ).to_arrow_table()
    found = rows.to_pylist()
    assert len(found) == len(said)
    for row in found:
        run = said[row["run_id"].split("/", 1)[1], row["policy"]]
        figures = row | json.loads(row["detail"])
        for key, value in run.items():
            if key not in {"load", "run", "trace", "segment"}:
                assert figures[key] == value, key
    for verdict in evaluated[1]["verdicts"]:
        kept = reader.execute(
            "SELECT runs, gain_pp, p_value, capture, detail FROM verdicts WHERE policy = ?"
            " ORDER BY at_us DESC LIMIT 1",
            [verdict["policy"]],
        ).fetchall()
        assert kept[0][:4] == tuple(verdict[k] for k in ("n", "gain_pp", "p_value", "capture"))
        assert json.loads(kept[0][4])["steps"] == verdict["steps"]


def test_runs_are_complete_and_say_how_they_were_scored(reader: Any) -> None:
    rows = reader.execute(
        "SELECT run_id, status, settings, seed, trace FROM runs ORDER BY run_id"
    ).fetchall()
    assert len(rows) == 4
    assert len({row[0].split("/")[0] for row in rows}) == 2
    for run_id, status, settings, seed, trace in rows:
        scored = json.loads(settings)["evaluation"]
        assert (status, trace, scored["load"]) == ("complete", "bursty", "bursty")
        assert run_id == f"{scored['name']}/bursty/{seed}#0"
        assert (scored["cells"], scored["cell_us"], scored["window_cells"]) == (240, 500_000, 16)
        assert scored["configuration"]["draws"] == 2000


def test_other_serving_models_are_kept_but_not_recounted(tmp_path: Path) -> None:
    path = tmp_path / "queue.duckdb"
    asked = ("--regime", "bursty", "--runs", 1, "--segment", 120, "--draws", 100)
    assert evaluate(*asked, "--policies", "fixed_h", "--serving", "queue", "--db", path) == 0
    with duckdb.connect(str(path), read_only=True) as log:
        assert log.execute("SELECT serving_model FROM placements").fetchall() == [("queue",)]
        assert log.execute("SELECT count(*) FROM draws").fetchall() == [(100,)]
        assert log.execute("SELECT count(*) FROM placement_gain").fetchall() == [(0,)]
        assert log.execute("SELECT count(*) FROM excess_violation").fetchall() == [(0,)]
    assert "ask the table placements" in (why_no_rows("envelope", path) or "")


def test_what_cannot_hold_a_run_log_is_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.duckdb"
    with duckdb.connect(str(other)) as log:
        log.execute("CREATE TABLE mine (a INT)")
    missing = tmp_path / "no.csv"
    assert evaluate(missing, "--db", other) == 1
    assert "something else" in capsys.readouterr().err
    assert evaluate(missing, "--db", tmp_path / "nowhere" / "run.duckdb") == 2
    assert "nowhere does not exist" in capsys.readouterr().err


def test_a_log_that_another_process_holds_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streams.runlog.database.LOCK_WAIT_S", 0.0)
    path, context = tmp_path / "held.duckdb", multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(str(path), ready, done))
    holder.start()
    try:
        assert ready.wait(60)
        assert evaluate("--regime", "constant", "--db", path) == 1
        assert f"open in another process (pid {holder.pid})" in capsys.readouterr().err
    finally:
        done.set()
        holder.join()


def _hold(path: str, ready: Any, done: Any) -> None:
    with duckdb.connect(path):
        ready.set()
        done.wait()


def test_an_evaluation_that_fails_leaves_no_new_file_and_no_half(tmp_path: Path) -> None:
    path = tmp_path / "run.duckdb"
    with pytest.raises(RuntimeError, match="in the middle"), recording(path):
        raise RuntimeError("in the middle")
    assert not path.exists()


def test_a_killed_evaluation_leaves_no_half(tmp_path: Path) -> None:
    path = tmp_path / "run.duckdb"
    context = multiprocessing.get_context("spawn")
    killed = context.Process(target=_die_while_writing, args=(str(path),))
    killed.start()
    killed.join()
    assert killed.exitcode == 9
    with duckdb.connect(str(path), read_only=True) as log:
        for table in ("runs", "requests", "placements", "draws", "verdicts"):
            assert log.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]  # noqa: S608


def _die_while_writing(path: str) -> None:
    import slackwater.cli.evaluate_db as written

    def die(*_: object) -> None:
        os._exit(9)

    # The verdicts come last: all other rows of the evaluation are in the transaction by then.
    written._verdict = die  # type: ignore[assignment]
    evaluate(*ASKED, "--policies", "fixed_h", "--db", path)
