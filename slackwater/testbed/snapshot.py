"""What the screen shows of a run, read from its run log by SQL while it is written."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from slackwater.clock import US_PER_S

BINS = 60
RECENT = 5

Row = dict[str, Any]
Query = Callable[[str], list[Row]]

SLO = "SELECT place, requests, violations FROM slo_by_overlap"

DECISION = """
SELECT policy, action, reason, rate_per_s, rate_sd, in_flight, signal_age_s, gap_steps, step,
    len(stale) AS stale_signals
FROM stg_decisions WHERE active ORDER BY decided_us DESC LIMIT 1
"""

CHANGES = f"""
SELECT since_start_s, action, reason, gap_steps, rate_per_s, in_flight FROM (
    SELECT *, lag((action, reason)) OVER (ORDER BY decided) AS before
    FROM decision_timeline WHERE active AND reason <> 'merge_pending'
)
WHERE (action, reason) IS DISTINCT FROM before ORDER BY decided DESC LIMIT {RECENT}
"""  # noqa: S608

MERGES = f"""
SELECT merge_id, reason, coalesce(step, at_step) AS step, learners, learners_finished,
    learners_skipped, seconds, started IS NOT NULL AS started
FROM merge_windows ORDER BY coalesce(started, commanded) DESC LIMIT {RECENT}
"""  # noqa: S608

MERGE_COUNTS = """
SELECT
    count(commanded_us) AS commanded,
    count(*) FILTER (WHERE complete) AS finished,
    count(*) FILTER (WHERE finished = 0 AND skipped > 0) AS skipped
FROM stg_windows
"""

# Who has stepped beyond a merge is not in it any more, even when it never said how it ended: its
# process has died and another goes by its name.
PENDING = """
WITH
    due AS (
        SELECT merge_id, learner, max(step) AS step, max(moment_us) AS moment_us FROM (
            SELECT merge_id, unnest(participants) AS learner, at_step AS step, moment_us
            FROM commands WHERE type = 'merge'
            UNION ALL
            SELECT merge_id, learner, step, moment_us FROM merges
            WHERE type IN ('accepted', 'started')
        )
        GROUP BY ALL
    ),
    beyond AS (
        SELECT learner, arg_max(step, at_us) AS step FROM learner_steps GROUP BY learner
    )
SELECT count(DISTINCT merge_id) AS pending
FROM due
ANTI JOIN (SELECT * FROM merges WHERE type IN ('finished', 'skipped')) AS settled
    USING (merge_id, learner)
LEFT JOIN beyond USING (learner)
WHERE CASE
    WHEN due.moment_us IS NULL THEN beyond.step IS NULL OR beyond.step <= due.step
    -- The first step at or after the moment is the one to merge at.
    ELSE (
        SELECT count(*) FROM learner_steps AS s
        WHERE s.learner = due.learner AND s.at_us >= due.moment_us
    ) <= 1
END
"""

ACCEPTED = "SELECT count(DISTINCT merge_id) AS accepted FROM merges WHERE type = 'accepted'"

LEARNERS = """
SELECT learner, max(step) AS step, arg_max(loss, step) AS loss, arg_min(loss, step) AS first_loss,
    arg_max(steps_since_merge, step) AS gap_steps
FROM learner_steps GROUP BY learner ORDER BY learner
"""

HEALTH = """
SELECT
    (SELECT count(*) FROM requests) AS requests,
    (SELECT count(*) FROM loads) AS loads,
    (SELECT count(*) FROM learner_steps) AS learner_steps,
    (SELECT count(*) FROM heartbeats) AS heartbeats,
    (SELECT count(*) FROM merges) AS merges,
    (SELECT count(*) FROM dead_letters) AS dead,
    (SELECT count(*) FILTER (WHERE late) FROM requests) AS late,
    (SELECT min(at_us) FROM loads) AS oldest_us,
    (SELECT max(at_us) FROM loads) AS newest_us
"""

# Bins count back from the newest sign of life of a sidecar.
TRAFFIC = """
WITH newest AS (SELECT max(at_us) AS us FROM loads)
SELECT (us - arrival_us) // {bin_us} AS age, count(*) AS arrivals
FROM requests, newest WHERE arrival_us > us - {span_us} AND arrival_us <= us GROUP BY age
"""
FORECAST = """
WITH newest AS (SELECT max(at_us) AS us FROM loads)
SELECT (us - at_us) // {bin_us} AS age, avg(rate_per_s) AS rate_per_s
FROM decisions, newest
WHERE active AND at_us > us - {span_us} AND at_us <= us GROUP BY age
"""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look at the run log.

    Attributes:
        slo: requests and violations by place, `inside` and `outside` of merge windows.
        decision: the newest decision of the policy that commands, None before the first.
        changes: its latest changes of mind, newest first; not its waits for a merge under way.
            Their `since_start_s` is that of the views: event seconds since the stream job began.
        merges: the latest merges, newest first.
        merge_counts: commanded, accepted, finished, skipped and pending merges.
        learners: step, loss and gap of each.
        counts: rows by kind, with `dead` and `late`, and `newest_us`, the newest sign of life of a
            sidecar that is logged.
        arrivals_per_s: arrivals in the last `BINS` bins, oldest first; None before any sidecar was
            heard of.
        forecast_per_s: the forecast in the same bins; None where there was none.
    """

    slo: dict[str, Row]
    decision: Row | None
    changes: list[Row]
    merges: list[Row]
    merge_counts: Row
    learners: list[Row]
    counts: Row
    arrivals_per_s: list[float | None]
    forecast_per_s: list[float | None]


def take(query: Query, speed: float) -> Snapshot:
    """Read one snapshot; a bin of the traffic is one wall second. Raises what `query` raises."""
    bin_us = round(speed * US_PER_S)
    span = {"bin_us": bin_us, "span_us": BINS * bin_us}
    arrivals = {row["age"]: row["arrivals"] / speed for row in query(TRAFFIC.format(**span))}
    forecast = {row["age"]: row["rate_per_s"] for row in query(FORECAST.format(**span))}
    ages = range(BINS - 1, -1, -1)
    counts = query(HEALTH)[0]
    first_age = (counts["newest_us"] - counts["oldest_us"]) // bin_us if counts["loads"] else -1
    return Snapshot(
        slo={row["place"]: row for row in query(SLO)},
        decision=next(iter(query(DECISION)), None),
        changes=query(CHANGES),
        merges=query(MERGES),
        merge_counts=query(MERGE_COUNTS)[0] | query(ACCEPTED)[0] | query(PENDING)[0],
        learners=query(LEARNERS),
        counts=counts,
        arrivals_per_s=[arrivals.get(age, 0.0) if age <= first_age else None for age in ages],
        forecast_per_s=[forecast.get(age) for age in ages],
    )


def brief(query: Query, speed: float) -> Snapshot:  # noqa: ARG001 - as `take`
    """Counts alone: all that a supervisor needs. Raises what `query` raises."""
    return Snapshot(
        slo={},
        decision=None,
        changes=[],
        merges=[],
        merge_counts=query(MERGE_COUNTS)[0] | query(PENDING)[0],
        learners=[],
        counts=query(HEALTH)[0],
        arrivals_per_s=[],
        forecast_per_s=[],
    )
