"""`slackwater stream`: the Faust job."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from slackwater.errors import InputError
from slackwater.policies import POLICY_NAMES

MATCHED = "matched"

Kafka = Annotated[
    str | None, typer.Option("--kafka", help="broker HOST:PORT; default $KAFKA_BOOTSTRAP_SERVERS")
]


def stream(
    db: Annotated[Path | None, typer.Option(help="run log (DuckDB file) to write")] = None,
    policy: Annotated[
        str,
        typer.Option(
            help=f"policy that commands merges: {', '.join(POLICY_NAMES)}; or none, with --roles "
            "count,log, where nobody does"
        ),
    ] = "wa_forecast",
    shadow: Annotated[
        str, typer.Option(help="policies that decide beside it, comma-separated, for the log")
    ] = "",
    switchback: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="policy that commands in those corridor intervals that a coin gives it; the "
            "others merge at a random moment, which shows what the policy is worth",
        ),
    ] = None,
    roles: Annotated[
        str, typer.Option(help="what this process does, comma-separated: count, decide, log")
    ] = "count,decide,log",
    min_gap_steps: Annotated[int, typer.Option(help="H_min, inner steps")] = 128,
    max_gap_steps: Annotated[int, typer.Option(help="H_max, inner steps")] = 512,
    window_s: Annotated[
        float | None,
        typer.Option(
            help="merge window until merges are measured, event seconds",
            show_default="the profile's, else 8",
        ),
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="calibration profile: window, how long a merge is felt after it, and whether "
            "serving is worth a merge's delay; --window-s and --set win over it",
        ),
    ] = None,
    half_life_s: Annotated[float, typer.Option(help="of the rate forecast, event seconds")] = 4.0,
    command_lead_s: Annotated[
        float, typer.Option(help="least time a command needs to reach every learner, wall seconds")
    ] = 1.0,
    expect_sidecars: Annotated[
        int, typer.Option(help="sidecars to wait for before the first decision")
    ] = 0,
    expect_learners: Annotated[
        int, typer.Option(help="learners to wait for before the first merge")
    ] = 1,
    partitions: Annotated[
        int, typer.Option(help="partitions of the requests topic, when it has to be made")
    ] = 4,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", help="any other setting, such as controller.stopping_tau_s=4"),
    ] = None,
    offset_reset: Annotated[
        str, typer.Option(help="where a new run starts to read: earliest or latest")
    ] = "latest",
    metrics_host: Annotated[str, typer.Option(help="address of the metrics endpoint")] = (
        "127.0.0.1"
    ),
    metrics_port: Annotated[
        int | None, typer.Option(help="port of the Prometheus endpoint; none if not given")
    ] = None,
    seed: Annotated[int, typer.Option(help="of every random choice")] = 0,
    run_info: Annotated[
        str, typer.Option(help="JSON object kept with the run: trace, trace_sha256, settings")
    ] = "{}",
    kafka: Kafka = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="file to create once partitions are assigned")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the summary as JSON")] = False,
) -> None:
    """Turn events into decisions, commands and a run log, until stopped by SIGTERM or Ctrl-C."""
    from slackwater.cli.stream_profile import calibrated
    from slackwater.clock import RunClock
    from slackwater.settings import RunSettings
    from slackwater.transport import make_topics, wait_for_broker
    from streams.configure import stream_settings
    from streams.service import StreamProcess

    clock = RunClock.from_env()
    settings = stream_settings(
        RunSettings.from_env(bootstrap=kafka),
        clock,
        {
            "policy": switchback or policy,
            "shadow": [name for name in shadow.split(",") if name],
            "roles": [role for role in roles.split(",") if role],
            "db": db,
            "expect_sidecars": expect_sidecars,
            "metrics_host": metrics_host,
            "metrics_port": metrics_port,
            "offset_reset": offset_reset,
            "run_info": _object(run_info),
        },
        {
            "min_gap_steps": min_gap_steps,
            "max_gap_steps": max_gap_steps,
            **calibrated(profile, clock.speed, window_s),
            "half_life_s": half_life_s,
            "command_lead_s": command_lead_s,
            "expect_learners": expect_learners,
            "seed": seed,
            **({} if switchback is None else {"switchback": MATCHED}),
        },
        setting or [],
    )
    _log_to_stderr()
    wait_for_broker(settings.run.bootstrap)
    make_topics(settings.run.bootstrap, settings.run.prefix, partitions)
    log = logging.getLogger("streams")
    run = settings.run
    text = "run %s, group %s on %s: %s by %s, corridor %d to %d steps"
    roles_, corridor = " ".join(settings.roles), settings.controller
    steps = (corridor.min_gap_steps, corridor.max_gap_steps)
    log.info(text, run.run_id, run.group, run.bootstrap, roles_, settings.policy, *steps)
    summary = StreamProcess(settings, clock, lambda: _ready(log, ready_file)).run()
    if as_json:
        typer.echo(json.dumps(summary))
    else:
        log.info("stopped; %s", _in_words(summary))


def _log_to_stderr() -> None:
    logging.basicConfig(
        level=logging.ERROR, stream=sys.stderr, format="slackwater stream: %(message)s"
    )
    logging.getLogger("streams").setLevel(logging.INFO)
    for name in ("streams.app", "streams.transport"):
        # Faust logs its own comings and goings under the modules of its subclasses.
        logging.getLogger(name).setLevel(logging.ERROR)


def _in_words(summary: dict[str, Any]) -> str:
    rows = ", ".join(f"{n} {table}" for table, n in sorted(summary["rows"].items()))
    dead = sum(summary["dead_letters"].values())
    late = sum(summary["late_events"].values())
    return f"logged {rows or 'nothing'}; {late} late, {dead} unreadable"


def _ready(log: logging.Logger, path: Path | None) -> None:
    log.info("reading")
    if path is not None:
        path.touch()


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        msg = f'--run-info is not JSON ({error}); give an object such as \'{{"trace": "x"}}\''
        raise InputError(msg) from None
    if not isinstance(value, dict):
        msg = f"--run-info is {text!r}; it must be a JSON object"
        raise InputError(msg)
    return value
