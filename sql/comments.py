"""What every view and column means, as COMMENT statements: `python -m sql.comments` writes them.

A view's comment is the text at the head of its file. A column's is what `glossary` says, else
that of the column of the same name in a table behind it.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import sql
from sql.glossary import EVERYWHERE, HERE, SOURCES

if TYPE_CHECKING:
    import duckdb

PATH = Path(__file__).with_name("comments.sql")
HEAD = "-- What the views and their columns mean. Written by `python -m sql.comments`.\n"
COLUMNS = (
    "SELECT column_name, comment FROM duckdb_columns() WHERE table_name = ? ORDER BY column_index"
)


def catalogue() -> "duckdb.DuckDBPyConnection":
    """An empty run log in memory whose tables, views and analyses all have their comments.

    Analyses are views in it, so that their columns can be looked up as well.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute(sql.schema() + sql.definitions())
    for script in sql.scripts("analyses"):
        connection.execute(f'CREATE VIEW "{script.name}" AS {script.text}')
    connection.execute("".join(statements(connection, "staging", "marts", "analyses")))
    return connection


def statements(connection: "duckdb.DuckDBPyConnection", *folders: str) -> Iterator[str]:
    """The COMMENT statements for the views of these folders.

    Raises `KeyError` naming a column that nobody has said the meaning of.
    """
    for folder in folders:
        for script in sql.scripts(folder):
            yield f"\nCOMMENT ON VIEW {script.name} IS {_quoted(script.about)};\n"
            known = _of_tables(connection, script.name)
            for column, _ in connection.execute(COLUMNS, [script.name]).fetchall():
                text = _meaning(script.name, column, known)
                yield f'COMMENT ON COLUMN {script.name}."{column}" IS {_quoted(text)};\n'


def _of_tables(connection: "duckdb.DuckDBPyConnection", view: str) -> dict[str, str]:
    known: dict[str, str] = {}
    for table in SOURCES.get(view, ()):
        known = dict(connection.execute(COLUMNS, [table]).fetchall()) | known
    return known


def _meaning(view: str, column: str, of_tables: dict[str, str]) -> str:
    for texts in (HERE.get(view, {}), EVERYWHERE, of_tables):
        if column in texts:
            return texts[column]
    msg = f"{view}.{column} has no comment; say in sql/glossary.py what it means"
    raise KeyError(msg)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def text() -> str:
    """The text of `comments.sql`."""
    with catalogue() as connection:
        return HEAD + "".join(statements(connection, "staging", "marts"))


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
