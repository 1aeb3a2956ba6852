"""Making the views of a run log, and knowing when those in the file are the same already."""

from hashlib import blake2b

import duckdb

import sql

# A view that somebody changed or dropped is renewed. Its words are sorted, because DuckDB writes
# the columns of an EXCLUDE in any order.
_MADE = r"""
    SELECT md5(string_agg(definition, chr(10) ORDER BY ALL)) FROM (
        SELECT concat_ws(' ', view_name, comment,
            list_sort(regexp_extract_all(sql, '\w+'))::VARCHAR) AS definition
        FROM duckdb_views() WHERE NOT internal
        UNION ALL
        SELECT concat_ws(' ', function_name, parameters, macro_definition)
        FROM duckdb_functions() WHERE NOT internal AND function_name <> 'views_made'
    )
"""
_NOTED = "SELECT macro_definition FROM duckdb_functions() WHERE function_name = 'views_made'"


def renew(connection: duckdb.DuckDBPyConnection) -> None:
    """Make every macro, view and comment of `sql.views()`, unless the file holds just these.

    Making them takes about a second of a core, looking a twentieth of that.
    """
    text = sql.views()
    source = blake2b(text.encode(), digest_size=16).hexdigest()
    if connection.execute(_NOTED).fetchall() == [(f"'{_note(connection, source)}'",)]:
        return
    connection.execute(text)
    connection.execute(f"CREATE OR REPLACE MACRO views_made() AS '{_note(connection, source)}'")


def _note(connection: duckdb.DuckDBPyConnection, source: str) -> str:
    ((made,),) = connection.execute(_MADE).fetchall()
    return f"{source} {made}"
