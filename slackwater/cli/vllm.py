"""`slackwater vllm`: a small real vLLM in the foreground, with the plugin, to try things out on."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.errors import SlackwaterError

if TYPE_CHECKING:
    from sidecar.launch import LaunchedVllm
    from slackwater.testbed.signals import StopSignals

LOG = Path("runs/vllm.log")
VOCABULARY = 4096
LOOK_AGAIN_S = 0.2


def vllm(
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            help="The broker that the plugin reports to.",
            show_default="KAFKA_BOOTSTRAP_SERVERS, or none",
        ),
    ] = None,
    sidecar: Annotated[
        str | None,
        typer.Option(help="The server's name in events.", show_default="host and process id"),
    ] = None,
    log: Annotated[
        Path, typer.Option(metavar="FILE", help="Where the server's output is added.")
    ] = LOG,
    vllm_python: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Interpreter that has vLLM.",
            show_default=".venv-vllm of the checkout",
        ),
    ] = None,
) -> None:
    """Run a vLLM with a tiny random model on loopback until Ctrl-C; `make vllm` installs it.

    It has no tokenizer: prompts are token ids (--vocabulary of `load`, `calibrate` and `trial`).
    """
    from sidecar.launch import PYTHON, LaunchedVllm
    from slackwater.testbed.signals import Interrupted, StopSignals

    log.parent.mkdir(parents=True, exist_ok=True)
    env = {"KAFKA_BOOTSTRAP_SERVERS": kafka, "SLACKWATER_SIDECAR": sidecar}
    with StopSignals() as signals:
        server = LaunchedVllm(
            vllm_python or PYTHON,
            log=log,
            env={name: value for name, value in env.items() if value is not None},
            progress=lambda _: signals.check(),
        )
        typer.echo("starting vLLM: half a minute on two idle cores", err=True)
        try:
            with server:
                _say(server, log)
                _wait(server, signals)
        except Interrupted:
            return


def _say(server: "LaunchedVllm", log: Path) -> None:
    where = f"--endpoint {server.base_url} --model {server.model} --vocabulary {VOCABULARY}"
    typer.echo(f"vLLM answers; its log is {log}, and Ctrl-C ends it. In another shell, type:")
    lengths = "--prompt-tokens 64 --output-tokens 16"
    typer.echo(f"slackwater load --regime constant --rate 4 --duration 10 {lengths} {where}")


def _wait(server: "LaunchedVllm", signals: "StopSignals") -> None:
    """Until a signal asks for the end; raises `SlackwaterError` when the server has gone."""
    while signals.first is None:
        if not server.running:
            msg = f"vLLM ended by itself; what it said last is in {server.log}"
            raise SlackwaterError(msg)
        time.sleep(LOOK_AGAIN_S)
