"""The summary of a load client: one table for people, one JSON object for programs."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from sidecar.load.summary import Quantiles, Summary

WAYS = {
    "ok": "finished",
    "aborted": "aborted",
    "timeout": "timed out",
    "error": "failed",
    "dropped": "dropped",
}


def print_summary(name: str, summary: "Summary", *, as_json: bool) -> None:
    """Print what was sent, what became of it and how long it took."""
    import msgspec

    if as_json:
        built = msgspec.to_builtins(summary)
        typer.echo(msgspec.json.encode({"name": name, **built}).decode())
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.ROUNDED, show_header=False, title_justify="left", title=f"load {name}")
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _rows(summary):
        table.add_row(label, Text(value))
    Console(highlight=False).print(table)


def _rows(summary: "Summary") -> Iterator[tuple[str, str]]:
    from slackwater.printable import printable
    from slackwater.testbed.figures import number

    report = summary.report
    yield "lasted", f"{report.lasted_s:.1f} s"
    parts = " + ".join(f"{report.ended[way]:,} {word}" for way, word in WAYS.items())
    yield "requests", f"{report.scheduled:,} scheduled = {parts}"
    yield "end to end", _figures(summary.e2e)
    yield "first token", _figures(summary.ttft)
    if summary.batch.count:
        yield "batch", _figures(summary.batch)
    yield "client lag", _figures(summary.lag)
    yield (
        "tokens",
        f"{number(summary.prompt_tokens)} in, {number(summary.output_tokens)} out, "
        "by the server's count",
    )
    cpu = number(summary.client_cpu_ms_a_request, 2, " ms")
    yield "client CPU", f"{cpu} a request, {report.client_cpu_s:.2f} s in all"
    for error, count in summary.errors.items():
        yield "went wrong", f"{count:,} x {printable(error)}"


def _figures(of: "Quantiles") -> str:
    from slackwater.testbed.figures import number

    named = (("p50", of.p50_s), ("p95", of.p95_s), ("p99", of.p99_s), ("max", of.max_s))
    return ", ".join(f"{name} {number(value, 3, ' s')}" for name, value in named)
