"""`slackwater trial`: policies and matched random schedules in turn beside a real server."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.server_options import Endpoint, Model, VllmPython, Vocabulary
from slackwater.policies import POLICY_NAMES


def trial(
    launch_vllm: Annotated[
        bool,
        typer.Option("--launch-vllm", help="Start a vLLM with a tiny model, for all runs."),
    ] = False,
    vllm_python: VllmPython = None,
    endpoint: Endpoint = None,
    model: Model = None,
    vocabulary: Vocabulary = None,
    policies: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help=f"Policies to judge, each beside its own control: {', '.join(POLICY_NAMES)}.",
            show_default="slack,wa_forecast",
        ),
    ] = None,
    baselines: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,...",
            help="Further arms: policies without a control; none, where nobody merges.",
            show_default="fixed_h,none",
        ),
    ] = None,
    runs: Annotated[
        int | None, typer.Option(help="Independent runs of each arm.", show_default="8")
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option(help="Instead: as many and as long as fit into so many."),
    ] = None,
    run_s: Annotated[
        float | None, typer.Option(help="Seconds of load in a run.", show_default="150")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Take --rate, tokens, --slo and --window-s from a profile of `calibrate`; what is "
            "given besides wins.",
        ),
    ] = None,
    regime: Annotated[
        str | None, typer.Option(help="Of the load.", show_default="aperiodic")
    ] = None,
    quiet_s: Annotated[
        float | None,
        typer.Option(help="Mean seconds of quiet between aperiodic bursts.", show_default="6"),
    ] = None,
    busy_s: Annotated[
        float | None,
        typer.Option(help="Mean seconds of an aperiodic burst.", show_default="3"),
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Mean requests a second.", show_default="6")
    ] = None,
    prompt_tokens: Annotated[
        int | None, typer.Option(help="Tokens in, of every request.", show_default="64")
    ] = None,
    output_tokens: Annotated[
        int | None, typer.Option(help="Tokens out, of every request.", show_default="16")
    ] = None,
    slo: Annotated[
        float | None,
        typer.Option(help="Seconds above which a request violates.", show_default="0.3"),
    ] = None,
    window_s: Annotated[
        float | None,
        typer.Option(help="About how long a merge takes here.", show_default="2"),
    ] = None,
    learners: Annotated[int | None, typer.Option(help="How many merge.", show_default="4")] = None,
    parameters: Annotated[
        float | None, typer.Option(help="Of each learner's model.", show_default="16e6")
    ] = None,
    step_s: Annotated[
        float | None,
        typer.Option(help="Seconds that an inner step takes at least.", show_default="0.3"),
    ] = None,
    min_gap_steps: Annotated[
        int | None, typer.Option(help="H_min, inner steps.", show_default="12")
    ] = None,
    max_gap_steps: Annotated[
        int | None, typer.Option(help="H_max, inner steps.", show_default="50")
    ] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Another setting of the controller, in every arm; may be given several times.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Of loads, order of runs and drawn schedules.", show_default="0"),
    ] = None,
    db: Annotated[
        Path | None,
        typer.Option(help="Run log to make.", show_default="runs/trial-TIME.duckdb"),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="LOG",
            help="Go on with the run log of a trial that was ended early, by its own options; "
            "without a server, judge what is there.",
        ),
    ] = None,
    claim: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="The policy named beforehand, judged for itself; --resume takes the log's.",
            show_default="all, corrected for how many there are",
        ),
    ] = None,
    least_gain: Annotated[
        float | None,
        typer.Option(
            metavar="PERCENT",
            help="Of the control's violations: less is no claim.",
            show_default="5",
        ),
    ] = None,
    count: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="What is judged: violations, or excess: those of them that the windows added, "
            "told by the other runs of a block.",
            show_default="violations",
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a live one.")] = False,
) -> None:
    """Measure on a real server whether a policy's moments beat random ones of the same number.

    Many short runs in random order, the real controller deciding live; the verdict rests on the
    measured requests alone. Ctrl-C keeps every run that is whole, and --resume goes on.
    """
    from slackwater.cli.server import ServerOptions
    from slackwater.cli.trial_job import Asked, run

    given = {
        "policies": _names(policies),
        "baselines": _names(baselines),
        "blocks": runs,
        "run_s": run_s,
        "regime": regime,
        "quiet_s": quiet_s,
        "busy_s": busy_s,
        "rate_per_s": rate,
        "prompt_tokens": prompt_tokens,
        "output_tokens": output_tokens,
        "slo_s": slo,
        "window_s": window_s,
        "learners": learners,
        "parameters": int(parameters)
        if parameters is not None and parameters.is_integer()
        else parameters,
        "step_s": step_s,
        "min_gap_steps": min_gap_steps,
        "max_gap_steps": max_gap_steps,
        "assignments": setting,
        "seed": seed,
        "least_gain_percent": least_gain,
        "count": count,
    }
    asked = Asked(
        server=ServerOptions(
            launch_vllm=launch_vllm,
            vllm_python=vllm_python,
            endpoint=endpoint,
            model=model,
            vocabulary=vocabulary,
        ),
        design={name: value for name, value in given.items() if value is not None},
        profile=profile,
        minutes=minutes,
        db=db,
        resume=resume,
        claim=claim,
    )
    raise typer.Exit(run(asked, as_json=json, wants_plain=plain))


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name for name in text.split(",") if name]
