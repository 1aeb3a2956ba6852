"""`slackwater group`: where a merge group meets, and what a person may ask of it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.errors import InputError

if TYPE_CHECKING:
    from slackwater.settings import RunSettings

group = typer.Typer(
    no_args_is_help=True, help="Serve, watch, pause, resume or merge groups of learners."
)

SERVE_NAP_S = 0.1
# Who has said nothing for so long, wall time, is not there at all.
LATELY_S = 120.0

Kafka = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Kafka broker; KAFKA_BOOTSTRAP_SERVERS if not given."),
]

Name = Annotated[
    str | None,
    typer.Option("--group", metavar="NAME", help="The merge group; SLACKWATER_GROUP if not given."),
]


@group.command()
def pause(kafka: Kafka = None, name: Name = None) -> None:
    """No merges but those that H_max forces, until resume; of one group alone."""
    _send("pause", kafka, name)


@group.command()
def resume(kafka: Kafka = None, name: Name = None) -> None:
    """End a pause."""
    _send("resume", kafka, name)


@group.command(name="merge-now")
def merge_now(
    kafka: Kafka = None,
    name: Name = None,
    wait: Annotated[bool, typer.Option(help="Wait for what comes of it, and say it.")] = True,
    wait_s: Annotated[
        float, typer.Option(help="How long to wait at most, in seconds of wall time.")
    ] = 60.0,
) -> None:
    """Merge at the first step that the learners can reach, not before H_min.

    Says who is asked and who finished, refused or gave no answer; exit code 1 when not all
    finished.
    """
    if not wait:
        _send("merge_now", kafka, name)
        return
    from slackwater.cli.group_merge import ask_and_follow
    from slackwater.cli.group_status import read_status, who_is_there
    from slackwater.clock import RunClock
    from slackwater.transport import wait_for_broker

    run = _settings(kafka, name)
    wait_for_broker(run.bootstrap)
    there, silent = who_is_there(read_status(run, LATELY_S), RunClock.from_env().now_us())

    def ask() -> None:
        _send("merge_now", kafka, name)
        typer.echo(f"asked: {', '.join(there) or 'nobody has been heard of lately'}")
        if silent:
            typer.echo(f"silent, not counted on: {', '.join(silent)}")

    answer = ask_and_follow(run, there, ask, wait_s)
    for line in answer.lines(wait_s):
        typer.echo(line)
    if not answer.finished:
        raise typer.Exit(1)


@group.command()
def status(
    kafka: Kafka = None,
    name: Name = None,
    since_s: Annotated[
        float, typer.Option(help="How far back to read the topics, in seconds of wall time.")
    ] = 300.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Who is in the group: steps, last merge, epoch and when each was last heard of.

    Read from the topics, of the run SLACKWATER_RUN_ID.
    """
    import msgspec

    from slackwater.cli.group_status import read_status, status_lines, unread_line
    from slackwater.clock import RunClock
    from slackwater.transport import wait_for_broker

    run = _settings(kafka, name)
    wait_for_broker(run.bootstrap)
    found = read_status(run, since_s)
    unread = unread_line(found)
    if unread is not None:
        typer.echo(unread, err=True)
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    where = f"run {run.run_id}, group {run.group}"
    if not found.members:
        if unread is not None:
            return
        typer.echo(
            f"{where}: no learner has said a word for {since_s:g} s; is it the right one? "
            "SLACKWATER_RUN_ID and SLACKWATER_GROUP name it"
        )
        return
    typer.echo(where)
    for line in status_lines(found, RunClock.from_env().now_us()):
        typer.echo(line)


@group.command()
def serve(
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 takes a free one and prints it.")] = 29500,
    ready_file: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A file to create once it listens.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Be the place where learners meet: their MASTER_ADDR:MASTER_PORT.

    It outlives any learner, and holds nothing that is worth keeping: when it is killed, start it
    again at the same address, and the learners find each other there anew. One serves any number
    of runs and groups.
    """
    import time

    from slackwater.cli.trainer import require_torch, touch
    from slackwater.testbed.signals import StopSignals

    require_torch()
    from trainer.meeting import serve as listen

    with StopSignals() as signals:
        store = listen(host, port)
        typer.echo(f"learners meet at MASTER_ADDR={host} MASTER_PORT={store.port}", err=True)
        touch(ready_file)
        while signals.first is None:
            time.sleep(SERVE_NAP_S)
    if json:
        typer.echo("{}")


def _settings(kafka: str | None, name: str | None) -> "RunSettings":
    """The run, and the group of `--group`; an empty one must not come to mean another."""
    from slackwater.settings import RunSettings

    if name == "":
        msg = "--group is empty; name the merge group, or leave it out for SLACKWATER_GROUP's"
        raise InputError(msg)
    return RunSettings.from_env(bootstrap=kafka, group=name)


def _send(kind: str, kafka: str | None, name: str | None) -> None:
    from slackwater.clock import RunClock
    from slackwater.errors import BrokerError
    from slackwater.events import MergeNow, Pause, Resume
    from slackwater.topics import COMMANDS
    from slackwater.transport import BatchProducer, wait_for_broker

    run = _settings(kafka, name)
    wait_for_broker(run.bootstrap)
    event = {"pause": Pause, "resume": Resume, "merge_now": MergeNow}[kind]
    producer = BatchProducer(run.bootstrap, run.prefix)
    now_us = RunClock.from_env().now_us()
    producer.send(COMMANDS, run.group, event(run_id=run.run_id, at_us=now_us, group=run.group))
    acknowledged = producer.flush()
    producer.close()
    if not acknowledged:
        msg = f"the broker at {run.bootstrap} did not take the {kind}; try again"
        raise BrokerError(msg)
    typer.echo(f"{kind} sent to run {run.run_id}, group {run.group}")
