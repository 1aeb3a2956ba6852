"""What came of a run, by SQL from its run log, and whether it holds together."""

import platform
import shlex
from typing import Any

import msgspec

from slackwater import __version__
from slackwater.testbed.invocation import program
from slackwater.testbed.parts import PartError
from slackwater.testbed.plan import Plan
from slackwater.testbed.snapshot import Query, Row
from slackwater.testbed.supervisor import Outcome

SUMMARY_VERSION = 1
BYTES_PER_PARAMETER = 4
UNFINISHED = "merges were not finished by every learner"
SWITCHBACK = "controller.switchback="
SENDERS = ("replay", "load")
"""The parts whose events are requests and loads."""

SLO = """
SELECT place, requests, violations, violation_rate, unanswered, p50_s, p95_s FROM slo_by_overlap
"""

TOTALS = "SELECT slo_s, requests, violations, violation_rate, p50_s, p95_s FROM slo_by_policy"

MERGES = """
SELECT
    count(commanded_us) AS commanded,
    count(*) FILTER (WHERE complete) AS finished_by_all,
    count(*) FILTER (WHERE complete AND reason = 'h_max') AS forced_at_h_max,
    count(*) FILTER (WHERE finished + skipped < coalesce(participants, 1)) AS unfinished,
    count(*) FILTER (WHERE NOT same_step AND at_step IS NOT NULL) AS step_mismatches,
    count(*) FILTER (WHERE NOT same_digest) AS digest_mismatches
FROM stg_windows
"""

REPORTS = f"""
SELECT
    coalesce(sum(bytes_exchanged), 0)::BIGINT AS bytes_exchanged,
    coalesce(sum({BYTES_PER_PARAMETER} * parameters), 0)::BIGINT AS bytes_expected,
    count(*) FILTER (
        WHERE bytes_exchanged <> {BYTES_PER_PARAMETER} * parameters
    ) AS byte_mismatches,
    max(parameters) AS parameters,
    median(seconds) AS median_s,
    max(seconds) AS longest_s
FROM merges WHERE type = 'finished'
"""  # noqa: S608

SKIPPED = """
SELECT coalesce(split_part(reason, ':', 1), 'unknown') AS cause, count(*) AS reports
FROM merges WHERE type = 'skipped' GROUP BY cause ORDER BY reports DESC, cause
"""
SKIPPED_MERGES = """
SELECT count(DISTINCT merge_id) AS skipped_merges FROM merges WHERE type = 'skipped'
"""

TYPES = """
SELECT 'commands' AS name, type, count(*) AS count FROM commands GROUP BY type
UNION ALL
SELECT 'merges' AS name, type, count(*) AS count FROM merges GROUP BY type
ORDER BY name, type
"""

DECISIONS = """
SELECT action, reason, decisions FROM decisions_by_reason WHERE active
ORDER BY decisions DESC, reason
"""

LEARNERS = """
SELECT learner, max(step) AS steps, arg_min(loss, step) AS first_loss, arg_max(loss, step) AS loss
FROM learner_steps GROUP BY learner ORDER BY learner
"""

HEALTH = "SELECT late_requests, dropped_events, dead_letters FROM lost_late_dead"


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run as JSON and as a table; counts are None where there is no run log.

    Attributes:
        status: `complete`, `failed` or `interrupted`; in the run log, an interrupted run has
            the status `failed` and the reason `interrupted`.
        problems: why it is not complete, one line each.
        wall_s: seconds from the command's start to its end.
        slo: requests and violations, `inside` and `outside` of merge windows.
        merges: counts, bytes and event seconds; `skipped` counts reports of learners by the
            first word of their reasons, `skipped_merges` the merges that they are about.
        decisions: of the policy that commands, by reason.
        events: acknowledged, logged, lost, late and dead.
        rows: per table of the run log.
        types: rows of the tables that hold several types of event, by type.
        parts: what each part said at its end.
        restarts: how often parts that died were started again, by name.
        next: commands to type next.
    """

    schema_version: int = SUMMARY_VERSION
    slackwater_version: str = __version__
    python_version: str = platform.python_version()
    run_id: str
    run_log: str
    status: str
    problems: list[str] = []
    failed_part: str | None = None
    last_lines: list[str] = []
    logs: str | None = None
    options: dict[str, Any]
    wall_s: float
    played_s: float | None
    requests: Row | None = None
    slo: dict[str, Row] = {}
    merges: Row | None = None
    decisions: list[Row] = []
    learners: list[Row] = []
    events: Row | None = None
    rows: dict[str, int] = {}
    types: dict[str, dict[str, int]] = {}
    parts: dict[str, Row] = {}
    restarts: dict[str, int] = {}
    next: list[str] = []


def summarize(plan: Plan, outcome: Outcome, query: Query | None, wall_s: float) -> Summary:
    """The summary of a run that has ended; `query` is None when it left no run log."""
    summary = Summary(
        run_id=plan.run_id,
        run_log=str(plan.db),
        status=outcome.status,
        options=msgspec.to_builtins(plan, enc_hook=str),
        wall_s=round(wall_s, 3),
        played_s=outcome.played_s,
        parts=outcome.summaries,
        restarts=outcome.restarts,
    )
    if query is not None:
        summary = msgspec.structs.replace(summary, **_figures(outcome, query))
        summary = msgspec.structs.replace(summary, next=next_commands(plan))
    return _judged(summary, outcome.failure)


def next_commands(plan: Plan) -> list[str]:
    """What to type to look closer."""
    names = ("slo", "timeline", "late_merges")
    db = shlex.quote(str(plan.db))
    coins = any(one.startswith(SWITCHBACK) for one in plan.assignments)
    judged = [f"{program()} switchback {db}"] if coins else []
    return [*judged, *(f"{program()} sql {name} --db {db}" for name in names)]


def _figures(outcome: Outcome, query: Query) -> dict[str, Any]:
    from sql import scripts

    rows_query = next(script.text for script in scripts("analyses") if script.name == "rows")
    rows = {row["table_name"]: row["row_count"] for row in query(rows_query)}
    skipped = {row["cause"]: row["reports"] for row in query(SKIPPED)}
    types: dict[str, dict[str, int]] = {"commands": {}, "merges": {}}
    for row in query(TYPES):
        types[row["name"]][row["type"]] = row["count"]
    return {
        "requests": next(iter(query(TOTALS)), None),
        "slo": {row["place"]: row for row in query(SLO)},
        "merges": query(MERGES)[0]
        | query(REPORTS)[0]
        | query(SKIPPED_MERGES)[0]
        | {"skipped": skipped},
        "decisions": query(DECISIONS),
        "learners": query(LEARNERS),
        "rows": rows,
        "types": types,
        "events": _events(outcome, rows, next(iter(query(HEALTH)), {})),
    }


def _events(outcome: Outcome, rows: dict[str, int], health: Row) -> Row:
    """Acknowledged against logged, for the replay and the learners apart."""
    logged = {
        "replay": rows["requests"] + rows["loads"],
        "learners": rows["learner_steps"] + rows["heartbeats"] + rows["merges"],
    }
    acked: dict[str, int | None] = {"replay": None, "learners": None}
    for name, said in outcome.summaries.items():
        kind = "replay" if name in SENDERS else "learners"
        if "acked" in said:
            acked[kind] = (acked[kind] or 0) + said["acked"]
    lost = [max(0, count - logged[kind]) for kind, count in acked.items() if count is not None]
    return {
        "acknowledged": acked,
        "logged": logged,
        "lost": sum(lost) if lost else None,
        "late": health.get("late_requests"),
        "dropped": health.get("dropped_events"),
        "dead": rows["dead_letters"],
    }


def _judged(summary: Summary, failure: PartError | None) -> Summary:
    """The summary with its problems named; a complete run that has some is a failed one."""
    problems = ([str(failure)] if failure else []) + _contradictions(summary)
    status = "failed" if problems and summary.status == "complete" else summary.status
    return msgspec.structs.replace(
        summary,
        status=status,
        problems=problems,
        failed_part=failure.part if failure else None,
        last_lines=failure.last_lines if failure else [],
    )


def _contradictions(summary: Summary) -> list[str]:
    """What a run that is to be called complete must not show."""
    if summary.status != "complete":
        return []
    if summary.merges is None or summary.events is None:
        return ["there is no run log"]
    counts = {
        "acknowledged events are not in the run log": summary.events["lost"],
        "dead letters: events that could not be read": summary.events["dead"],
        # A learner that died has left the merge that it was in without a word.
        UNFINISHED: (0 if summary.restarts else summary.merges["unfinished"]),
        "merges were made at different steps": summary.merges["step_mismatches"],
        "merges left different weights on the learners": summary.merges["digest_mismatches"],
        "merges exchanged other bytes than their parameters": summary.merges["byte_mismatches"],
    }
    found = [f"{count} {what}" for what, count in counts.items() if count]
    if summary.events["lost"] is None:
        found.append("nobody said how many events were acknowledged")
    return found
