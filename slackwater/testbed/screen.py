"""The live screen: one picture of the run, drawn in place a few times a second."""

from collections.abc import Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from slackwater.testbed.figures import NOT_YET, PASSED, gap_bar, number, percent, sparkline
from slackwater.testbed.plan import SLO_S
from slackwater.testbed.snapshot import Row, Snapshot
from slackwater.testbed.status import Status
from slackwater.testbed.supervisor import Phase

LABEL_WIDTH = 10
BAR_WIDTH = 18
SPARKS = 36
STARTING = (Phase.BROKER, Phase.STREAM, Phase.LEARNERS, Phase.REPLAY)


def picture(status: Status) -> RenderableType:
    """The whole screen for one moment; fits 80 columns and 24 lines for two learners."""
    body = Table.grid(padding=(0, 1))
    body.add_column(style="bold cyan", min_width=LABEL_WIDTH, no_wrap=True)
    body.add_column(ratio=1, overflow="ellipsis", no_wrap=True)
    for label, line in _rows(status):
        body.add_row(label, line)
    plan = status.plan
    speed = "" if plan.speed == 1 else f", 1 wall s = {plan.speed:g} event s"
    title = f"[bold]slackwater testbed[/]  {plan.source}{speed}, {plan.commander}"
    return Panel(
        Group(_progress(status), body), title=title, title_align="left", box=box.ROUNDED, width=None
    )


def _progress(status: Status) -> RenderableType:
    total_s = status.plan.duration_s
    played_s = min(status.played_s or 0.0, total_s)
    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(no_wrap=True)
    line.add_column(ratio=1)
    line.add_column(no_wrap=True, justify="right")
    bar = ProgressBar(total=total_s, completed=played_s)
    line.add_row(
        Text(status.phase, style="bold yellow" if status.phase in STARTING else "bold green"),
        bar,
        f"{played_s:.0f} of {total_s:.0f} {status.wall_s}",
    )
    return line


def _rows(status: Status) -> Iterator[tuple[str, RenderableType]]:
    seen = status.snapshot
    if seen is None:
        yield "", Text(f"{status.since_start_s:.0f} s: {status.phase} ...", style="dim")
        return
    yield from _traffic(status, seen)
    yield from _labelled(f"SLO {SLO_S:g} s", _slo(status, seen))
    yield from _labelled("learners", _learners(status, seen))
    yield from _labelled("decisions", _decisions(status, seen))
    yield from _labelled("merges", _merges(status, seen))
    yield "run log", _health(status, seen)


def _labelled(label: str, lines: Iterator[Text]) -> Iterator[tuple[str, Text]]:
    for index, line in enumerate(lines):
        yield "" if index else label, line


def _traffic(status: Status, seen: Snapshot) -> Iterator[tuple[str, Text]]:
    decision = seen.decision or {}
    per = f"/{status.event_s}"
    known = [v for v in (*seen.arrivals_per_s, *seen.forecast_per_s) if v is not None]
    top = max(known, default=0.0)
    # The newest bin is not over yet.
    yield (
        "arrivals",
        Text.assemble(
            (sparkline(seen.arrivals_per_s[-SPARKS:], top), "blue"),
            f" {number(seen.arrivals_per_s[-2], 1)}{per}, {number(seen.counts['requests'])} done",
        ),
    )
    yield (
        "forecast",
        Text.assemble(
            (sparkline(seen.forecast_per_s[-SPARKS:], top), "magenta"),
            f" {number(decision.get('rate_per_s'), 1)}{per}",
            f" ± {number(decision.get('rate_sd'), 1)}",
        ),
    )
    stale = decision.get("stale_signals")
    yield (
        "load",
        Text.assemble(
            f"{number(decision.get('in_flight'))} in flight, ",
            f"oldest signal {number(decision.get('signal_age_s'), 2, f' {status.event_s}')} old",
            (f", {stale} silent: stale" if stale else "", "bold red"),
        ),
    )


def _slo(status: Status, seen: Snapshot) -> Iterator[Text]:
    for place, name in (("inside", "inside windows"), ("outside", "outside")):
        row = seen.slo.get(place, {})
        count, requests = row.get("violations", 0), row.get("requests", 0)
        yield Text.assemble(
            f"{name:<14} ",
            (f"{count:>6,} of {requests:>8,} took over {SLO_S:g} {status.event_s}, "
             f"{percent(count, requests)}", "red" if count else ""),
        )  # fmt: skip


def _learners(status: Status, seen: Snapshot) -> Iterator[Text]:
    low, high = status.plan.min_gap_steps, status.plan.max_gap_steps
    never = status.plan.no_merges
    for row in seen.learners[:8]:
        gap = row["gap_steps"]
        may_merge = gap is not None and gap >= low
        state = f"{row['learner']} step {row['step']:,} loss {number(row['loss'], 3)} "
        bar = (gap_bar(gap, low, high, BAR_WIDTH), "green" if may_merge else "dim")
        again = status.restarts.get(row["learner"], 0)
        yield Text.assemble(
            state,
            *(() if never else (f"gap {number(gap):>4} ", bar)),
            (f" started again {again}x" if again else "", "bold yellow"),
        )
    if seen.learners and never:
        yield Text("nobody merges in this run", style="dim")
    elif seen.learners:
        ticks = f"{NOT_YET} or {PASSED} H_min {low}, end H_max {high}"
        yield Text(f"gap: steps since a merge; {ticks}", style="dim")
    else:
        yield Text("no step reported yet", style="dim")


def _decisions(status: Status, seen: Snapshot) -> Iterator[Text]:
    for row in seen.changes:
        yield Text.assemble(
            f"{number(row['since_start_s'], 1, ' s'):>8} ",
            (f"{row['action']:<5} ", "bold green" if row["action"] == "merge" else ""),
            f"{row['reason']:<22} gap {number(row['gap_steps']):>4},",
            f" {number(row['rate_per_s'], 1)}/{status.event_s}",
        )
    if seen.changes:
        clock = "" if status.plan.speed == 1 else "event "
        text = f"changes only, newest first; {clock}time since the stream job began"
        yield Text(text, style="dim")
    else:
        yield Text("none yet", style="dim")


def _merges(status: Status, seen: Snapshot) -> Iterator[Text]:
    counts = seen.merge_counts
    yield Text(
        f"{counts['commanded']} commanded, {counts['accepted']} accepted, "
        f"{counts['finished']} finished, {counts['skipped']} skipped, {counts['pending']} under way"
    )
    for row in seen.merges[:3]:
        yield _merge(row, status.event_s)


def _merge(row: Row, unit: str) -> Text:
    seconds = row["seconds"]
    state = (
        f"finished by {row['learners_finished']} of {row['learners']}"
        f" in {number(seconds, 2, f' {unit}')}"
        if row["learners_finished"]
        else "running"
        if row["started"]
        else f"skipped by {row['learners_skipped']}"
        if row["learners_skipped"]
        else "commanded"
    )
    return Text(f"  step {number(row['step'])} {state}, {row['reason']}")


def _health(status: Status, seen: Snapshot) -> Text:
    dead, late = seen.counts["dead"], seen.counts["late"]
    return Text.assemble(
        f"{number(status.lag_s, 1, f' {status.wall_s}')} behind, ",
        (f"{dead} dead letters", "bold red" if dead else ""),
        f", {late or 0} late (bin had closed)",
    )
