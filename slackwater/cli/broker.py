"""`slackwater broker`: the embedded broker in the foreground, for a machine without Kafka."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from slackwater.errors import BrokerError, InputError

if TYPE_CHECKING:
    from slackwater.broker import EmbeddedBroker
    from slackwater.testbed.signals import StopSignals

LOOK_AGAIN_S = 0.2


def broker(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="TCP port on 127.0.0.1; a free one when not given."),
    ] = None,
    partitions: Annotated[
        int, typer.Option(min=1, max=1000, help="Partitions of the requests topic (a number).")
    ] = 4,
    ready_file: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="An empty file to create once the topics are there."),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print the address as one JSON object, and no advice.")
    ] = False,
) -> None:
    """Run a Kafka-compatible broker on this machine until Ctrl-C; its log is kept in memory only.

    The topics are made under SLACKWATER_TOPIC_PREFIX. The embedded broker is for trying things out:
    what it holds is gone when it ends.
    """
    from slackwater.broker import EmbeddedBroker
    from slackwater.settings import RunSettings
    from slackwater.testbed.signals import StopSignals
    from slackwater.transport import make_topics

    with StopSignals() as signals, EmbeddedBroker(port) as running:
        prefix = RunSettings.from_env(bootstrap=running.bootstrap).prefix
        made = make_topics(running.bootstrap, prefix, partitions)
        _say(running.bootstrap, made, json)
        _touch(ready_file)
        _wait(running, signals)


def _say(bootstrap: str, made: dict[str, int], json: bool) -> None:
    import msgspec

    from slackwater.settings import BOOTSTRAP_ENV

    if json:
        found = {"schema_version": 1, "bootstrap": bootstrap, "topics": made}
        typer.echo(msgspec.json.encode(found).decode())
        return
    typer.echo(f"broker at {bootstrap}, {len(made)} topics; Ctrl-C ends it. In other shells, type:")
    typer.echo(f"export {BOOTSTRAP_ENV}={bootstrap}")


def _touch(path: Path | None) -> None:
    if path is None:
        return
    try:
        path.touch()
    except OSError as error:
        msg = f"cannot create --ready-file {path}: {error.strerror}; choose another path"
        raise InputError(msg) from None


def _wait(running: "EmbeddedBroker", signals: "StopSignals") -> None:
    """Until a signal asks for the end; raises `BrokerError` when the broker ended by itself."""
    while signals.first is None:
        if not running.running:
            msg = f"the broker at {running.bootstrap} ended by itself; start it again"
            raise BrokerError(msg)
        time.sleep(LOOK_AGAIN_S)
