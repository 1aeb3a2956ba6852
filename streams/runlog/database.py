"""Opening the DuckDB file of a run log, and saying in one line what stands in the way."""

import errno
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import sql
from slackwater.errors import InputError, RunLogError
from streams.runlog import views
from streams.runlog.wal import set_aside, torn_bytes, wal_path

LOCK_WAIT_S = 5.0
"""A person's query may hold a finished log open for a moment; a writer outlasts that."""

_LOCK = re.compile(r"set lock on file(?:.*\(PID (\d+)\))?", re.DOTALL)
_FULL = ("no space left", "file too large", "disk quota", "out of disk")

# Queries reach this connection through a socket: they may read tables and nothing else.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    # What a query spills must leave room for what the writer writes.
    "max_temp_directory_size": "1GB",
}
_LOCK_DOWN = "SET enable_external_access = false; SET lock_configuration = true"


def open_database(path: Path, now_us: Callable[[], int]) -> duckdb.DuckDBPyConnection:
    """Open or create the run log at `path` for writing, with tables and views in place.

    A write-ahead log that does not end with a whole transaction is set aside, the loss is stated
    on stderr and in the table `incidents`, and all that is whole is kept. Raises `InputError` for
    a path that cannot hold a run log, `RunLogError` when it is locked, full or of another version.
    """
    _check_path(path)
    losses = _set_torn_wal_aside(path)
    try:
        connection = _connect(path, losses)
        _prepare(connection, path)
        for loss in losses:
            sys.stderr.write(f"slackwater: {loss}\n")
            connection.execute(
                "INSERT INTO incidents VALUES (?, 'write-ahead log', ?)", [now_us(), loss]
            )
        connection.execute(_LOCK_DOWN)
        connection.execute("CHECKPOINT")
    except duckdb.Error as error:
        raise explain(error, path) from error
    return connection


def explain(error: Exception, path: Path) -> RunLogError:
    """What a DuckDB error means to the user of the run log at `path`."""
    text = str(error).strip().split("\n", 1)[0]
    if any(word in str(error).lower() for word in _FULL):
        return RunLogError(
            f"the disk that holds {path} is full, so what came since the last commit is not in "
            "the run log; free some space and start again, it goes on from its stored offsets"
        )
    if held := _LOCK.search(str(error)):
        who = f"another process (pid {held[1]})" if held[1] else "another process"
        return RunLogError(
            f"run log {path} is open in {who}; end that one, or name another file by --db"
        )
    if "not a valid duckdb database" in text.lower():
        return RunLogError(f"{path} is not a DuckDB file; name another one by --db")
    return RunLogError(f"run log {path}: {text}")


def _check_path(path: Path) -> None:
    if path.exists() and not (path.is_file() or path.is_dir()):
        msg = f"{path} is a device or a pipe; the run log has to be a file, such as run.duckdb"
        raise InputError(msg)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        msg = f"{path}: its name is not UTF-8, which DuckDB needs; name another file by --db"
        raise InputError(msg) from None
    if path.is_dir():
        msg = f"{path} is a directory; the run log has to be a file, such as {path}/run.duckdb"
        raise InputError(msg)
    if not path.parent.is_dir():
        msg = f"directory {path.parent} does not exist; make it, or name another file by --db"
        raise InputError(msg)
    target = path if path.exists() else path.parent
    if not os.access(target, os.W_OK):
        msg = f"{target}: {os.strerror(errno.EACCES)}; the run log needs to write there"
        raise InputError(msg)


def _set_torn_wal_aside(path: Path) -> list[str]:
    torn = torn_bytes(wal_path(path))
    if not torn or not path.exists():
        return []
    aside = set_aside(wal_path(path), keep=True)
    return [
        f"the write-ahead log of {path} ends inside a transaction: its last {torn} bytes are lost "
        f"(a copy is kept as {aside.name}); all before is kept, reading goes on from the stored "
        "offsets"
    ]


def _connect(path: Path, losses: list[str]) -> duckdb.DuckDBPyConnection:
    """Connect, waiting for a reader to let go; a log that cannot be replayed is set aside."""
    deadline = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            return duckdb.connect(str(path), config=_CONFIG)
        except duckdb.Error as error:
            if _LOCK.search(str(error)) and time.monotonic() < deadline:
                time.sleep(0.05)
            elif "replaying wal" in str(error).lower() and wal_path(path).exists():
                aside = set_aside(wal_path(path), keep=False)
                losses.append(
                    f"the write-ahead log of {path} cannot be read and was set aside as "
                    f"{aside.name}: what came after the last checkpoint is lost, reading goes on "
                    "from the stored offsets"
                )
            else:
                raise


def _prepare(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    connection.execute("BEGIN TRANSACTION")
    found = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
    tables = {name for (name,) in found}
    if not tables:
        connection.execute(sql.schema())
    elif "schema_info" not in tables:
        msg = f"{path} is a DuckDB file of something else; name another one by --db"
        raise RunLogError(msg)
    ((version,),) = connection.execute("SELECT max(version) FROM schema_info").fetchall()
    if version != sql.SCHEMA_VERSION:
        msg = (
            f"{path} has tables of version {version}, this Slackwater writes version "
            f"{sql.SCHEMA_VERSION}; name a new file by --db"
        )
        raise RunLogError(msg)
    views.renew(connection)
    connection.execute("COMMIT")
