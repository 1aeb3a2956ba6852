"""`slackwater plan`: how many runs, of what length, would show a gain of a given size."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.traffic_options import (
    LeastGain,
    MaxGap,
    MinGap,
    ModelFigures,
    ProfileFile,
    Regimes,
    Seed,
    SegmentLength,
    Serving,
    SkipBad,
    Slo,
    Traces,
    Window,
    check_traffic,
)

PILOT_RUNS = 12


def plan(
    gain: Annotated[
        float, typer.Option(metavar="PP", help="Gain to be shown, percentage points of requests.")
    ],
    trace: Traces = None,
    regime: Regimes = None,
    skip_bad: SkipBad = False,
    least_gain: LeastGain = 5.0,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Take the noise from this policy's own runs.",
            show_default="random schedules",
        ),
    ] = None,
    power: Annotated[
        float, typer.Option(help="Share of such experiments that should show the gain.")
    ] = 0.8,
    max_runs: Annotated[int, typer.Option(help="Where to stop looking.")] = 64,
    window: Window = None,
    min_gap: MinGap = 18.0,
    max_gap: MaxGap = 72.0,
    segment: SegmentLength = 600.0,
    runs: Annotated[
        int | None,
        typer.Option(help=f"Pilot runs of each regime ({PILOT_RUNS} without it)."),
    ] = None,
    serving: Serving = "overlap",
    profile: ProfileFile = None,
    model: ModelFigures = None,
    slo: Slo = None,
    seed: Seed = 0,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the plan as JSON.")
    ] = None,
) -> None:
    """Say how many independent runs, of what length, would show a gain of a given size.

    The noise is the traffic's own: pilot runs are cut from it and put through the gate's test.
    """
    traces, regimes = tuple(trace or ()), tuple(regime or ())
    check_traffic(traces, regimes, runs, seed)
    from slackwater.cli.evaluate_document import write
    from slackwater.cli.outputs import DOCUMENT, Output, check_outputs

    check_outputs([Output("--json", json, DOCUMENT)], (*traces, profile))
    from rich.console import Console

    from slackwater.cli.evaluate_output import print_reading, progress
    from slackwater.cli.plan_job import PlanJob, Planning
    from slackwater.cli.plan_output import print_plan

    job = PlanJob(
        traces=traces,
        regimes=regimes,
        skip_bad=skip_bad,
        policy=policy,
        gain_pp=gain,
        least_gain_percent=least_gain,
        power=power,
        max_runs=max_runs,
        window_s=window,
        min_gap_s=min_gap,
        max_gap_s=max_gap,
        segment_s=segment,
        runs=PILOT_RUNS if runs is None else runs,
        serving=serving,
        seed=seed,
        slo_s=slo,
        profile=profile,
        model=tuple(model or ()),
    )
    planning = Planning(job)
    with progress(planning.total_runs, "pilot runs") as advance:
        planned = planning.run(advance)
    console = Console()
    print_plan(planned, job, console)
    print_reading(planning.ground.traces, console)
    if json is not None:
        write(json, planning.document(planned))
