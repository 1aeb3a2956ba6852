"""`slackwater testbed`: every part of a run, one screen, and a summary from its run log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.errors import SlackwaterError
from slackwater.policies import POLICY_NAMES
from slackwater.settings import BOOTSTRAP_ENV

if TYPE_CHECKING:
    from slackwater.testbed.plan import Plan


def run_everything(
    trace: Annotated[
        Path | None, typer.Argument(help="Trace to replay; without it a regime is generated.")
    ] = None,
    regime: Annotated[
        str | None,
        typer.Option(
            help="Generate: ordinary, high_pressure, constant, bursty, aperiodic or uneven.",
            show_default="aperiodic without a TRACE",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Mean requests per second of a regime.", show_default="6 to 20, by regime"
        ),
    ] = None,
    duration: Annotated[
        float, typer.Option(help="Seconds of wall time that the replay lasts.")
    ] = 90.0,
    speed: Annotated[
        float, typer.Option(help="Seconds of event time in a second of wall time.")
    ] = 1.0,
    policy: Annotated[
        str,
        typer.Option(help=f"Policy that commands merges: {', '.join(POLICY_NAMES)}."),
    ] = "wa_forecast",
    no_merges: Annotated[
        bool,
        typer.Option(
            "--no-merges",
            help="Learners train and never merge, whatever --policy says: the control that "
            "measures what merges did to the latency.",
        ),
    ] = False,
    shadow: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Policies that decide beside it, for the log alone.",
            show_default="none",
        ),
    ] = None,
    learners: Annotated[int, typer.Option(help="Learners (a number).")] = 2,
    sidecars: Annotated[int, typer.Option(help="Sidecars (a number).")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of every random number.")] = 0,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar=BOOTSTRAP_ENV,
            help="A broker that runs already; without it one is started for the run.",
        ),
    ] = None,
    db: Annotated[
        Path | None, typer.Option(help="Run log to make.", show_default="runs/RUN_ID.duckdb")
    ] = None,
    min_gap_steps: Annotated[int, typer.Option(help="H_min, inner steps between merges.")] = 128,
    max_gap_steps: Annotated[int, typer.Option(help="H_max, inner steps between merges.")] = 512,
    parameters: Annotated[float, typer.Option(help="Parameters of the learners' model.")] = 8e6,
    step_s: Annotated[
        float, typer.Option(help="Seconds of wall time that an inner step takes at least.")
    ] = 0.03,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Another setting of the stream job, such as controller.stopping_tau_s=4; may be "
            "given several times.",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Calibration profile: modelled sidecars slow down in a merge as the measured one "
            "did, and the controller decides by its window.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as one JSON object.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a live screen.")] = False,
) -> None:
    """Run everything on this machine: broker, stream job, learners and a replay.

    Shows one live screen and ends with a summary from the run log; leaves nothing else behind.
    """
    from datetime import UTC, datetime

    from slackwater.cli.stream_profile import read_profile
    from slackwater.testbed.plan import make_plan

    measured = read_profile(profile)

    plan = make_plan(
        datetime.now(UTC),
        db,
        trace=trace,
        regime=regime,
        rate=rate,
        duration_s=duration,
        speed=speed,
        policy=policy,
        no_merges=no_merges,
        shadow=shadow,
        assignments=setting,
        learners=learners,
        sidecars=sidecars,
        seed=seed,
        kafka=kafka,
        min_gap_steps=min_gap_steps,
        max_gap_steps=max_gap_steps,
        parameters=_whole(parameters),
        step_s=step_s,
        profile=profile,
        slowdown=measured.queue.slowdown if measured else None,
    )
    raise typer.Exit(_run(plan, as_json=json, wants_plain=plain))


def _whole(value: float) -> float:
    """8e6 is written as a decimal and means a whole number."""
    return int(value) if value.is_integer() else value


def _run(plan: "Plan", *, as_json: bool, wants_plain: bool) -> int:
    import msgspec

    from slackwater.testbed.report import print_summary, problem_lines
    from slackwater.testbed.run import run_testbed
    from slackwater.testbed.views import RunConsole

    # With --json, stdout is for the one object, and people watch on stderr.
    console = RunConsole(stderr=as_json)
    try:
        summary, code = run_testbed(plan, console, wants_plain=wants_plain)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        msg = f"{where}{error.strerror or error}"
        raise SlackwaterError(msg) from error
    if as_json:
        typer.echo(msgspec.json.encode(summary).decode())
    else:
        print_summary(console, summary)
    for line in problem_lines(summary):
        typer.echo(line, err=True)
    return code
