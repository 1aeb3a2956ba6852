"""`slackwater evaluate`: what placement was worth, for each policy, on traces or regimes."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.traffic_options import (
    DEFAULT_RUNS,
    LeastGain,
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
    check_draws,
    check_traffic,
)
from slackwater.policies import POLICY_NAMES


def evaluate(
    trace: Traces = None,
    regime: Regimes = None,
    skip_bad: SkipBad = False,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,NAME",
            help=f"Policies to run: {', '.join(POLICY_NAMES)}. Without it all.",
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
    settings: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Run a policy by the settings that `slackwater tune` found; once a policy. On "
            "traffic that they were tuned on nothing is claimed.",
        ),
    ] = None,
    window: Window = None,
    min_gap: MinGap = 18.0,
    max_gap: MaxGap = 72.0,
    segment: SegmentLength = 600.0,
    runs: Runs = None,
    draws: Annotated[
        int, typer.Option(help="Matched random schedules drawn for each run and budget.")
    ] = 10_000,
    serving: Serving = "overlap",
    profile: ProfileFile = None,
    model: ModelFigures = None,
    slo: Slo = None,
    least_gain: LeastGain = 5.0,
    max_burden: Annotated[
        float | None,
        typer.Option(
            metavar="TIMES",
            help="Run each policy a second time under this bound on a sidecar's share of harm over "
            "its share of requests, and say what the bound cost.",
            show_default="no bound",
        ),
    ] = None,
    seed: Seed = 0,
    json: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write every run's figures and the verdicts as JSON."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a page (HTML, one file) for people to read."),
    ] = None,
    db: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="Add runs, requests, schedules, draws and verdicts to this run log, to be checked "
            "by slackwater sql; it is made if it is not there.",
        ),
    ] = None,
) -> None:
    """Say whether placement was worth anything, or a policy only merged less often.

    Each policy's cost is set beside that of random schedules with as many merges.
    """
    traces, regimes = tuple(trace or ()), tuple(regime or ())
    check_traffic(traces, regimes, runs, seed)
    check_draws(draws)
    from slackwater.cli.evaluate_db import check_recordable, recording
    from slackwater.cli.evaluate_document import document, write
    from slackwater.cli.evaluate_report import write_report
    from slackwater.cli.outputs import DOCUMENT, REPORT, RUN_LOG, Failures, Output, check_outputs

    named = (
        Output("--db", db, RUN_LOG),
        Output("--json", json, DOCUMENT),
        Output("--report", report, REPORT),
    )
    check_outputs(named, (*traces, profile, *(settings or ())))
    check_recordable(db)
    from rich.console import Console

    from slackwater.cli.evaluate_job import Evaluation, Group, Job
    from slackwater.cli.evaluate_output import print_group, progress

    evaluation = Evaluation(
        Job(
            traces=traces,
            regimes=regimes,
            skip_bad=skip_bad,
            policies=tuple(name.strip() for name in policies.split(",")) if policies else (),
            claim=claim,
            window_s=window,
            min_gap_s=min_gap,
            max_gap_s=max_gap,
            segment_s=segment,
            runs=DEFAULT_RUNS if runs is None else runs,
            draws=draws,
            settings=tuple(settings or ()),
            serving=serving,
            least_gain_percent=least_gain,
            max_burden=max_burden,
            seed=seed,
            slo_s=slo,
            profile=profile,
            model=tuple(model or ()),
        )
    )
    groups: list[Group] = []
    failed = Failures()
    with failed.later(), recording(db) as record, progress(evaluation.total_runs) as advance:
        groups = list(evaluation.groups(advance))
        record(evaluation, groups)
    if not groups:
        failed.end()
    console = Console()
    for group in groups:
        print_group(group, claim, console)
    console.print(evaluation.ground.figures.line(), highlight=False)
    if json is not None:
        with failed.later():
            write(json, document(evaluation, groups))
    if report is not None:
        with failed.later():
            write_report(report, evaluation, groups)
    failed.end()
