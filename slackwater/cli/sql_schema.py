"""What the columns of tables, views and analyses mean: `slackwater sql --schema`."""

from itertools import groupby
from typing import TYPE_CHECKING

from slackwater.cli.sql_output import console_for_rows

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

COLUMNS = """
SELECT r.relation, r.kind, r.about, c.column_name, c.data_type AS type, c.comment
FROM (
    SELECT table_name AS relation, 'table' AS kind, comment AS about FROM duckdb_tables()
    UNION ALL
    SELECT view_name, CASE WHEN view_name IN $analyses THEN 'analysis' ELSE 'view' END, comment
    FROM duckdb_views() WHERE NOT internal
) AS r
JOIN duckdb_columns() AS c ON r.relation = c.table_name
WHERE coalesce(r.relation = $relation, true)
ORDER BY
    list_position(['table', 'view', 'analysis'], r.kind),
    r.relation LIKE 'stg_%', r.relation, c.column_index
"""


def columns(relation: str | None) -> "pa.Table":
    """One row a column, of this table, view or analysis, or of all of them.

    The columns are relation, kind, about, column_name, type and comment.
    """
    from sql import scripts
    from sql.comments import catalogue

    analyses = [script.name for script in scripts("analyses")]
    with catalogue() as connection:
        given = {"relation": relation, "analyses": analyses}
        return connection.sql(COLUMNS, params=given).to_arrow_table()


def columns_of_log(db: "Path", relation: str | None) -> "pa.Table":
    """The same of a run log's own tables and views, also while a run is writing it.

    A log holds no analyses: those of this Slackwater are explained. Without rows there is no such
    relation. Raises `InputError` or `RunLogError` for a log that cannot be asked.
    """
    from slackwater.livequery import query
    from sql import scripts

    if relation in {script.name for script in scripts("analyses")}:
        return columns(relation)
    wanted = "NULL" if relation is None else "'" + relation.replace("'", "''") + "'"
    return query(db, COLUMNS.replace("$analyses", "[]").replace("$relation", wanted))


def print_columns(table: "pa.Table") -> None:
    """Each relation with what it holds, and its columns below it."""
    from rich.table import Table
    from rich.text import Text

    console = console_for_rows()
    for relation, rows in groupby(table.to_pylist(), key=lambda row: row["relation"]):
        grid = Table(box=None, show_header=False, pad_edge=False)
        for row in rows:
            about = f"{relation} ({row['kind']}): {row['about']}"
            grid.add_row(f"  {row['column_name']}", _short(row["type"]), row["comment"])
        console.print(Text(about, style="bold"))
        console.print(grid)
        console.print()


def _short(kind: str) -> str:
    """A nested type by its outermost word: its fields are not what a person looks for."""
    return f"STRUCT{kind[kind.rindex(')') + 1 :]}" if kind.startswith("STRUCT(") else kind
