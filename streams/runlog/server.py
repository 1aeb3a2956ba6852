"""Answers other processes' queries on a Unix socket while this process holds the database.

DuckDB gives a file to one process at a time. Each connection gets its own cursor, so it reads a
committed snapshot and never waits for the writer or stops it. `slackwater.livequery` is the other
end and says what goes over the wire.
"""

import contextlib
import socket
import stat
import threading
import time
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa

from slackwater import livequery
from slackwater.errors import InputError, SlackwaterError
from slackwater.livequery import Answer, Question
from streams.runlog.guard import read_only_statement

MAX_QUERIES = 4
MAX_BYTES = 256 << 20
BATCH_ROWS = 10_000
MAX_TIMEOUT_S = 60.0
CLOSE_LIMIT_S = 5.0
IDLE_TIMEOUT_S = 30.0
ENDED = "the run has just ended; ask again"


class QueryServer:
    """A daemon thread that accepts, and one more for each connection.

    `path` is where it listens; None when no socket could be made: the run goes on without.
    """

    def __init__(self, database: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.path: Path | None = None
        self._connection = connection
        self._listener: socket.socket | None = None
        self._slots = threading.BoundedSemaphore(MAX_QUERIES)
        self._running: set[duckdb.DuckDBPyConnection] = set()
        self._changed = threading.Condition()
        self._closed = False
        if found := _listen(database):
            self._listener, self.path = found
            accept = threading.Thread(
                target=self._accept, args=(self._listener,), name="live-queries", daemon=True
            )
            accept.start()

    def close(self) -> bool:
        """Stop listening and interrupt what runs; True once every cursor is closed.

        False when a query does not heed the interrupt: one inside a single long function call.
        """
        if self.path is not None and self._listener is not None:
            self.path.unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        with self._changed:
            self._closed = True
            deadline = time.monotonic() + CLOSE_LIMIT_S
            while self._running and time.monotonic() < deadline:
                for cursor in self._running:
                    cursor.interrupt()
                self._changed.wait(0.05)
            return not self._running

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        # A client that hangs up, stalls or sends nonsense ends its own connection alone.
        with client, contextlib.suppress(OSError, msgspec.MsgspecError):
            client.settimeout(IDLE_TIMEOUT_S)
            question = livequery.receive(client, Question)
            if not self._slots.acquire(blocking=False):
                busy = f"{MAX_QUERIES} queries are running; ask again when one has ended"
                livequery.send(client, Answer(error=busy))
                return
            try:
                answer, table = self._answer(question)
            finally:
                self._slots.release()
            livequery.send(client, answer)
            client.sendall(table)

    def _answer(self, question: Question) -> tuple[Answer, bytes]:
        with self._changed:
            if self._closed:
                return Answer(error=ENDED), b""
            cursor = self._connection.cursor()
            self._running.add(cursor)
        try:
            return self._run(cursor, question)
        finally:
            with self._changed:
                cursor.close()
                self._running.discard(cursor)
                self._changed.notify_all()

    def _run(self, cursor: duckdb.DuckDBPyConnection, question: Question) -> tuple[Answer, bytes]:
        limit_s = min(question.timeout_s, MAX_TIMEOUT_S)
        timer = threading.Timer(limit_s, cursor.interrupt)
        timer.daemon = True
        timer.start()
        try:
            statement = read_only_statement(cursor, question.sql)
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            answer = livequery.relation(cursor, statement)
            if answer is None:
                return _collect(pa.RecordBatchReader.from_batches(pa.schema([]), []), None)
            with answer.to_arrow_reader(BATCH_ROWS) as reader:
                return _collect(reader, question.max_rows)
        except SlackwaterError as error:
            return Answer(error=str(error), bad_input=True), b""
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            if "INTERRUPT" in str(error):
                slow = f"the query took longer than {limit_s:g} s and was stopped"
                return Answer(error=ENDED if self._closed else slow), b""
            known = livequery.query_error(error)
            return Answer(error=str(known), bad_input=isinstance(known, InputError)), b""
        finally:
            timer.cancel()


def _collect(reader: pa.RecordBatchReader, max_rows: int | None) -> tuple[Answer, bytes]:
    """The result as an Arrow IPC stream; `more` when it has more rows than were asked for."""
    sink = pa.BufferOutputStream()
    rows, more = 0, False
    with pa.ipc.new_stream(sink, reader.schema) as stream:
        for batch in reader:
            wanted = batch if max_rows is None else batch.slice(0, max_rows - rows)
            stream.write_batch(wanted)
            rows += wanted.num_rows
            more = wanted.num_rows < batch.num_rows
            if more:
                break
            if sink.tell() > MAX_BYTES:
                msg = f"the result is larger than {MAX_BYTES >> 20} MiB; add a LIMIT or --limit"
                raise InputError(msg)
    table = sink.getvalue().to_pybytes()
    return Answer(more=more, table_bytes=len(table)), table


def _listen(database: Path) -> tuple[socket.socket, Path] | None:
    for path in livequery.socket_paths(database):
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _remove_stale(path)
            listener.bind(str(path))
            # Nobody can connect before `listen`: there is no moment at which others may.
            path.chmod(0o600)
            listener.listen()
        except OSError:
            # Too long a path, or a file system without sockets: the next place is tried.
            listener.close()
        else:
            return listener, path
    return None


def _remove_stale(path: Path) -> None:
    """A socket of this name is a dead writer's: this process holds the lock of the database."""
    if path.exists() and stat.S_ISSOCK(path.lstat().st_mode):
        path.unlink()
