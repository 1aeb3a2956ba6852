"""Which SQL another process may run on the writer's database: reading, one statement, bounded."""

import duckdb

from slackwater.errors import InputError

_READS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


def read_only_statement(connection: duckdb.DuckDBPyConnection, text: str) -> str:
    """The text of the one statement of `text`, which only reads.

    SELECT covers WITH, VALUES, FROM, DESCRIBE, SHOW and SUMMARIZE. What hides a write inside one of
    these (EXPLAIN ANALYZE INSERT) fails in the read-only transaction it runs in. Raises
    `InputError` for anything else, `duckdb.Error` for what is not SQL.
    """
    statements = connection.extract_statements(text)
    if len(statements) != 1:
        msg = f"{len(statements)} statements; while a run is writing, one at a time is answered"
        raise InputError(msg)
    (statement,) = statements
    if statement.type not in _READS:
        msg = (
            f"{statement.type.name} is refused while a run is writing: only SELECT, WITH, VALUES, "
            "EXPLAIN, DESCRIBE, SHOW and SUMMARIZE are answered"
        )
        raise InputError(msg)
    return statement.query
