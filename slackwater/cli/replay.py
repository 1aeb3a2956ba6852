"""`slackwater replay`: a trace, a generated regime or a recording, replayed onto the topics."""

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from slackwater.cli.traffic_options import SkipBad
from slackwater.errors import BrokerError, InputError
from slackwater.settings import RUN_ID_ENV

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import msgspec

    from replay_producer.job import Plan


def replay(
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
            help="Mean requests per second of a regime.", show_default="6 to 20, by regime"
        ),
    ] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            help="Seconds of wall time; times the speed gives event time.",
            show_default="the whole trace; 90 for a regime",
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(
            help="Seconds of event time in a second of wall time.",
            show_default="that of SLACKWATER_CLOCK, else 1",
        ),
    ] = None,
    sidecars: Annotated[
        int | None,
        typer.Option(
            help="Sidecars (a number); request i goes to sidecar i mod N.",
            show_default="those the trace names, else 2",
        ),
    ] = None,
    slots: Annotated[int, typer.Option(help="Requests that a sidecar serves at once.")] = 4,
    slowdown: Annotated[
        float | None,
        typer.Option(
            help="How many times longer work takes while a merge runs.", show_default="1.7"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of a regime's random numbers.")] = 0,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="azure, burstgpt, mooncake, vllm-bench, guidellm, aiperf, slackwater (requests "
            "served anew) or recording (events as they were).",
            show_default="by content",
        ),
    ] = None,
    skip_bad: SkipBad = False,
    latency: Annotated[
        str, typer.Option(help="model: from tokens and queue; recorded: from the trace.")
    ] = "model",
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Kafka broker.", show_default="KAFKA_BOOTSTRAP_SERVERS"
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Describe what would be replayed; no broker.")
    ] = False,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the events to a JSON lines file; no broker."),
    ] = None,
    ready_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="An empty file to create once the replay can begin."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Replay a trace, a generated regime or a recording in time.

    Requests are served by a model of the sidecars, which slows down while a merge runs.
    """
    from replay_producer.job import ReplayJob, plan
    from replay_producer.sidecar import PAPER_SLOWDOWN

    if dry_run and export is not None:
        msg = "--dry-run writes nothing, --export writes a file; give one of the two"
        raise InputError(msg)
    if export is not None and trace is not None and export.resolve() == trace.resolve():
        msg = f"--export {export} is the trace itself; write to another file"
        raise InputError(msg)
    planned = plan(
        ReplayJob(
            trace=trace,
            regime=regime,
            rate_per_s=rate,
            duration_s=duration,
            speed=speed,
            sidecars=sidecars,
            slots=slots,
            slowdown=PAPER_SLOWDOWN if slowdown is None else slowdown,
            seed=seed,
            format_name=format_,
            on_bad="skip" if skip_bad else "stop",
            latency=latency,
        )
    )
    if dry_run:
        _describe(planned, json)
    elif export is not None:
        _export(planned, export, json)
    else:
        _run(planned, kafka, ready_file, json)


def _describe(plan: "Plan", json: bool) -> None:
    import msgspec

    from replay_producer import figures
    from replay_producer.describe import describe, describe_recording
    from replay_producer.recording import Recording

    subject = plan.subject
    known = describe_recording(subject) if isinstance(subject, Recording) else describe(subject)
    known = msgspec.structs.replace(known, notes=plan.notes)
    if json:
        _print_json(_fields(known))
    else:
        _print_rows(known.name, figures.rows(known, plan.speed))


def _export(plan: "Plan", path: Path, json: bool) -> None:
    from replay_producer.export import DEFAULT_ORIGIN_US, export

    clock_us = plan.clock.origin_us if plan.clock else None
    origin_us = clock_us or plan.subject.origin_us or DEFAULT_ORIGIN_US
    run_id = os.environ.get(RUN_ID_ENV) or "export"
    written = export(plan.source(origin_us, run_id), path)
    summary = {"file": str(path), "events": written, "run_id": run_id, "origin_us": origin_us}
    if json:
        _print_json({**summary, "notes": plan.notes})
        return
    _print_notes(plan)
    typer.echo(f"{written} events written to {path}")


def _run(plan: "Plan", kafka: str | None, ready_file: Path | None, json: bool) -> None:
    from replay_producer.replay import Control
    from slackwater.settings import RunSettings

    run = RunSettings.from_env(bootstrap=kafka)
    _print_notes(plan)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    with _progress(plan, shown=not json) as advanced:

        def keep_going(now_us: int) -> bool:
            advanced(now_us)
            return not stop.is_set()

        report = plan.run(run, Control(keep_going=keep_going, ready=lambda: _ready(ready_file)))
    if json:
        _print_json({**_fields(report), "notes": plan.notes})
    else:
        _print_table(f"replay of {report.name}", _fields(report))
    if report.error is not None:
        raise BrokerError(report.error)


@contextlib.contextmanager
def _progress(plan: "Plan", shown: bool) -> "Iterator[Callable[[int], None]]":
    """A bar on stderr that takes event time, when a person looks at it."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    total_us = min(plan.duration_us or plan.subject.duration_us, plan.subject.duration_us)
    with Progress(console=console, disable=not shown or not console.is_terminal) as bar:
        task = bar.add_task(plan.subject.name, total=total_us)
        first: list[int] = []

        def advanced(now_us: int) -> None:
            first[:] = first or [plan.clock.origin_us if plan.clock else now_us]
            bar.update(task, completed=max(0, now_us - first[0]))

        yield advanced


def _ready(path: Path | None) -> None:
    if path is None:
        return
    try:
        path.touch()
    except OSError as error:
        msg = f"cannot create --ready-file {path}: {error.strerror}; choose another path"
        raise InputError(msg) from None


def _fields(struct: "msgspec.Struct") -> dict[str, Any]:
    import msgspec

    built: dict[str, Any] = msgspec.to_builtins(struct)
    return built


def _print_json(fields: dict[str, Any]) -> None:
    import msgspec

    typer.echo(msgspec.json.encode({"schema_version": 1, **fields}).decode())


def _print_table(title: str, fields: dict[str, Any]) -> None:
    _print_rows(title, ((name, _shown(value)) for name, value in fields.items()))


def _print_rows(title: str, rows: "Iterable[tuple[str, str]]") -> None:
    from rich.box import ROUNDED
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left", show_header=False, box=ROUNDED)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in rows:
        table.add_row(label, Text(value))
    Console(highlight=False).print(table)


def _shown(value: object) -> str:
    if value is None or value in ([], ""):
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(str(item) for item in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _print_notes(plan: "Plan") -> None:
    for note in plan.notes:
        typer.echo(f"slackwater: {plan.subject.name}: {note}", err=True)
