"""`slackwater evaluate`: what placement was worth, for each policy, on traces or regimes."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.errors import InputError

DEFAULT_RUNS = 8


def evaluate(
    trace: Annotated[
        list[Path] | None, typer.Argument(help="Trace files, cut into runs of --segment seconds.")
    ] = None,
    regime: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Generate runs of a regime instead: ordinary, high_pressure, constant, bursty or "
            "aperiodic. May be given several times.",
        ),
    ] = None,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help="Policies to run: fixed_h, adaptive_tokens, adaptive_load, pressure_gate, "
            "random_deferral, wa_diloco, wa_forecast, slack. Without it all.",
        ),
    ] = None,
    claim: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="The one policy that a claim is about, named beforehand; the others are "
            "corrected for how many there are. Without it all are.",
        ),
    ] = None,
    window: Annotated[float, typer.Option(help="Length of a merge window, seconds.")] = 8.0,
    min_gap: Annotated[
        float, typer.Option(help="Least gap from one merge's start to the next, seconds.")
    ] = 18.0,
    max_gap: Annotated[float, typer.Option(help="Largest such gap, seconds.")] = 72.0,
    segment: Annotated[float, typer.Option(help="Length of a run, seconds.")] = 600.0,
    runs: Annotated[
        int | None,
        typer.Option(help=f"Independent runs of each regime ({DEFAULT_RUNS} without it)."),
    ] = None,
    draws: Annotated[
        int, typer.Option(help="Matched random schedules drawn for each run and budget.")
    ] = 10_000,
    serving: Annotated[
        str,
        typer.Option(
            metavar="MODEL",
            help="What a window harms: overlap (requests that arrive or are in service in it), "
            "arrivals (those that arrive in it), queue (those it makes later, by its backlog too) "
            "or closed_loop (a batch client's).",
        ),
    ] = "overlap",
    seed: Annotated[int, typer.Option(help="Seed of every random number.")] = 0,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every run's figures and the verdicts as JSON."),
    ] = None,
) -> None:
    """Say whether placement was worth anything, or a policy only merged less often.

    Each policy's cost is set beside that of random schedules with as many merges.
    """
    traces, regimes = tuple(trace or ()), tuple(regime or ())
    _check(traces, regimes, runs, seed)
    from slackwater.cli.evaluate_document import check_writable, document, write

    check_writable(json)
    from rich.console import Console

    from slackwater.cli.evaluate_job import Evaluation, Job
    from slackwater.cli.evaluate_output import print_group, progress

    evaluation = Evaluation(
        Job(
            traces=traces,
            regimes=regimes,
            policies=tuple(name.strip() for name in policies.split(",")) if policies else (),
            claim=claim,
            window_s=window,
            min_gap_s=min_gap,
            max_gap_s=max_gap,
            segment_s=segment,
            runs=DEFAULT_RUNS if runs is None else runs,
            draws=draws,
            serving=serving,
            seed=seed,
        )
    )
    with progress(evaluation.total_runs) as advance:
        groups = list(evaluation.groups(advance))
    console = Console()
    for group in groups:
        print_group(group, claim, console)
    if json is not None:
        write(json, document(evaluation, groups))


def _check(traces: tuple[Path, ...], regimes: tuple[str, ...], runs: int | None, seed: int) -> None:
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
