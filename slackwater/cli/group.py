"""`slackwater group`: what a person may ask of a merge group."""

from typing import Annotated

import typer

group = typer.Typer(no_args_is_help=True, help="Pause, resume or merge a group of learners now.")

Kafka = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="Kafka broker; KAFKA_BOOTSTRAP_SERVERS if not given."),
]


@group.command()
def pause(kafka: Kafka = None) -> None:
    """No merges but those that H_max forces, until resume."""
    _send("pause", kafka)


@group.command()
def resume(kafka: Kafka = None) -> None:
    """End a pause."""
    _send("resume", kafka)


@group.command(name="merge-now")
def merge_now(kafka: Kafka = None) -> None:
    """Merge at the first step that the learners can reach, not before H_min."""
    _send("merge_now", kafka)


def _send(kind: str, kafka: str | None) -> None:
    from slackwater.clock import RunClock
    from slackwater.errors import BrokerError
    from slackwater.events import MergeNow, Pause, Resume
    from slackwater.settings import RunSettings
    from slackwater.topics import COMMANDS
    from slackwater.transport import BatchProducer, wait_for_broker

    run = RunSettings.from_env(bootstrap=kafka)
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
