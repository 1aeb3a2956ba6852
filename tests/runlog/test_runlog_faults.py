"""What stands in the way ends in one clear line, and what is damaged is stated."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import duckdb
import pytest
from handmade import request

from slackwater.errors import InputError, RunLogError
from streams.runlog import RunLog
from streams.runlog.wal import torn_bytes, wal_path

TESTS = Path(__file__).parent


def put(log, offset):
    log.append([request(f"o{offset}", 1, 1, "ok")], topic="t", partition=0, offset=offset)
    log.commit()


def dead_writer(path, commits):
    """A writer that ends without closing, so that its write-ahead log stays."""
    script = f"""
        import os, sys
        sys.path.insert(0, {str(TESTS)!r})
        from test_runlog_faults import RunLog, put
        log = RunLog({str(path)!r})
        for offset in range({commits}):
            put(log, offset)
        os._exit(9)
    """
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, check=False, text=True
    )
    assert result.returncode == 9, result.stderr


def test_a_file_that_is_not_duckdb_is_named(path):
    path.write_text("Timestamp,Tokens\n" * 500)
    with pytest.raises(RunLogError, match=r"run\.duckdb is not a DuckDB file"):
        RunLog(path)
    assert path.read_text().startswith("Timestamp")


def test_a_missing_directory_is_named(tmp_path):
    with pytest.raises(InputError, match="nowhere does not exist"):
        RunLog(tmp_path / "nowhere" / "run.duckdb")


def test_a_directory_is_no_run_log(tmp_path):
    with pytest.raises(InputError, match="is a directory"):
        RunLog(tmp_path)


def test_a_database_of_something_else_is_left_alone(tmp_path):
    path = tmp_path / "mine.duckdb"
    with duckdb.connect(str(path)) as other:
        other.execute("CREATE TABLE mine (a INT)")
    with pytest.raises(RunLogError, match="something else"):
        RunLog(path)
    with duckdb.connect(str(path)) as other:
        assert other.sql("SELECT table_name FROM duckdb_tables()").fetchall() == [("mine",)]


def test_tables_of_another_version_are_refused(path):
    RunLog(path).close()
    with duckdb.connect(str(path)) as other:
        other.execute("UPDATE schema_info SET version = 99")
    with pytest.raises(RunLogError, match="tables of version 99"):
        RunLog(path)


def test_a_second_writer_is_told_who_holds_the_log(path, monkeypatch):
    monkeypatch.setattr("streams.runlog.database.LOCK_WAIT_S", 0.0)
    script = "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        holder.stdout.readline()
        with pytest.raises(RunLogError, match=f"another process .pid {holder.pid}."):
            RunLog(path)
        holder.communicate("\n")


def test_a_killed_writer_leaves_a_whole_write_ahead_log(path):
    dead_writer(path, 5)
    assert wal_path(path).stat().st_size > 0
    assert torn_bytes(wal_path(path)) == 0
    with RunLog(path) as log:
        assert log.rows("SELECT count(*) FROM requests") == [(5,)]
        assert log.rows("SELECT count(*) FROM incidents") == [(0,)]


@pytest.mark.parametrize("cut", [1, 20, 100])
def test_a_truncated_write_ahead_log_is_set_aside_the_loss_stated_and_the_run_goes_on(
    path, capsys, cut
):
    dead_writer(path, 5)
    wal = wal_path(path)
    os.truncate(wal, wal.stat().st_size - cut)
    damaged = wal.read_bytes()
    with RunLog(path) as log:
        assert log.stored_offsets() == {("t", 0): 4}
        assert log.rows("SELECT topic_offset FROM requests ORDER BY ALL") == [
            (0,), (1,), (2,), (3,)
        ]  # fmt: skip
        ((kind, detail),) = log.rows("SELECT kind, detail FROM incidents")
        put(log, 4)
    (aside,) = path.parent.glob("*.wal.broken-*")
    assert aside.read_bytes() == damaged
    assert kind == "write-ahead log"
    assert "ends inside a transaction" in detail
    assert aside.name in detail
    assert detail in capsys.readouterr().err
    with RunLog(path) as log:
        assert log.rows("SELECT count(*) FROM requests") == [(5,)]
        assert log.rows("SELECT count(*) FROM incidents") == [(1,)]


def test_a_write_ahead_log_of_which_nothing_can_be_read_is_stated_too(path):
    RunLog(path).close()
    dead_writer(path, 2)
    wal_path(path).write_bytes(wal_path(path).read_bytes()[:20])
    with RunLog(path) as log:
        assert log.stored_offsets() == {}
        assert log.rows("SELECT count(*) FROM incidents") == [(1,)]


FILL = """
    import os, sys
    sys.path.insert(0, {tests!r})
    {limit}
    from test_runlog_faults import RunLog, RunLogError, put
    from streams.runlog import Run
    log = RunLog({path!r})
    log.start_run(Run(run_id="live", created_us=1, settings={{"pad": os.urandom(1000).hex()}}))
    from handmade import request
    committed = 0
    try:
        for offset in range(100000):
            rows = [request(os.urandom(60).hex(), 1, 1, "ok") for _ in range(200)]
            log.append(rows, topic="t", partition=0, offset=offset)
            log.commit()
            committed = offset + 1
    except RunLogError as error:
        print(committed, error, flush=True)
        os._exit(7)
"""


def fill(path, limit=""):
    """Write until the disk is full; returns the offset after the last commit and the message."""
    script = textwrap.dedent(FILL).format(tests=str(TESTS), path=str(path), limit=limit)
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, check=False, text=True
    )
    assert result.returncode == 7, result.stderr
    committed, message = result.stdout.split(" ", 1)
    return int(committed), message.strip()


def check_full(path, committed, message):
    assert f"the disk that holds {path} is full" in message
    assert "\n" not in message
    with duckdb.connect(str(path), read_only=True) as reader:
        assert reader.sql("SELECT status FROM runs").fetchall() == [("running",)]
        assert reader.sql("SELECT next_offset FROM offsets").fetchall() == [(committed,)]
        assert reader.sql("SELECT count(*) FROM requests").fetchall() == [(200 * committed,)]


def test_a_file_that_may_not_grow_ends_in_one_line_and_loses_nothing_committed(path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))"
    committed, message = fill(path, limit)
    assert committed > 0
    check_full(path, committed, message)


@pytest.fixture
def tiny_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip("a tiny file system cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_ends_in_one_line_and_loses_nothing_committed(tiny_disk):
    path = tiny_disk / "run.duckdb"
    committed, message = fill(path)
    assert committed > 0
    check_full(path, committed, message)


def test_a_commit_that_failed_can_be_made_again(log, monkeypatch):
    log.append([request("one", 1, 1, "ok")], topic="t", partition=0, offset=0)
    log.rows("ALTER TABLE requests RENAME TO hidden")
    with pytest.raises(RunLogError):
        log.commit()
    assert log.stored_offsets() == {}
    log.rows("ALTER TABLE hidden RENAME TO requests")
    assert log.commit() == 1
    assert log.rows("SELECT count(*) FROM requests") == [(1,)]
