"""`slackwater sql` as a person and a program use it."""

import contextlib
import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import duckdb
import pytest
from handmade import request

import sql
from slackwater.cli import main
from slackwater.cli.sql_output import cell
from streams.runlog import RunLog

NAMES = [s.name for scripts in sql.listed().values() for s in scripts]


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def run(*args, cwd=None):
    """The command in this process: starting another takes longer than most queries."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(cwd or "."),
        mock.patch.object(sys, "argv", ["slackwater", "sql", *args]),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Result(ended.value.code or 0, out.getvalue(), err.getvalue())


def refused(*args, cwd=None):
    """The one line of an error, with exit code 2."""
    result = run(*args, cwd=cwd)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr


def test_a_query_gives_json_with_null_for_unknown_and_exact_integers(filled):
    text = (
        "SELECT 'a' AS t, NULL AS u, 'nan'::DOUBLE AS f, 9007199254740993 AS i, "
        "sum(9007199254740993) AS s, [1, NULL] AS l, MAP {'k': 1.5} AS m, {'x': true} AS o, "
        "us_to_ts(1500000) AS w, 1.5::DECIMAL(4, 2) AS d"
    )
    result = run(text, "--db", str(filled), "--json")
    assert json.loads(result.stdout) == [
        {
            "t": "a", "u": None, "f": None, "i": 9007199254740993, "s": 9007199254740993,
            "l": [1, None], "m": {"k": 1.5}, "o": {"x": True},
            "w": "1970-01-01T00:00:01.500000", "d": 1.5,
        }
    ]  # fmt: skip


def test_csv_has_a_header_and_leaves_unknown_empty(filled):
    result = run("SELECT 1 AS a, NULL AS b, 'x,\"y' AS c, [1] AS d", "--db", str(filled), "--csv")
    assert list(csv.reader(io.StringIO(result.stdout))) == [
        ["a", "b", "c", "d"],
        ["1", "", 'x,"y', "[1]"],
    ]


def test_a_table_shows_columns_by_the_names_that_queries_use(filled):
    result = run("merge_windows", "--db", str(filled))
    assert result.returncode == 0
    head, first, *_ = result.stdout.splitlines()
    assert head.split() == list(json.loads(run("merge_windows", "--db", str(filled),
                                               "--json").stdout)[0])  # fmt: skip
    assert "m-1" in first
    assert "800 B" in first
    assert "2023-11-14 22:13:40.000" in first


def test_a_file_is_run(filled, tmp_path):
    script = tmp_path / "mine.sql"
    script.write_text("-- mine\nSELECT count(*) AS n FROM runs;\n")
    assert json.loads(run(str(script), "--db", str(filled), "--json").stdout) == [{"n": 2}]


@pytest.mark.parametrize("name", ["slo", "slo_by_policy", "requests", "stg_bins"])
def test_analyses_views_and_tables_are_run_by_name(filled, name):
    result = run(name, "--db", str(filled), "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)


def test_names_are_listed_with_their_questions(tmp_path):
    rows = json.loads(run("--list", "--json").stdout)
    assert [row["name"] for row in rows] == NAMES
    plain = run(cwd=tmp_path).stdout.splitlines()
    for row in rows:
        assert [row["question"] in line for line in plain if line.split()[:1] == [row["name"]]] == [
            True
        ]


def test_the_list_begins_with_what_to_ask_first_and_says_what_needs_more():
    groups = {row["name"]: row["group"] for row in json.loads(run("--list", "--json").stdout)}
    assert next(iter(groups)) == "slo"
    headed = {}
    for name, group in groups.items():
        headed.setdefault(group, []).append(name)
    assert headed["was placement worth anything"] == [
        "envelope", "placement_gain", "sign_flip", "excess_violation", "switchback_intervals",
    ]  # fmt: skip
    assert headed["needs an evaluation"] == ["matched_random_envelope"]


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """Every column as `--schema` explains it, asked once: each answer takes seconds of a core."""
    asked = run("--schema", "--json", cwd=tmp_path_factory.mktemp("bare"))
    return json.loads(asked.stdout)


@pytest.mark.parametrize(
    ("name", "column", "kind", "meaning"),
    [
        ("requests", "e2e_s", "DOUBLE", "queueing included, seconds"),
        ("stg_requests", "e2e_s", "DOUBLE", "queueing included, seconds"),
        ("merge_windows", "lead_s", "DOUBLE", "from the command to the first learner's start"),
        ("late_merges", "why", "VARCHAR", "what the learners said"),
    ],
)
def test_columns_of_tables_views_and_analyses_are_explained_without_a_run_log(
    explained, name, column, kind, meaning
):
    (found,) = [row for row in explained if (row["relation"], row["column_name"]) == (name, column)]
    assert found["type"] == kind
    assert meaning in found["comment"]


def test_a_name_brings_the_columns_of_that_relation_alone(tmp_path, explained):
    rows = json.loads(run("--schema", "late_merges", "--json", cwd=tmp_path).stdout)
    assert rows == [row for row in explained if row["relation"] == "late_merges"]
    assert "what the learners said" in run("--schema", "late_merges").stdout


def test_without_a_name_every_column_is_explained(explained):
    assert {row["relation"] for row in explained} >= {*NAMES, *sql.tables()}
    assert [row for row in explained if not row["comment"] or not row["about"]] == []


def test_an_unknown_name_has_no_schema(filled):
    assert "did you mean merge_windows" in refused("--schema", "merge_window")
    said = refused("--schema", "merge_window", "--db", str(filled))
    assert f"{filled} has no table or view named 'merge_window'; did you mean merge_windows" in said


def test_the_schema_of_a_log_is_what_that_file_has(path):
    with RunLog(path) as log:
        log.commit()
    with duckdb.connect(str(path)) as opened:
        opened.execute("CREATE TABLE mine (a INTEGER); COMMENT ON COLUMN mine.a IS 'my own'")
    (mine,) = json.loads(run("--schema", "mine", "--db", str(path), "--json").stdout)
    assert (mine["kind"], mine["column_name"], mine["comment"]) == ("table", "a", "my own")
    everything = json.loads(run("--schema", "--db", str(path), "--json").stdout)
    assert {row["relation"] for row in everything} >= {"mine", "requests", "slo_by_policy"}
    of_file = json.loads(run("--schema", "requests", "--db", str(path), "--json").stdout)
    assert of_file == json.loads(run("--schema", "requests", "--json").stdout)
    analysis = json.loads(run("--schema", "slo", "--db", str(path), "--json").stdout)
    assert {row["kind"] for row in analysis} == {"analysis"}


def test_limit_bounds_the_rows_and_the_rest_is_mentioned(filled):
    result = run("requests", "--db", str(filled), "--limit", "3")
    assert len(result.stdout.splitlines()) == 4
    assert "the first 3 rows" in result.stderr
    rows = json.loads(run("requests", "--db", str(filled), "--json").stdout)
    assert len(rows) == 14


def test_the_newest_run_log_is_asked_by_default(empty_log, tmp_path):
    (tmp_path / "runs").mkdir()
    for number, name in enumerate(["a", "c", "b"]):
        path = shutil.copy(empty_log, tmp_path / "runs" / f"{name}.duckdb")
        with RunLog(path) as log:
            log.append([request(name, 1, 1, "ok")], topic="t", partition=0, offset=0)
            log.commit()
        os.utime(path, (1000 + number, 1000 + number))
    asked = run("SELECT id FROM requests", "--json", cwd=tmp_path)
    assert json.loads(asked.stdout) == [{"id": "b"}]
    assert "runs/b.duckdb" in asked.stderr


def test_it_works_while_a_run_is_writing(log, path):
    log.append([request("live", 1, 1, "ok")], topic="t", partition=0, offset=0)
    log.commit()
    for name in NAMES:
        assert run(name, "--db", str(path), "--json").returncode == 0
    result = run("slo_by_policy", "--db", str(path), "--json")
    assert [row["requests"] for row in json.loads(result.stdout)] == [1]
    assert "INSERT is refused while a run is writing" in refused(
        "INSERT INTO runs (run_id) VALUES ('x')", "--db", str(path)
    )


def test_bad_sql_ends_in_one_line_with_the_line_it_means(filled):
    said = refused("SELECT 1,\nnothing FROM runs", "--db", str(filled))
    assert 'Referenced column "nothing"' in said
    assert "LINE 2: nothing FROM runs" in said


def test_an_unknown_name_brings_close_ones(filled):
    assert "did you mean merge_windows" in refused("merge_window", "--db", str(filled))


def test_a_missing_file_is_named(tmp_path, filled):
    assert "cannot read nothing.sql" in refused("nothing.sql", "--db", str(filled))
    assert "no run log at" in refused("slo", "--db", str(tmp_path / "no.duckdb"))
    assert "no run log is in" in refused("slo", cwd=tmp_path)


def test_a_file_that_is_no_run_log_fails_in_one_line(tmp_path):
    junk = tmp_path / "junk.duckdb"
    junk.write_text("junk" * 2000)
    result = run("slo", "--db", str(junk))
    assert result.returncode == 1
    assert "not a valid DuckDB database" in result.stderr


def test_an_answer_without_rows_says_why_where_the_log_knows(path):
    RunLog(path).close()
    said = run("matched_random_envelope", "--db", str(path), "--json")
    assert (said.returncode, json.loads(said.stdout)) == (0, [])
    assert "tells of evaluations, and none is here" in said.stderr
    assert run("SELECT 1 WHERE false", "--db", str(path), "--json").stderr == ""


def test_two_forms_at_once_are_refused(filled):
    assert "give one of them" in refused("slo", "--json", "--csv", "--db", str(filled))


@pytest.mark.parametrize("live", [False, True])
def test_ctrl_c_ends_a_long_query(path, live):
    log = RunLog(path)
    if not live:
        log.close()
    slow = "SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE hash(a, b) = 7"
    with subprocess.Popen(
        [sys.executable, "-m", "slackwater", "sql", slow, "--db", str(path)],
        stderr=subprocess.PIPE,
        text=True,
    ) as asking:
        _wait_until_it_asks(asking.pid, log, live)
        asking.send_signal(signal.SIGINT)
        _, said = asking.communicate(timeout=20)
    assert asking.returncode == 130
    assert "Traceback" not in said
    if live:
        log.close()


def _wait_until_it_asks(pid, log, live):
    """Until the query runs: at the writer, or in this process with the file open in it."""
    while not (log._server._running if live else _has_open(pid, log.path)):
        time.sleep(0.02)


def _has_open(pid, path):
    return any(link.samefile(path) for link in Path(f"/proc/{pid}/fd").iterdir() if link.exists())


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("e2e_s", None, "-"),
        ("violation_rate", 0.375, "37.50 %"),
        ("share_inside", 1.0, "100.00 %"),
        ("bytes_exchanged", 1_234_567, "1.2 MB"),
        ("exchange_bytes_per_wall_s", 2.5e9, "2.5 GB/s"),
        ("bytes_per_parameter", 4.0, "4.000"),
        ("at_us", 1_700_000_000_123_456, "2023-11-14 22:13:20.123456"),
        ("complete", True, "yes"),
        ("requests", 1234567, "1,234,567"),
        ("p_value", 0.00001, "1e-05"),
        ("gain", 0.0, "0.000"),
        ("stale", ["a"], '["a"]'),
    ],
)
def test_cells_are_shown_with_their_unit(name, value, shown):
    assert cell(name, value) == shown
