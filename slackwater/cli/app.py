"""The table of commands. A command's module is imported when it runs, never for another's sake."""

from typing import Annotated

import typer

from slackwater import __version__
from slackwater.cli.broker import broker
from slackwater.cli.calibrate import calibrate
from slackwater.cli.doctor import doctor
from slackwater.cli.evaluate import evaluate
from slackwater.cli.group import group
from slackwater.cli.load import load
from slackwater.cli.plan import plan
from slackwater.cli.replay import replay
from slackwater.cli.report import report
from slackwater.cli.reproduce import reproduce
from slackwater.cli.schema import schema
from slackwater.cli.sql import sql
from slackwater.cli.stream import stream
from slackwater.cli.switchback import switchback
from slackwater.cli.tap import tap
from slackwater.cli.testbed import run_everything
from slackwater.cli.topics import topics
from slackwater.cli.trainer import trainer
from slackwater.cli.trial import trial
from slackwater.cli.tune import tune
from slackwater.cli.vllm import vllm

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slackwater {__version__}")
        raise typer.Exit


@app.callback()
def slackwater(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """Decide when DiLoCo learners may merge beside live traffic, and prove it was worth it."""


app.command()(schema)
app.add_typer(topics, name="topics")
app.add_typer(group, name="group")
app.command()(stream)
app.command()(replay)
app.command()(load)
app.command()(tap)
app.command("testbed")(run_everything)
app.command()(doctor)
app.command()(sql)
app.command()(trainer)
app.command()(broker)
app.command()(vllm)
app.command()(evaluate)
app.command()(tune)
app.command()(plan)
app.command()(report)
app.command()(switchback)
app.command()(reproduce)
app.command()(calibrate)
app.command()(trial)
