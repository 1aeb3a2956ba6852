"""Questions from other processes while the writer holds the file."""

import shutil
import socket
import stat
import subprocess
import sys
import threading

import duckdb
import pytest
from handmade import request

from slackwater import livequery
from slackwater.errors import InputError, RunLogError
from slackwater.livequery import Question, ask, query, socket_paths
from streams.runlog import RunLog

ASK = "import sys; from slackwater.livequery import query; print(query(*sys.argv[1:]).to_pylist())"


def put(log, *offsets):
    for offset in offsets:
        log.append([request(f"o{offset}", 1, 1, "ok")], topic="t", partition=0, offset=offset)
    log.commit()


def count(path):
    return query(path, "SELECT count(*) AS n FROM requests").to_pylist()[0]["n"]


def test_another_process_reads_what_is_committed_while_the_writer_goes_on(log, path):
    for offset in range(3):
        put(log, offset)
        seen = subprocess.run(
            [sys.executable, "-c", ASK, str(path), "SELECT count(*) AS n FROM requests"],
            capture_output=True,
            check=True,
            text=True,
        )
        assert seen.stdout.strip() == f"[{{'n': {offset + 1}}}]"


def test_readers_see_whole_commits_while_the_writer_commits(log, path):
    put(log, 0)
    stop, seen, wrong = threading.Event(), [], []

    def read():
        while not stop.is_set():
            ((rows, stored),) = [
                tuple(row.values())
                for row in query(
                    path,
                    "SELECT (SELECT count(*) FROM requests) AS n, "
                    "(SELECT max(next_offset) FROM offsets) AS o",
                ).to_pylist()
            ]
            (seen if rows == stored else wrong).append(rows)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    offset = 1
    while len(set(seen)) < 5 and not wrong and offset < 5000:
        put(log, offset, offset + 1)
        offset += 2
    stop.set()
    for reader in readers:
        reader.join()
    assert wrong == []
    assert len(set(seen)) >= 5


WRITES = [
    "INSERT INTO requests (v) VALUES (1)",
    "DELETE FROM requests",
    "UPDATE requests SET v = 2",
    "DROP TABLE requests",
    "CREATE TABLE mine (a INT)",
    "CREATE TEMP TABLE mine (a INT)",
    "ALTER TABLE requests RENAME TO gone",
    "EXPLAIN ANALYZE DELETE FROM requests",
    "WITH gone AS (DELETE FROM requests RETURNING v) SELECT * FROM gone",
    "COPY requests TO 'stolen.csv'",
    "EXPORT DATABASE 'stolen'",
    "ATTACH 'other.duckdb'",
    "SET threads = 1",
    "PRAGMA force_checkpoint",
    "CALL force_checkpoint()",
    "FROM force_checkpoint()",
    "BEGIN TRANSACTION",
    "CHECKPOINT",
    "INSTALL httpfs",
    "LOAD httpfs",
    "VACUUM",
    "SELECT 1; DELETE FROM requests",
    "FROM read_csv('/etc/passwd')",
    "FROM read_text('/etc/passwd')",
    "FROM '/etc/passwd'",
    "",
]


@pytest.mark.parametrize("text", WRITES)
def test_what_is_not_reading_the_tables_is_refused_and_changes_nothing(log, path, text):
    put(log, 0)
    with pytest.raises((InputError, RunLogError)):
        query(path, text)
    put(log, 1)
    assert log.rows("SELECT count(*), max(v) FROM requests") == [(2, 1)]


READS = [
    "SELECT 1",
    "WITH a AS (SELECT 1) FROM a",
    "VALUES (1)",
    "FROM requests",
    "EXPLAIN SELECT * FROM requests",
    "DESCRIBE requests",
    "SHOW TABLES",
    "SUMMARIZE requests",
    "SELECT 1;",
    "-- why\nSELECT ';'",
]


@pytest.mark.parametrize("text", READS)
def test_every_form_of_reading_is_answered(log, path, text):
    put(log, 0)
    assert query(path, text).num_rows > 0


def test_bad_sql_is_answered_with_duckdb_s_words_and_the_line(log, path):
    with pytest.raises(InputError, match=r'Referenced column "nothing".*LINE 2: *nothing'):
        query(path, "SELECT v,\nnothing FROM requests")


def test_a_query_that_takes_too_long_is_stopped_and_the_writer_goes_on(log, path):
    put(log, 0)
    slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a, b) = 7"
    with pytest.raises(RunLogError, match=r"longer than 0\.2 s"):
        ask(path, Question(sql=slow, timeout_s=0.2))
    put(log, 1)
    assert count(path) == 2


def test_a_result_that_is_too_large_is_refused(log, path, monkeypatch):
    monkeypatch.setattr("streams.runlog.server.MAX_BYTES", 100_000)
    with pytest.raises(InputError, match="larger than"):
        query(path, "FROM range(1000000)")


def test_more_says_that_rows_were_left_out(log, path):
    put(log, 0, 1, 2)
    for most, more in [(2, True), (3, False), (4, False)]:
        result = ask(path, Question(sql="FROM requests", max_rows=most))
        assert (result.table.num_rows, result.more) == (min(most, 3), more)


def test_an_empty_result_has_its_columns(log, path):
    table = query(path, "SELECT id, v FROM requests WHERE false")
    assert (table.num_rows, table.column_names) == (0, ["id", "v"])


def test_the_socket_is_its_owner_s_alone_and_goes_with_the_writer(path):
    with RunLog(path):
        beside, _ = socket_paths(path)
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    assert not beside.exists()


def test_a_dead_writer_s_socket_is_replaced(path):
    beside, _ = socket_paths(path)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(beside))
    with RunLog(path) as log:
        put(log, 0)
        assert count(path) == 1


def test_a_file_in_the_socket_s_place_is_left_alone(path):
    beside, elsewhere = socket_paths(path)
    beside.write_text("mine")
    with RunLog(path) as log:
        put(log, 0)
        assert elsewhere.exists()
        assert count(path) == 1
    assert beside.read_text() == "mine"
    assert not elsewhere.exists()


def test_a_path_too_long_for_a_socket_is_answered_all_the_same(empty_log, tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    path = shutil.copy(empty_log, deep / "run.duckdb")
    with RunLog(path) as log:
        put(log, 0)
        monkeypatch.chdir(deep)
        assert count("run.duckdb") == 1


def test_a_client_that_talks_nonsense_harms_nobody(log, path):
    put(log, 0)
    beside, _ = socket_paths(path)
    for nonsense in (
        b"",
        b"\x00",
        b"\x00\x00\x00\x02{}",
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n",
    ):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(beside))
            client.sendall(nonsense)
    assert count(path) == 1


def ask_in_vain(path):
    with pytest.raises(RunLogError, match="done"):
        count(path)


def test_too_many_queries_at_once_are_told_to_wait(log, path, monkeypatch):
    answered = threading.Event()
    running = threading.Semaphore(0)

    def wait(*_args):
        running.release()
        answered.wait(20)
        return livequery.Answer(error="done"), b""

    monkeypatch.setattr(log._server, "_answer", wait)
    clients = [threading.Thread(target=ask_in_vain, args=(path,)) for _ in range(4)]
    for client in clients:
        client.start()
        assert running.acquire(timeout=20)
    with pytest.raises(RunLogError, match="4 queries are running"):
        count(path)
    answered.set()
    for client in clients:
        client.join()


def test_closing_stops_a_query_that_runs(path):
    log = RunLog(path)
    said = []
    slow = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE hash(a, b) = 7"

    def reader():
        try:
            query(path, slow)
        except RunLogError as error:
            said.append(str(error))

    thread = threading.Thread(target=reader)
    thread.start()
    while not log._server._running:
        pass
    log.close()
    thread.join(20)
    assert not thread.is_alive()
    assert said == ["the run has just ended; ask again"]


def test_without_a_writer_the_file_itself_is_read_and_not_changed(filled):
    before = filled.read_bytes()
    assert query(filled, "SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 2}]
    with pytest.raises(InputError, match="read-only"):
        query(filled, "DELETE FROM runs")
    assert filled.read_bytes() == before


def test_a_file_without_a_writer_can_be_asked_several_statements(filled):
    assert query(filled, "SET threads = 1; SELECT 2 AS n").to_pylist() == [{"n": 2}]


def test_a_dead_writer_s_log_is_read_with_its_write_ahead_log(path):
    script = (
        "import os, sys; from streams.runlog import RunLog, Run; log = RunLog(sys.argv[1]); "
        "log.start_run(Run(run_id='r', created_us=1)); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert socket_paths(path)[0].exists()
    assert query(path, "SELECT run_id FROM runs").to_pylist() == [{"run_id": "r"}]


def test_a_holder_that_answers_nothing_is_said_so(path, monkeypatch):
    monkeypatch.setattr(livequery, "START_WAIT_S", 0.2)
    script = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        holder.stdout.readline()
        with pytest.raises(RunLogError, match="held by another process"):
            query(path, "SELECT 1")
        holder.communicate("\n")


def test_a_missing_file_is_not_made(tmp_path):
    path = tmp_path / "run.duckdb"
    with pytest.raises(InputError, match="no run log at"):
        query(path, "SELECT 1")
    assert not path.exists()


def test_the_wire_format_round_trips():
    one, other = socket.socketpair()
    with one, other:
        question = Question(sql="SELECT '\n\u20ac'", max_rows=3, timeout_s=1.5)
        livequery.send(one, question)
        assert livequery.receive(other, Question) == question


def test_duckdb_alone_still_opens_the_log_by_hand(filled):
    with duckdb.connect(str(filled), read_only=True) as by_hand:
        assert by_hand.sql("FROM slo_by_policy").fetchall()
