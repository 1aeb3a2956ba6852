"""What the metrics show of the events and decisions that pass: one function an event type."""

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Any

from slackwater.clock import US_PER_S
from slackwater.events import Bins, Decision, Finished, MergeReport, Request
from streams.metrics import Metrics


def watch_events(metrics: Metrics, events: Sequence[Any]) -> None:
    """Show the events of one message."""
    if not events:
        return
    if isinstance(events[0], MergeReport):
        _watch_reports(metrics, events)
    elif isinstance(events[0], Bins):
        _watch_bins(metrics, events)
    else:
        _watch_requests(metrics, events)


def watch_decisions(metrics: Metrics, decisions: Sequence[Decision]) -> None:
    """Count decisions, and show the newest one of the active policy."""
    for (group, policy, action, reason), number in Tally(
        (d.group, d.policy, d.action, d.reason) for d in decisions
    ).items():
        metrics.count("decisions", number, group=group, policy=policy, action=action, reason=reason)
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


def _watch_requests(metrics: Metrics, events: Sequence[Any]) -> None:
    tally = Tally((e.sidecar, e.status) for e in events if isinstance(e, Request))
    for (sidecar, status), number in tally.items():
        metrics.count("requests", number, sidecar=sidecar, status=status)


def _watch_bins(metrics: Metrics, events: Sequence[Bins]) -> None:
    for bins in events:
        for row in bins.rows:
            metrics.set("request_rate", row.finished / bins.bin_s, sidecar=row.sidecar)


def _watch_reports(metrics: Metrics, reports: Sequence[MergeReport]) -> None:
    for report in reports:
        phase = type(report).__name__.lower()
        metrics.count("merges", group=report.group, phase=phase)
        if isinstance(report, Finished):
            metrics.observe("merge_seconds", report.seconds, group=report.group)


def watch_delay(metrics: Metrics, group: str, now_us: int, watermark_us: int | None) -> None:
    """Show how far the group's watermark is behind event time; nothing where there is none."""
    if watermark_us is None:
        metrics.forget("watermark_delay_seconds", group=group)
    else:
        metrics.set("watermark_delay_seconds", (now_us - watermark_us) / US_PER_S, group=group)
