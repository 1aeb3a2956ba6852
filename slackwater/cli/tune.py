"""`slackwater tune`: a policy's parameters, searched on the training traffic named and no other."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.traffic_options import (
    DEFAULT_RUNS,
    MaxGap,
    MinGap,
    ModelFigures,
    ProfileFile,
    Regimes,
    Runs,
    Seed,
    SegmentLength,
    Serving,
    SkipBad,
    Slo,
    Traces,
    Window,
    check_traffic,
)


def tune(
    output: Annotated[
        Path, typer.Option(metavar="FILE", help="Write the settings found, and how, as JSON.")
    ],
    trace: Traces = None,
    regime: Regimes = None,
    skip_bad: SkipBad = False,
    policy: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Whose parameters: slack, wa_diloco, wa_forecast or pressure_gate."
        ),
    ] = "slack",
    candidates: Annotated[
        int, typer.Option(help="Random candidates beside the default settings.")
    ] = 32,
    rounds: Annotated[
        int, typer.Option(help="Rounds of looking around the best, parameter by parameter.")
    ] = 4,
    folds: Annotated[
        int, typer.Option(help="Folds of cross-validation over the training runs; 0 for none.")
    ] = 4,
    window: Window = None,
    min_gap: MinGap = 18.0,
    max_gap: MaxGap = 72.0,
    segment: SegmentLength = 600.0,
    runs: Runs = None,
    serving: Serving = "overlap",
    profile: ProfileFile = None,
    model: ModelFigures = None,
    slo: Slo = None,
    seed: Seed = 0,
) -> None:
    """Search a policy's parameters for the largest gain over random schedules with as many merges.

    Sees the traffic named here alone; `evaluate --settings FILE` then judges them on other traffic.
    """
    traces, regimes = tuple(trace or ()), tuple(regime or ())
    check_traffic(traces, regimes, runs, seed)
    from slackwater.cli.outputs import TUNED, Output, check_outputs, write_output

    check_outputs([Output("--output", output, TUNED)], (*traces, profile))
    from rich.console import Console

    from calibration.tuning.tuned import encode_tuned
    from slackwater.cli.evaluate_output import print_reading, progress
    from slackwater.cli.tune_job import TuneJob, Tuning
    from slackwater.cli.tune_output import print_tuned, told

    tuning = Tuning(
        TuneJob(
            traces=traces,
            regimes=regimes,
            skip_bad=skip_bad,
            policy=policy,
            candidates=candidates,
            rounds=rounds,
            folds=folds,
            window_s=window,
            min_gap_s=min_gap,
            max_gap_s=max_gap,
            segment_s=segment,
            runs=DEFAULT_RUNS if runs is None else runs,
            serving=serving,
            seed=seed,
            slo_s=slo,
            profile=profile,
            model=tuple(model or ()),
        )
    )
    with progress(tuning.steps, "search") as bar, told(tuning, bar) as advance:
        tuned = tuning.run(advance)
    write_output("--output", output, encode_tuned(tuned))
    console = Console()
    print_tuned(tuned, output, console)
    print_reading(tuning.ground.traces, console)
