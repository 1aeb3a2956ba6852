"""`slackwater load`: a trace, a regime or batches, sent to a real server and measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.heeded import refuse
from slackwater.cli.server import api_key
from slackwater.cli.traffic_options import SkipBad
from slackwater.errors import InputError

if TYPE_CHECKING:
    from sidecar.load.batches import Bursts
    from sidecar.load.endpoint import Endpoint


def load(
    endpoint: Annotated[
        str, typer.Option(metavar="URL", help="The server: http://HOST:PORT, OpenAI-compatible.")
    ],
    model: Annotated[str, typer.Option(metavar="NAME", help="The model, as the server names it.")],
    trace: Annotated[
        Path | None,
        typer.Argument(help="Trace file or recording; without it a regime is generated."),
    ] = None,
    regime: Annotated[
        str | None,
        typer.Option(
            help="Generate: ordinary, high_pressure, constant, bursty, aperiodic or uneven.",
            show_default="ordinary without a TRACE",
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(
            help="Mean requests per second of a regime.", show_default="5 to 20, by regime"
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            help="Seconds in which requests come due.",
            show_default="the whole trace; 90 otherwise",
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(help="Seconds of a trace in one second.", show_default="1"),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of a regime's random numbers.", show_default="0")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format", help="As `slackwater replay` takes it.", show_default="by content"
        ),
    ] = None,
    skip_bad: SkipBad = False,
    chat: Annotated[
        bool, typer.Option("--chat", help="Ask /v1/chat/completions, not /v1/completions.")
    ] = False,
    vocabulary: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Prompts are token ids below N, served by vLLM to their full length without a "
            "tokenizer.",
            show_default="prompts are words",
        ),
    ] = None,
    extra: Annotated[
        str | None,
        typer.Option(
            metavar="JSON", help="Further fields of each request, such as '{\"ignore_eos\": true}'."
        ),
    ] = None,
    prompt_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Tokens in of every request.", show_default="the trace's, else 64"
        ),
    ] = None,
    output_tokens: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Tokens out of every request.", show_default="the trace's, else 16"
        ),
    ] = None,
    most_prompt_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Cut longer prompts to so many tokens.")
    ] = None,
    most_output_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="Cut longer answers to so many tokens.")
    ] = None,
    timeout: Annotated[
        float, typer.Option(help="Seconds after which a request is given up.")
    ] = 60.0,
    most_in_flight: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Requests that come due while so many are in flight are dropped, and counted.",
        ),
    ] = 512,
    closed_loop: Annotated[
        bool,
        typer.Option("--closed-loop", help="Batches instead: the next when all of one are back."),
    ] = False,
    quiet: Annotated[
        int | None, typer.Option(help="Requests a batch, between bursts.", show_default="2")
    ] = None,
    busy: Annotated[
        int | None, typer.Option(help="Requests a batch, within a burst.", show_default="8")
    ] = None,
    period: Annotated[
        float | None,
        typer.Option(help="Seconds from one burst's start to the next one's.", show_default="120"),
    ] = None,
    burst: Annotated[
        float | None, typer.Option(help="Seconds that a burst lasts.", show_default="30")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write each outcome there as it comes, JSON lines."),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Publish `request` and `load` events to this broker too."
        ),
    ] = None,
    sidecar: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The server's name in those events.", show_default="sidecar-0"
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Send traffic to a real server when it is due, and measure what it does to each request.

    Latency counts from the scheduled arrival, whatever the server or the client is late by. Every
    request is accounted for: finished, aborted, timed out, failed or dropped.

    An API key is taken from OPENAI_API_KEY.
    """
    from replay_producer.job import ReplayJob
    from sidecar.load.job import LoadJob, plan
    from sidecar.load.open_loop import Limits
    from sidecar.load.preflight import check_endpoint
    from sidecar.load.schedule import Lengths
    from slackwater.cli.load_run import Outputs, run_load

    batches = {"--quiet": quiet, "--busy": busy, "--period": period, "--burst": burst}
    if closed_loop:
        of_traffic = {"--seed": seed, "--skip-bad": skip_bad or None}
        refuse("--closed-loop makes its own traffic, by no chance", of_traffic)
    else:
        refuse("there are batches with --closed-loop only", batches)
    if kafka is None:
        refuse("events go out with --kafka only", {"--sidecar": sidecar})
    lengths = Lengths(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        most_prompt_tokens=most_prompt_tokens,
        most_output_tokens=most_output_tokens,
    )
    job = LoadJob(
        endpoint=_endpoint(endpoint, model, chat, vocabulary, extra),
        limits=Limits(timeout_s=timeout, most_in_flight=most_in_flight),
        traffic=ReplayJob(
            trace=trace,
            regime=regime,
            rate_per_s=rate,
            duration_s=duration,
            speed=speed,
            seed=seed or 0,
            format_name=format_,
            on_bad="skip" if skip_bad else "stop",
        ),
        lengths=lengths,
        bursts=_bursts(lengths, quiet=quiet, busy=busy, period_s=period, burst_s=burst)
        if closed_loop
        else None,
    )
    name = "sidecar-0" if sidecar is None else sidecar
    outputs = Outputs(path=output, kafka=kafka, sidecar=name, as_json=json)
    outputs.check(trace)
    planned = plan(job)
    check_endpoint(job.endpoint)
    raise typer.Exit(run_load(planned, outputs))


def _endpoint(
    url: str, model: str, chat: bool, vocabulary: int | None, extra: str | None
) -> "Endpoint":
    from sidecar.load.endpoint import VLLM_TOKENS, Endpoint

    return Endpoint(
        url=url,
        model=model,
        api="chat" if chat else "completions",
        vocabulary=vocabulary,
        extra=({} if vocabulary is None else VLLM_TOKENS) | _fields(extra),
        api_key=api_key(),
    )


def _fields(extra: str | None) -> dict[str, Any]:
    import msgspec

    if extra is None:
        return {}
    try:
        return msgspec.json.decode(extra, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        msg = f'--extra {extra!r} is no JSON object ({error}); give one such as {{"top_p": 0.9}}'
        raise InputError(msg) from None


def _bursts(lengths: Any, **given: float | None) -> "Bursts":
    from sidecar.load.batches import Bursts

    shape: dict[str, Any] = {"quiet": 2, "busy": 8}
    shape |= {name: value for name, value in given.items() if value is not None}
    return Bursts(
        **shape,
        prompt_tokens=lengths.prompt(-1),
        output_tokens=lengths.output(-1),
    )
