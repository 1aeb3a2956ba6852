"""The summary as a person reads it: one table, where the run log is, what to type next."""

from collections.abc import Iterator

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from slackwater.testbed.figures import number, percent
from slackwater.testbed.snapshot import Row
from slackwater.testbed.summary import Summary

STYLES = {"complete": "bold green", "failed": "bold red", "interrupted": "bold yellow"}
# As `slackwater sql health` says it: status and status_reason.
WORDS = {"interrupted": "failed / interrupted"}


def print_summary(console: Console, summary: Summary) -> None:
    """Print the summary; what went wrong is on stderr, by `problem_lines`."""
    table = Table(box=box.ROUNDED, show_header=False, title_justify="left")
    table.title = Text.assemble(f"run {summary.run_id}  ", _status(summary.status))
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _rows(summary):
        table.add_row(label, value)
    console.print(table)
    if summary.next:
        for line in (f"run log: {summary.run_log}", "next:", *summary.next):
            # One line each, however long: these are for copying.
            console.print(line, soft_wrap=True, markup=False, highlight=False)


def problem_lines(summary: Summary) -> list[str]:
    """What failed, its last words and where its log is, for stderr."""
    lines = [f"slackwater: {problem}" for problem in summary.problems]
    if summary.failed_part and summary.last_lines:
        lines += [f"  {summary.failed_part}: {line}" for line in summary.last_lines]
    if summary.logs:
        lines.append(f"  logs of all parts: {summary.logs}")
    return lines


def _status(status: str) -> tuple[str, str]:
    return WORDS.get(status, status), STYLES[status]


def _rows(summary: Summary) -> Iterator[tuple[str, str]]:
    replay = "" if summary.played_s is None else f", {summary.played_s:.0f} s of them the replay"
    yield "lasted", f"{summary.wall_s:.0f} s{replay}"
    if (profile := summary.options.get("profile")) is not None:
        slower = number(summary.options["slowdown"], 2)
        yield "profile", f"{profile}: modelled sidecars {slower} times slower in a merge"
    if summary.merges is None or summary.events is None:
        return
    totals = summary.requests or {}
    yield (
        "requests",
        f"{number(totals.get('requests', 0))}, p50 {number(totals.get('p50_s'), 3, ' s')}, "
        f"p95 {number(totals.get('p95_s'), 3, ' s')}",
    )
    slo = number(totals.get("slo_s"), 1, " s")
    for place in ("inside", "outside"):
        yield f"SLO {slo} {place}", _slo(summary.slo.get(place, {}))
    clock = "" if summary.options["speed"] == 1 else " of event time"
    yield from _merges(summary.merges, clock)
    reasons = [
        f"{row['decisions']:>6,} {row['action']:<5} {row['reason']}" for row in summary.decisions
    ]
    yield "decisions", "\n".join(reasons) or "none"
    for row in summary.learners:
        losses = f"loss {number(row['first_loss'], 3)} to {number(row['loss'], 3)}"
        yield row["learner"], f"{number(row['steps'])} steps, {losses}"
    if summary.restarts:
        again = (f"{name} {_plural(n, 'time')}" for name, n in summary.restarts.items())
        left = summary.merges["unfinished"]
        yield "started again", f"{', '.join(again)}; {_plural(left, 'merge')} left without a word"
    events = summary.events
    yield (
        "events",
        f"{number(events['lost'])} lost, {number(events['dead'])} dead, "
        f"{number(events['late'])} late (after their bin had closed)",
    )
    yield "rows", ", ".join(_table(summary, name) for name, n in summary.rows.items() if n)


def _table(summary: Summary, name: str) -> str:
    """`commands 12 (11 merge, 1 pause)`: what several types of event add up to."""
    types = [f"{count:,} {kind}" for kind, count in summary.types.get(name, {}).items()]
    return f"{name} {summary.rows[name]:,}" + (f" ({', '.join(types)})" if types else "")


def _slo(row: Row) -> str:
    requests, violations = row.get("requests", 0), row.get("violations", 0)
    rate = row.get("violation_rate")
    return (
        f"{violations:,} violations of {requests:,} requests "
        f"({percent(rate, 1) if rate is not None else number(None)}), "
        f"p95 {number(row.get('p95_s'), 3, ' s')}"
    )


def _merges(merges: Row, clock: str) -> Iterator[tuple[str, str]]:
    yield (
        "merges",
        f"{merges['commanded']} commanded, {merges['finished_by_all']} finished by every learner, "
        f"{merges['forced_at_h_max']} of them forced at H_max",
    )
    skipped = merges["skipped"]
    if skipped:
        yield "skipped", _skipped(skipped, merges["skipped_merges"])
    if not merges["bytes_expected"]:
        return
    median, longest = (number(merges[name], 2, " s") for name in ("median_s", "longest_s"))
    yield (
        "exchanged",
        f"{merges['bytes_exchanged'] / 1e6:,.1f} MB, {merges['bytes_expected'] / 1e6:,.1f} MB by "
        f"the parameters ({number(merges['parameters'])}); median merge {median}, "
        f"longest {longest}{clock}",
    )
    if merges["finished_by_all"]:
        yield "weights", _weights(merges["digest_mismatches"])


def _skipped(reports: dict[str, int], merges: int) -> str:
    """`2 reports (1 merge): 1 late, 1 peer_skipped`."""
    count = sum(reports.values())
    causes = ", ".join(f"{number} {cause}" for cause, number in reports.items())
    return f"{_plural(count, 'report')} ({_plural(merges, 'merge')}): {causes}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _weights(mismatches: int) -> str:
    if mismatches:
        return f"different after {mismatches} merges"
    return "equal on all learners after every merge"
