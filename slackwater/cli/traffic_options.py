"""Options that `evaluate`, `tune` and `plan` share: traffic, corridor, serving model, figures."""

import os
from pathlib import Path
from typing import Annotated

import typer

from slackwater.errors import InputError

DEFAULT_RUNS = 8
MIN_DRAWS = 100
BYTES_A_MERGE = 4
BYTES_A_DRAW = 8

Traces = Annotated[
    list[Path] | None, typer.Argument(help="Trace files, cut into runs of --segment seconds.")
]
Regimes = Annotated[
    list[str] | None,
    typer.Option(
        "--regime",
        metavar="NAME",
        help="Generate runs of a regime instead: ordinary, high_pressure, constant, bursty, "
        "aperiodic or uneven. May be given several times.",
    ),
]
Window = Annotated[
    float | None,
    typer.Option(help="Length of a merge window, seconds.", show_default="the profile's, else 8"),
]
MinGap = Annotated[
    float, typer.Option(help="Least gap from one merge's start to the next, seconds.")
]
MaxGap = Annotated[float, typer.Option(help="Largest such gap, seconds.")]
SegmentLength = Annotated[float, typer.Option("--segment", help="Length of a run, seconds.")]
Runs = Annotated[
    int | None,
    typer.Option(help=f"Independent runs of each regime ({DEFAULT_RUNS} without it)."),
]
Serving = Annotated[
    str,
    typer.Option(
        metavar="MODEL",
        help="What a window harms: overlap (requests that arrive or are in service in it), "
        "arrivals (those that arrive in it), queue (those it makes later, by its backlog too) "
        "or closed_loop (a batch client's).",
    ),
]
ProfileFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Calibration profile: the serving model's figures, SLO, window and effect of merges "
        "as measured on a real sidecar. Options win over it.",
    ),
]
ModelFigures = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A figure of the serving model, such as slots=4, slowdown=1.7 or batch_s=0.73. May "
        "be given several times.",
    ),
]
Slo = Annotated[
    float | None,
    typer.Option(
        help="Seconds above which a request violates.", show_default="the profile's, else 1"
    ),
]
LeastGain = Annotated[
    float,
    typer.Option(
        metavar="PERCENT",
        help="A gain of less than so much of what matched random harms is worth no claim.",
    ),
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="Leave out rows that cannot be used, and count them.")
]
Seed = Annotated[int, typer.Option(help="Seed of every random number.")]


def check_least_gain(percent: float) -> None:
    """Raise `InputError` for a least gain that is no share."""
    if not 0 <= percent < 100:
        msg = f"--least-gain is {percent:g}; it must be 0 or more, below 100"
        raise InputError(msg)


def check_draws(draws: int) -> None:
    """Raise `InputError` for fewer draws than have a 5th percentile."""
    if draws < MIN_DRAWS:
        msg = f"--draws is {draws}; an envelope needs {MIN_DRAWS} or more, 10000 as a rule"
        raise InputError(msg)


def check_memory(draws: int, runs: int, budget: int) -> None:
    """Raise `InputError` when so many draws of each run cannot be held in this machine's memory.

    Counts the least that they take: one envelope a run, of the smallest budget.
    """
    held = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    needed = runs * draws * (BYTES_A_DRAW + BYTES_A_MERGE * budget)
    if needed > held:
        msg = (
            f"--draws {draws} of {runs} runs take {needed / 1e9:,.0f} GB of memory or more, and "
            f"this machine has {held / 1e9:,.0f} GB; take fewer"
        )
        raise InputError(msg)


def check_traffic(
    traces: tuple[Path, ...], regimes: tuple[str, ...], runs: int | None, seed: int
) -> None:
    """Raise `InputError` where the options of traffic contradict each other."""
    if bool(traces) == bool(regimes):
        msg = "give trace files or --regime NAME, one of the two"
        raise InputError(msg)
    if traces and runs is not None:
        msg = "--runs is for regimes; a trace gives as many runs as it has segments (--segment)"
        raise InputError(msg)
    if runs is not None and runs < 1:
        msg = f"--runs is {runs}; it must be 1 or more, 6 or more for a claim"
        raise InputError(msg)
    if seed < 0:
        msg = f"--seed is {seed}; it must be 0 or more"
        raise InputError(msg)
    repeated = {str(item) for item in (*traces, *regimes) if (*traces, *regimes).count(item) > 1}
    if repeated:
        msg = f"{', '.join(sorted(repeated))} is given twice; runs that repeat are no evidence"
        raise InputError(msg)
