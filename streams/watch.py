"""What the metrics show of the events and decisions that pass: one function an event type."""

import logging
from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any

from controller.counting import Counted
from slackwater.clock import US_PER_S
from slackwater.events import (
    Bins,
    Decision,
    Finished,
    MergeCommand,
    MergeReport,
    Request,
    Skipped,
)
from slackwater.topics import REQUESTS
from streams.metrics import Metrics

log = logging.getLogger(__name__)

OBSTACLE_S = 10
OBSTACLES = {
    "learners_missing": "fewer learners report than --expect-learners; H_max alone merges",
    "step_time_unknown": "a learner has not reported two steps yet; H_max alone merges",
    "signal_stale": "a sidecar is silent, its load unknown; {fallback}",
    "load_unknown": "no sidecar has been heard; {fallback}",
}


def watch_counted(metrics: Metrics, events: Sequence[Any], counted: Counted) -> None:
    """Count the requests of one message, by the one process that counts them."""
    tally = Tally((e.sidecar, e.status) for e in events if isinstance(e, Request))
    for (sidecar, status), number in tally.items():
        metrics.count("requests", number, sidecar=sidecar, status=status)
    if counted.late:
        metrics.count("late_events", len(counted.late), topic=REQUESTS.kind)
    if counted.repeated:
        metrics.count("repeated_events", len(counted.repeated), topic=REQUESTS.kind)


def watch_bins(metrics: Metrics, bins: Bins) -> None:
    """Show each sidecar's rate in its newest bin."""
    for row in bins.rows:
        metrics.set("request_rate", row.finished / bins.bin_s, sidecar=row.sidecar)


def watch_reports(metrics: Metrics, events: Sequence[Any]) -> None:
    """Count what learners report of merges; other events are nothing to it."""
    for report in events:
        if not isinstance(report, MergeReport):
            continue
        phase = type(report).__name__.lower()
        metrics.count("merges", group=report.group, phase=phase)
        if isinstance(report, Finished):
            metrics.observe("merge_seconds", report.seconds, group=report.group)
        if isinstance(report, Finished | Skipped):
            _say_report(report, phase)


def _say_report(report: MergeReport, phase: str) -> None:
    text = "%s %s %s at step %d (%s)"
    log.info(text, report.learner, phase, report.merge_id, report.step, report.reason)


def watch_command(command: MergeCommand) -> None:
    """Say that a merge was commanded."""
    names = ", ".join(command.participants)
    where = f"step {command.at_step}"
    if command.moment_us is not None:
        ahead_s = (command.moment_us - command.at_us) / US_PER_S
        where = f"each one's first step from {ahead_s:.3f} s on"
    log.info("merge %s at %s for %s (%s)", command.merge_id, where, names, command.reason)


def watch_decisions(metrics: Metrics, decisions: Sequence[Decision]) -> None:
    """Count decisions, and show the newest one of the active policy."""
    tally = Tally((d.group, d.policy, d.active, d.action, d.reason) for d in decisions)
    for (group, policy, active, action, reason), number in tally.items():
        by = {"group": group, "policy": policy, "action": action, "reason": reason}
        metrics.count("decisions", number, active=str(active).lower(), **by)
    newest = next((d for d in reversed(decisions) if d.active), None)
    if newest is not None:
        _watch_newest(metrics, newest)


def _watch_newest(metrics: Metrics, decision: Decision) -> None:
    overlap = decision.candidates.overlap[0] if decision.candidates else None
    figures = {
        "forecast_rate": decision.rate_per_s,
        "forecast_overlap_requests": overlap,
        "signal_age_seconds": decision.signal_age_s,
        "gap_steps": decision.gap_steps,
    }
    for name, value in figures.items():
        if value is None:
            metrics.forget(name, group=decision.group)
        else:
            metrics.set(name, value, group=decision.group)
    metrics.set("stale_sidecars", len(decision.stale), group=decision.group)


def _obstacle(cause: str, fallback: str) -> str:
    """What stands in the policy's way, and what decides instead."""
    name = fallback.partition(":")[0]
    instead = f"{name} decides instead" if name else "H_max alone merges"
    return OBSTACLES[cause].format(fallback=instead)


class Obstacles:
    """Says so, once, when the active policy cannot do its work for a while."""

    def __init__(self) -> None:
        self._since: tuple[str, int] | None = None
        self._said = False

    def watch(self, decisions: Sequence[Decision]) -> None:
        """Follow the active policy's reasons."""
        for decision in decisions:
            cause, _, fallback = decision.reason.partition(":")
            if not decision.active or cause not in OBSTACLES:
                if decision.active:
                    self._since = None
                continue
            if self._since is None or self._since[0] != cause:
                self._since, self._said = (cause, decision.at_us), False
            elif not self._said and decision.at_us - self._since[1] > OBSTACLE_S * US_PER_S:
                self._said = True
                detail = f" ({', '.join(decision.stale)})" if decision.stale else ""
                text = "no merge by policy for %d s: %s%s"
                log.warning(text, OBSTACLE_S, _obstacle(cause, fallback), detail)


def watch_delay(metrics: Metrics, group: str, now_us: int, watermark_us: int | None) -> None:
    """Show how far the group's watermark is behind event time; nothing where there is none."""
    if watermark_us is None:
        metrics.forget("watermark_delay_seconds", group=group)
    else:
        metrics.set("watermark_delay_seconds", (now_us - watermark_us) / US_PER_S, group=group)
