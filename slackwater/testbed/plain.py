"""The run as plain lines, one every few seconds, for logs and terminals that cannot redraw."""

from slackwater.testbed.figures import number
from slackwater.testbed.status import Status


def line(status: Status) -> str:
    """The run's state in one line."""
    where = f"{status.since_start_s:5.0f} s  {status.phase}"
    seen = status.snapshot
    if seen is None:
        return where
    decision = seen.decision or {}
    merges = seen.merge_counts
    losses = " ".join(number(row["loss"], 2) for row in seen.learners)
    facts = [
        f"{where} {min(status.played_s or 0, status.plan.duration_s):.0f}"
        f" of {status.plan.duration_s:.0f} s",
        f"{seen.counts['requests']:,} requests at {number(seen.arrivals_per_s[-2], 1)}/s"
        f" (forecast {number(decision.get('rate_per_s'), 1)}/s)",
        f"{number(decision.get('in_flight'))} in flight",
        f"violations {seen.slo.get('inside', {}).get('violations', 0)} inside"
        f" {seen.slo.get('outside', {}).get('violations', 0)} outside windows",
        f"gap {number(decision.get('gap_steps'))}: {decision.get('reason', 'no decision yet')}",
        f"merges {merges['commanded']} commanded {merges['finished']} finished",
        f"loss {losses or number(None)}",
        f"lag {number(status.lag_s, 1, ' s')}",
        f"dead {seen.counts['dead']}",
    ]
    return ", ".join(facts)
