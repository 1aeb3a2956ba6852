"""`slackwater reproduce`: the paper's five regimes, our figures beside the published ones."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.errors import InputError


def reproduce(
    runs: Annotated[
        int, typer.Option(help="Independent runs of each regime, 600 s each; 6 or more for p.")
    ] = 12,
    draws: Annotated[
        int,
        typer.Option(
            help="Matched random schedules served for each run and budget; a fortieth of them "
            "in the regimes of open arrivals."
        ),
    ] = 2000,
    seed: Annotated[int, typer.Option(help="Seed of every random number, 0 or more.")] = 0,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write all figures and the arms behind them as JSON."),
    ] = None,
) -> None:
    """Measure the paper's five regimes and print ours beside its figures."""
    from slackwater.cli.evaluate_document import write
    from slackwater.cli.outputs import DOCUMENT, Output, check_outputs

    _check(runs, draws, seed)
    check_outputs([Output("--json", json, DOCUMENT)])
    from rich.console import Console

    from calibration.published import REGIMES
    from slackwater.cli.evaluate_output import progress
    from slackwater.cli.reproduce_job import reproduce_regimes
    from slackwater.cli.reproduce_output import document, lines_of, table_of

    with progress(len(REGIMES) * runs) as advance:
        reproduced = list(reproduce_regimes(runs, draws, seed, advance))
    console = Console()
    console.print(table_of(reproduced), highlight=False)
    for line in lines_of(reproduced):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if json is not None:
        write(json, document(runs, draws, seed, reproduced))


def _check(runs: int, draws: int, seed: int) -> None:
    for name, value, least, usual in (
        ("--runs", runs, 1, ", 6 or more for p"),
        ("--draws", draws, 1, ", 2000 as a rule"),
        ("--seed", seed, 0, ""),
    ):
        if value < least:
            msg = f"{name} is {value}; it must be {least} or more{usual}"
            raise InputError(msg)
