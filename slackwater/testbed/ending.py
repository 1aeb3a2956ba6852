"""The last word on a run: its row in the run log says complete only when all of it held."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from slackwater.errors import RunLogError
from slackwater.livequery import socket_paths
from slackwater.testbed.snapshot import Query, Row
from slackwater.testbed.summary import Summary

SET_STATUS = "UPDATE runs SET status = ?, status_reason = ? WHERE run_id = ?"


@contextlib.contextmanager
def closed_log(path: Path) -> Iterator[Query | None]:
    """Queries on the run log of a run that has ended, None when there is no log.

    Raises `RunLogError` when the file cannot be read.
    """
    remove_sockets(path)
    if not path.exists():
        yield None
        return
    import duckdb

    try:
        connection = duckdb.connect(str(path))
    except duckdb.Error as error:
        msg = f"run log {path} cannot be opened: {str(error).strip()}"
        raise RunLogError(msg) from error
    with connection:

        def query(sql: str) -> list[Row]:
            try:
                table = connection.sql(sql).to_arrow_table()
            except duckdb.Error as error:
                msg = f"run log {path}: {str(error).strip()}"
                raise RunLogError(msg) from error
            rows: list[Row] = table.to_pylist()
            return rows

        yield query


def set_status(path: Path, summary: Summary) -> None:
    """Write the verdict on the run into its row; raises `RunLogError`."""
    if not path.exists():
        return
    import duckdb

    complete = summary.status == "complete"
    reason = None if complete else "; ".join(summary.problems) or summary.status
    try:
        with duckdb.connect(str(path)) as connection:
            values = ["complete" if complete else "failed", reason, summary.run_id]
            connection.execute(SET_STATUS, values)
    except duckdb.Error as error:
        msg = f"run log {path}: its status could not be written: {str(error).strip()}"
        raise RunLogError(msg) from error


def remove_sockets(path: Path) -> None:
    """Remove the socket that a stream job killed in mid-run has left."""
    for socket_path in socket_paths(path):
        if socket_path.is_socket():
            socket_path.unlink()
