"""Transactions on the run log's tables; knows DuckDB and Arrow, not what the rows mean."""

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from streams.runlog.buffer import Offsets, Source
from streams.runlog.database import explain

_STAGED = "staged"

Rows = tuple[str, pa.Table]
"""A table's name and rows for it; a column that is left out becomes NULL."""


class Store:
    """The writer's connection; whichever thread calls, one transaction at a time.

    Attributes:
        schemas: the Arrow schema of each table.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path) -> None:
        self.connection = connection
        self._path = path
        self._turn = threading.RLock()
        names = connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        self.schemas: Mapping[str, pa.Schema] = {name: self._schema(name) for (name,) in names}

    def transaction(self, write: Callable[[], object]) -> None:
        """Run `write` in one transaction: all of it, or `RunLogError` and none of it."""
        with self._turn:
            try:
                self.connection.execute("BEGIN TRANSACTION")
                write()
                self.connection.execute("COMMIT")
            except duckdb.Error as error:
                self._roll_back()
                raise explain(error, self._path) from error
            except BaseException:
                self._roll_back()
                raise

    def rows(self, query: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query; raises `RunLogError`."""
        with self._turn:
            try:
                return self.connection.execute(query, parameters).fetchall()
            except duckdb.Error as error:
                raise explain(error, self._path) from error

    def insert(self, rows: Sequence[Rows]) -> None:
        """Add rows, inside a transaction."""
        for table, staged in rows:
            self.connection.register(_STAGED, staged)
            self.connection.execute(f"INSERT INTO {table} BY NAME FROM {_STAGED}")
            self.connection.unregister(_STAGED)

    def set_offsets(self, run_id: str, offsets: Offsets) -> None:
        """Store offsets, inside a transaction."""
        for (topic, partition), offset in offsets.items():
            values = [offset, run_id, topic, partition]
            changed = self.connection.execute(
                "UPDATE offsets SET next_offset = ? "
                "WHERE run_id = ? AND topic = ? AND partition = ?",
                values,
            ).fetchall()
            if changed == [(0,)]:
                self.connection.execute(
                    "INSERT INTO offsets (next_offset, run_id, topic, partition) "
                    "VALUES (?, ?, ?, ?)",
                    values,
                )

    def offsets(self, run_id: str) -> dict[Source, int]:
        """The stored offsets of a run."""
        rows = self.rows(
            "SELECT topic, partition, next_offset FROM offsets WHERE run_id = ?", [run_id]
        )
        return {(topic, partition): offset for topic, partition, offset in rows}

    def close(self) -> None:
        """Fold the write-ahead log into the file and close; raises `RunLogError`."""
        with self._turn:
            try:
                self.connection.execute("CHECKPOINT")
            except duckdb.Error as error:
                raise explain(error, self._path) from error
            finally:
                self.connection.close()

    def _schema(self, table: str) -> pa.Schema:
        return self.connection.table(table).limit(0).to_arrow_table().schema

    def _roll_back(self) -> None:
        try:
            self.connection.execute("ROLLBACK")
        except duckdb.Error:
            # DuckDB has rolled back by itself, or is beyond use; the caller reports why.
            return
