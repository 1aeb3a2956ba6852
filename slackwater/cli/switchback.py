"""`slackwater switchback`: what the policy is worth, from the coins of switchback runs."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.errors import InputError

COUNTS = ("arriving", "in_service", "violations")


def switchback(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Run logs of slackwater stream --switchback, by file or by id (runs/ID.duckdb); "
            "one that is being written will do. Runs of several fleets are judged together.",
            show_default="the newest runs/*.duckdb",
        ),
    ] = None,
    count: Annotated[
        str,
        typer.Option(
            metavar="WHICH",
            help="Requests that a window harms: arriving (in it), in_service (those that are there "
            "as it opens too) or violations (those of them that missed the objective). Name one "
            "beforehand.",
        ),
    ] = "arriving",
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all of it as JSON.")
    ] = None,
) -> None:
    """Say what a policy is worth on live traffic, by coins; look as often as you like."""
    if count not in COUNTS:
        msg = f"--count is {count}; it must be {', '.join(COUNTS[:-1])} or {COUNTS[-1]}"
        raise InputError(msg)
    from slackwater.cli.evaluate_document import write
    from slackwater.cli.outputs import DOCUMENT, Output, check_outputs
    from slackwater.cli.report_logs import logs_of

    logs = logs_of(runs or [])
    check_outputs([Output("--json", json, DOCUMENT)], logs)
    from rich.console import Console

    from calibration.switchback import judge
    from slackwater.cli.switchback_logs import coined_runs
    from slackwater.cli.switchback_output import document, print_judged

    coined = coined_runs(logs, count)
    judged = judge([run.intervals for run in coined])
    print_judged(coined, judged, count, Console())
    if json is not None:
        write(json, document(coined, judged, count))
