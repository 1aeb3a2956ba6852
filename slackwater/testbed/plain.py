"""The run as plain lines, one every few seconds, for logs and terminals that cannot redraw."""

from collections.abc import Iterator

from slackwater.testbed.figures import number
from slackwater.testbed.snapshot import Snapshot
from slackwater.testbed.status import Status


def has_figures(status: Status) -> bool:
    """True once a request is logged: before that, figures would be nothing but dashes."""
    return status.snapshot is not None and status.snapshot.counts["requests"] > 0


def line(status: Status) -> str:
    """The run's state in one line; what is not known yet is left out."""
    where = f"{status.since_start_s:5.0f} s  {status.phase}"
    if status.snapshot is None or not has_figures(status):
        return where
    total_s = status.plan.duration_s
    played = f"{min(status.played_s or 0, total_s):.0f} of {total_s:.0f} {status.wall_s}"
    return ", ".join([f"{where} {played}", *_facts(status, status.snapshot)])


def _facts(status: Status, seen: Snapshot) -> Iterator[str]:
    unit = status.event_s
    arrivals = seen.arrivals_per_s[-2]
    yield f"{seen.counts['requests']:,} requests" + (
        "" if arrivals is None else f" at {number(arrivals, 1)}/{unit}"
    )
    decision = seen.decision
    if decision is not None and decision["rate_per_s"] is not None:
        yield f"forecast {number(decision['rate_per_s'], 1)}/{unit}"
    if decision is not None and decision["in_flight"] is not None:
        yield f"{number(decision['in_flight'])} in flight"
    yield (
        f"violations {seen.slo.get('inside', {}).get('violations', 0)} inside"
        f" {seen.slo.get('outside', {}).get('violations', 0)} outside windows"
    )
    if decision is not None:
        yield f"gap {number(decision['gap_steps'])}: {decision['action']} {decision['reason']}"
    merges = seen.merge_counts
    yield f"merges {merges['commanded']} commanded {merges['finished']} finished"
    if losses := [number(row["loss"], 2) for row in seen.learners if row["loss"] is not None]:
        yield f"loss {' '.join(losses)}"
    if status.restarts:
        yield "started again: " + ", ".join(f"{k} {n}" for k, n in status.restarts.items())
    if status.lag_s is not None:
        yield f"lag {number(status.lag_s, 1)} {status.wall_s}"
    if seen.counts["dead"]:
        yield f"dead letters {seen.counts['dead']}"
