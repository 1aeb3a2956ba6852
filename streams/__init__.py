"""The Faust job: events to rates to decisions to commands, and everything to DuckDB."""
