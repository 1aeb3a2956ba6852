"""The DuckDB run log: one writer, exactly once, open to everybody's questions while it writes."""

from streams.runlog.log import RunLog
from streams.runlog.rows import Draw, Run, Verdict

__all__ = ["Draw", "Run", "RunLog", "Verdict"]
