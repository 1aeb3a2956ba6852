"""Why a question by name has no rows, where the log itself says so."""

from pathlib import Path

LIVE = (
    *("slo", "slo_by_overlap", "slo_by_policy", "merge_agreement", "merge_windows"),
    *("merge_durations", "merge_times", "late_merges", "forced_in_vain", "timeline"),
    *("decision_timeline", "decisions_by_reason", "forecast", "forecast_vs_actual"),
)
"""Analyses and views that tell of live merges and decisions alone."""
RECOUNTED = ("envelope", "placement_gain", "sign_flip", "excess_violation")
"""Those that count the costs of schedules again."""
KINDS = """
SELECT
    count(*) AS runs,
    count(*) FILTER (WHERE evaluation_of(settings) IS NOT NULL) AS evaluated,
    count(*) FILTER (WHERE evaluation_of(settings) ->> '$.counting' IS NOT NULL) AS recounted
FROM runs
"""


def why_no_rows(name: str, db: Path) -> str | None:
    """What to know of an analysis or view without rows; None where its log does not tell."""
    if name not in (*LIVE, *RECOUNTED, "matched_random_envelope"):
        return None
    from slackwater.livequery import query

    (kinds,) = query(db, KINDS).to_pylist()
    live = kinds["runs"] - kinds["evaluated"]
    if name in LIVE and kinds["evaluated"] and not live:
        return (
            f"{name} tells of live merges, and all runs here are of slackwater evaluate; ask "
            "placement_gain, envelope, sign_flip, excess_violation or harm"
        )
    if name == "matched_random_envelope" and not kinds["evaluated"]:
        return f"{name} tells of evaluations, and none is here: slackwater evaluate --db makes one"
    if name in RECOUNTED and kinds["evaluated"] and not live and not kinds["recounted"]:
        return (
            f"{name} counts again what the serving models overlap and arrivals say; ask the table "
            "placements"
        )
    return None
