"""Asks a run log a question, whether or not a run is writing it.

DuckDB lets one process open a file. While a writer lives, it answers on a Unix socket beside the
file; when none does, the file is opened here, read-only. On the wire: four bytes of length and
that much JSON each way (`Question`, `Answer`), then the Arrow IPC stream of the answer.
"""

import hashlib
import socket
import struct
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, TypeVar

import msgspec

from slackwater.errors import InputError, RunLogError, SlackwaterError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

T = TypeVar("T", bound=msgspec.Struct)

MAX_MESSAGE_BYTES = 1 << 20
START_WAIT_S = 3.0
"""How long a writer that holds the file may take until its socket answers."""

_NOT_THE_QUERY = ("IO Error", "FATAL Error", "INTERNAL Error", "Out of Memory", "Serialization")

_LENGTH = struct.Struct("!I")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks: one statement, how many rows at most, and its patience in seconds."""

    sql: str
    max_rows: int | None = None
    timeout_s: float = 30.0


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What the writer says: an error, or that an Arrow stream of `table_bytes` follows.

    `more` when the result has more rows than were asked for; `bad_input` when the error is the
    question's and not the writer's.
    """

    error: str | None = None
    bad_input: bool = False
    more: bool = False
    table_bytes: int = 0


class Result(msgspec.Struct, frozen=True):
    """The rows, and whether there are more of them than were asked for."""

    table: "pa.Table"
    more: bool


def query(db_path: Path | str, sql: str) -> "pa.Table":
    """All rows of one statement; see `ask`."""
    return ask(Path(db_path), Question(sql=sql)).table


def ask(db_path: Path, question: Question) -> Result:
    """Ask the writer of a run log if there is one, else the file itself.

    Raises `InputError` when there is no such file, for bad SQL (with DuckDB's own words) and for a
    statement that the writer refuses, `RunLogError` when the log cannot be read or takes too long.
    """
    if not db_path.is_file():
        msg = f"no run log at {db_path}; name one by --db"
        raise InputError(msg)
    deadline = time.monotonic() + START_WAIT_S
    while True:
        result = _ask_writer(db_path, question) or _ask_file(db_path, question)
        if result is not None:
            return result
        if time.monotonic() > deadline:
            msg = (
                f"run log {db_path} is held by another process that answers no questions; "
                "ask again when it has ended"
            )
            raise RunLogError(msg)
        time.sleep(0.05)


def socket_paths(db_path: Path) -> tuple[Path, Path]:
    """Where the writer listens: beside the file, or where that cannot be, in the temp directory.

    A Unix socket's path has room for about 100 bytes, and some file systems hold no sockets.
    """
    whole = db_path.resolve()
    name = hashlib.sha256(str(whole).encode()).hexdigest()[:16]
    beside = whole.with_name(whole.name + ".sock")
    return beside, Path(tempfile.gettempdir()) / f"slackwater-{name}.sock"


def relation(
    connection: "duckdb.DuckDBPyConnection", text: str
) -> "duckdb.DuckDBPyRelation | None":
    """One statement as a relation, None when it gives no rows; raises `duckdb.Error`."""
    import duckdb

    try:
        return connection.sql(text)
    except duckdb.ProgrammingError:
        # The same error again, but with the line that it points at.
        connection.execute(text)
        raise


def query_error(error: Exception) -> SlackwaterError:
    """What went wrong with a query, in one line with DuckDB's words and the line they point at."""
    lines = [line.strip() for line in str(error).splitlines()]
    text = "; ".join(line for line in lines if line and not set(line) <= {"^", "~"})
    return (RunLogError if text.startswith(_NOT_THE_QUERY) else InputError)(text)


def send(sock: socket.socket, message: msgspec.Struct) -> None:
    """Send one message; raises `OSError`."""
    body = msgspec.json.encode(message)
    sock.sendall(_LENGTH.pack(len(body)) + body)


def receive(sock: socket.socket, kind: type[T]) -> T:
    """Receive one message; raises `OSError` or `msgspec.MsgspecError`."""
    (length,) = _LENGTH.unpack(_read(sock, _LENGTH.size))
    if length > MAX_MESSAGE_BYTES:
        msg = f"a message of {length} bytes; at most {MAX_MESSAGE_BYTES} are read"
        raise ConnectionError(msg)
    return msgspec.json.decode(_read(sock, length), type=kind)


def _read(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = sock.recv(min(count - len(data), 1 << 20))
        if not part:
            msg = "the other side hung up"
            raise ConnectionError(msg)
        data += part
    return bytes(data)


def _ask_writer(db_path: Path, question: Question) -> Result | None:
    """The writer's answer; None when there is no writer, or it ended while it was asked."""
    for path in socket_paths(db_path):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            try:
                sock.settimeout(question.timeout_s + START_WAIT_S)
                sock.connect(str(path))
                send(sock, question)
                answer = receive(sock, Answer)
                table = _read(sock, answer.table_bytes)
            except TimeoutError:
                msg = f"the writer of {db_path} did not answer in {question.timeout_s:g} s"
                raise RunLogError(msg) from None
            except OSError:
                continue
        if answer.error is not None:
            raise (InputError if answer.bad_input else RunLogError)(answer.error)
        import pyarrow as pa

        return Result(pa.ipc.open_stream(table).read_all(), answer.more)
    return None


def _ask_file(db_path: Path, question: Question) -> Result | None:
    """The file's answer; None when another process holds it."""
    try:
        import duckdb
        import pyarrow as pa
    except ModuleNotFoundError as error:
        msg = f"reading a run log needs {error.name}; pip install slackwater-server"
        raise InputError(msg) from None
    try:
        with duckdb.connect(str(db_path), read_only=True) as connection:
            return _interruptible(connection, question)
    except duckdb.IOException as error:
        if "lock" in str(error).lower():
            return None
        raise query_error(error) from error
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise query_error(error) from error


def _interruptible(connection: "duckdb.DuckDBPyConnection", question: Question) -> Result:
    """Run a question so that Ctrl-C ends it: at whatever moment it comes, the query is stopped."""
    answer: Future[Result] = Future()

    def work() -> None:
        try:
            answer.set_result(_run(connection, question))
        except Exception as error:
            answer.set_exception(error)

    asked = Thread(target=work, daemon=True)
    try:
        asked.start()
        return answer.result()
    finally:
        # A query hears no Ctrl-C itself; an interrupt before it starts is not kept.
        while asked.is_alive() and not answer.done():
            connection.interrupt()
            asked.join(0.05)


def _run(connection: "duckdb.DuckDBPyConnection", question: Question) -> Result:
    """Run every statement; the last one's rows are the result."""
    import pyarrow as pa

    statements = connection.extract_statements(question.sql)
    for statement in statements[:-1]:
        connection.execute(statement).fetchall()
    answer = relation(connection, statements[-1].query) if statements else None
    if answer is None:
        return Result(pa.table({}), more=False)
    with answer.to_arrow_reader() as reader:
        return _first_rows(reader, question.max_rows)


def _first_rows(reader: "pa.RecordBatchReader", max_rows: int | None) -> Result:
    import pyarrow as pa

    batches, rows = [], 0
    for batch in reader:
        batches.append(batch)
        rows += batch.num_rows
        if max_rows is not None and rows > max_rows:
            break
    table = pa.Table.from_batches(batches, reader.schema)
    more = max_rows is not None and rows > max_rows
    return Result(table.slice(0, max_rows) if more else table, more)
