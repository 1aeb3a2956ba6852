"""`slackwater sql`: a question to a run log, by SQL, by file or by name."""

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sql import Script

RUNS = Path("runs")
SHOWN_ROWS = 200


def sql(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERY|FILE|NAME]",
            help="SQL, a file that ends in .sql, or the name of an analysis, view or table. "
            "Without it the names are listed; --schema says what their columns mean.",
        ),
    ] = None,
    db: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The run log.", show_default="the newest runs/*.duckdb"),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Rows at most (a number).", show_default="200 in a table, else all"
        ),
    ] = None,
    list_: Annotated[
        bool, typer.Option("--list", help="List the analyses and views with what they answer.")
    ] = False,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            help="Say what the columns of a table, view or analysis mean; of all without a NAME. "
            "With --db those of that file, which an older Slackwater may have made.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON array of rows.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
) -> None:
    """Ask a run log, also while a run is writing it."""
    from slackwater.cli import sql_output
    from slackwater.livequery import Question, ask

    if json and csv:
        msg = "--json and --csv are two forms of one answer; give one of them"
        raise InputError(msg)
    if schema:
        _explain(what, db, json=json, csv=csv)
        return
    if list_ or what is None:
        sql_output.print_names(_listed(), as_json=json)
        return
    text = _resolve(what)
    most = limit if limit is not None or json or csv else SHOWN_ROWS
    log = db or newest_log("--db names another")
    result = ask(log, Question(sql=text, max_rows=most))
    if json:
        sql_output.print_json(result.table)
    elif csv:
        sql_output.print_csv(result.table)
    else:
        sql_output.print_table(result)
    if not result.table.num_rows:
        _say_why(what, log)


def _explain(what: str | None, db: Path | None, *, json: bool, csv: bool) -> None:
    """Print what columns mean, of one relation or of all; raises `InputError`."""
    from slackwater.cli import sql_output, sql_schema

    if db is None:
        texts = _texts()
        if what is not None and what not in texts:
            raise _unknown(what, texts)
        columns = sql_schema.columns(what)
    else:
        columns = sql_schema.columns_of_log(db, what)
        if what is not None and not columns.num_rows:
            raise _unknown(what, _texts(), f"{db} has no table or view")
    if json:
        sql_output.print_json(columns)
    elif csv:
        sql_output.print_csv(columns)
    else:
        sql_schema.print_columns(columns)


def _say_why(what: str, log: Path) -> None:
    """Say on stderr why there are no rows, where that is known."""
    from slackwater.cli.sql_reason import why_no_rows

    why = why_no_rows(what, log)
    if why is not None:
        sys.stderr.write(f"slackwater: {why}\n")


def _resolve(what: str) -> str:
    """The SQL that is meant by a query, a file or a name; raises `InputError`."""
    if what.endswith(".sql"):
        return _read(Path(what))
    if not what.isidentifier():
        return what
    texts = _texts()
    if what not in texts:
        raise _unknown(what, texts)
    return texts[what]


def _texts() -> dict[str, str]:
    """The query behind each name of an analysis, view or table."""
    listed = [script for scripts in _listed().values() for script in scripts]
    import sql as files

    relations = [script.name for script in files.scripts("staging")] + list(files.tables())
    found = {s.name: s.text if s.folder == "analyses" else f"FROM {s.name}" for s in listed}
    return found | {name: f"FROM {name}" for name in relations}


def _unknown(
    what: str, names: "Iterable[str]", none: str = "no analysis, view or table is"
) -> InputError:
    close = difflib.get_close_matches(what, list(names), n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(close)}?" if close else ""
    return InputError(f"{none} named {what!r}{hint} (slackwater sql --list and --schema name them)")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise InputError(msg) from None
    except UnicodeDecodeError:
        msg = f"{path} is not UTF-8 text"
        raise InputError(msg) from None


def _listed() -> "dict[str, list[Script]]":
    try:
        import sql as files
    except ModuleNotFoundError:
        msg = "the SQL files are not installed; pip install slackwater-server"
        raise InputError(msg) from None
    return files.listed()


def newest_log(otherwise: str) -> Path:
    """The run log written last: a live one's changes are in its write-ahead log at first.

    Says on stderr which one it is, and `otherwise` how to take another. Raises `InputError`.
    """
    found = {path: _changed_ns(path) for path in RUNS.glob("*.duckdb")}
    if not found:
        msg = f"no run log is in {RUNS.resolve()}; make one by slackwater testbed, or name one"
        raise InputError(msg)
    newest = max(found, key=lambda path: found[path])
    sys.stderr.write(f"slackwater: from {newest}, the newest run log; {otherwise}\n")
    return newest


def _changed_ns(path: Path) -> int:
    wal = path.with_name(path.name + ".wal")
    return max(p.stat().st_mtime_ns for p in (path, wal) if p.exists())
