"""`slackwater calibrate`: what real merges do to a real server, as a profile."""

from pathlib import Path
from typing import Annotated

import typer

from slackwater.cli.heeded import refuse
from slackwater.cli.server_options import Endpoint, Model, VllmPython, Vocabulary
from slackwater.errors import InputError

MINUTES = 10.0
LEARNERS, PARAMETERS = 4, 16e6
PROMPT_TOKENS, OUTPUT_TOKENS = 64, 16


def calibrate(
    launch_vllm: Annotated[
        bool,
        typer.Option(
            "--launch-vllm", help="Start a vLLM with a tiny model here, and measure that."
        ),
    ] = False,
    vllm_python: VllmPython = None,
    endpoint: Endpoint = None,
    model: Model = None,
    vocabulary: Vocabulary = None,
    merge_command: Annotated[
        str | None,
        typer.Option(
            metavar="CMD",
            help="A command that makes one merge of your own learners; its run time is the window.",
            show_default="our learners merge",
        ),
    ] = None,
    learners: Annotated[
        int | None,
        typer.Option(help="How many learners of ours merge.", show_default=str(LEARNERS)),
    ] = None,
    parameters: Annotated[
        float | None,
        typer.Option(help="Parameters of each one's model.", show_default="16e6"),
    ] = None,
    effect_free: Annotated[
        bool,
        typer.Option(
            "--effect-free",
            help="A check of the measuring itself: learners at nice 19 and full speed, whose "
            "merges should change nothing.",
        ),
    ] = False,
    minutes: Annotated[
        float | None,
        typer.Option(
            help="Minutes of blocks, starting up left out.",
            show_default=f"{MINUTES:g}",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Requests a second, at random moments.",
            show_default="0.6 of what the server answers one at a time, measured first",
        ),
    ] = None,
    prompt_tokens: Annotated[
        int | None,
        typer.Option(help="Tokens in, of every request.", show_default=str(PROMPT_TOKENS)),
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option(help="Tokens out, of every request.", show_default=str(OUTPUT_TOKENS)),
    ] = None,
    slo: Annotated[
        float | None,
        typer.Option(
            help="Seconds above which a request violates.",
            show_default="p95 beside learners that do not merge",
        ),
    ] = None,
    precision: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Say how long it takes to know the p95 ratio so well."),
    ] = 0.1,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of arrivals, order of blocks and moments of merges.", show_default="0"
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The profile's name.", show_default="that of its file")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Profile to write (with --compare none without this); the record goes beside it, "
            "as FILE.jsonl.",
            show_default="runs/calibrate-TIME.json",
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RECORD",
            help="Go on with an interrupted record, by its own options; a whole one is not added "
            "to, and its figures are made again.",
        ),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option(
            metavar="PROFILE",
            help="Measure anew under the profile's load and say whether it still fits: exit code "
            "0 if it does, 1 if not, 3 if that cannot be told.",
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the profile as JSON, not the table.")
    ] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a live one.")] = False,
) -> None:
    """Measure what real merges do to a real server's latency, and write it as a profile.

    Blocks of three arms in random order: the server alone, learners that do not merge, learners
    that merge. Ctrl-C keeps every block that is whole.
    """
    from slackwater.cli.calibrate_job import Asked, run
    from slackwater.cli.server import ServerOptions

    server = ServerOptions(
        launch_vllm=launch_vllm,
        vllm_python=vllm_python,
        endpoint=endpoint,
        model=model,
        vocabulary=vocabulary,
    )
    server.check(needed=resume is None)
    ours = {
        "--learners": learners,
        "--parameters": parameters,
        "--effect-free": effect_free or None,
    }
    if merge_command is not None:
        refuse("--merge-command makes merges of your own learners", ours)
    if compare is not None and output is None and not json:
        refuse("--compare writes no profile without --output", {"--name": name})
    load = {"--rate": rate, "--prompt-tokens": prompt_tokens, "--output-tokens": output_tokens}
    if compare is not None:
        refuse("--compare measures under the profile's load and objective", load | {"--slo": slo})
    if resume is not None:
        own = load | {"--minutes": minutes, "--seed": seed}
        refuse("--resume goes on by the record's own plan", own)
    if not server.given:
        merges = {"--merge-command": merge_command, **ours}
        refuse("--resume without a server plays nothing", merges)
    asked = Asked(
        server=server,
        merge_command=merge_command,
        learners=LEARNERS if learners is None else learners,
        parameters=_whole(PARAMETERS if parameters is None else parameters),
        effect_free=effect_free,
        minutes=MINUTES if minutes is None else minutes,
        rate_per_s=rate,
        prompt_tokens=PROMPT_TOKENS if prompt_tokens is None else prompt_tokens,
        output_tokens=OUTPUT_TOKENS if output_tokens is None else output_tokens,
        slo_s=slo,
        precision=precision,
        seed=seed or 0,
        name=name,
        output=output,
        resume=resume,
        compare=compare,
    )
    raise typer.Exit(run(asked, as_json=json, wants_plain=plain))


def _whole(value: float) -> int:
    """16e6 is written as a decimal and means a whole number."""
    if not (1 <= value <= 1e12 and value.is_integer()):
        msg = f"--parameters is {value:g}; it must be a whole number of 1 or more"
        raise InputError(msg)
    return int(value)
