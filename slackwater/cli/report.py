"""`slackwater report`: what the moments of live merges were worth, as a page from run logs."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.traffic_options import LeastGain, check_draws, check_least_gain, check_memory
from slackwater.errors import InputError
from slackwater.printable import printable


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Run logs, by file or by id (runs/ID.duckdb); one that is being written will do. "
            "Several runs of one policy are its evidence, one without merges on the same load is "
            "their control.",
            show_default="the newest runs/*.duckdb",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="The page.",
            show_default="beside the first log, its name with .html",
        ),
    ] = None,
    claim: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY", help="The one policy that a claim is about, named beforehand."
        ),
    ] = None,
    count: Annotated[
        str,
        typer.Option(
            metavar="WHICH",
            help="Requests that a window harms: arriving (in it), or in_service (those that are "
            "there as it opens too; merges have lengthened their stay).",
        ),
    ] = "arriving",
    draws: Annotated[int, typer.Option(help="Matched random schedules drawn for each run.")] = (
        10_000
    ),
    seed: Annotated[int, typer.Option(help="Seed of the draws.")] = 0,
    least_gain: LeastGain = 5.0,
) -> None:
    """Write a page on live runs: their merges beside as many at random moments."""
    if count not in {"arriving", "in_service"}:
        msg = f"--count is {count}; it must be arriving or in_service"
        raise InputError(msg)
    if seed < 0:
        msg = f"--seed is {seed}; it must be 0 or more"
        raise InputError(msg)
    check_least_gain(least_gain)
    check_draws(draws)
    from slackwater.cli.evaluate_report import write_page
    from slackwater.cli.outputs import REPORT, Output, check_outputs
    from slackwater.cli.report_document import Options, judge_logs
    from slackwater.cli.report_logs import logs_of

    logs = logs_of(runs or [])
    page = out or logs[0].with_suffix(".html")
    check_memory(draws, len(logs), 1)
    check_outputs([Output("--out", page, REPORT)], logs)
    fields, sentence = judge_logs(logs, Options(claim, count, draws, seed, least_gain))
    write_page("--out", page, fields)
    typer.echo(printable(sentence))
    typer.echo(printable(f"report: {page}"))
