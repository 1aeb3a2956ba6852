"""`slackwater topics make`: create the topics of a run on a Kafka cluster."""

from typing import Annotated

import typer

topics = typer.Typer(no_args_is_help=True, help="The Kafka topics of a run.")


@topics.command()
def make(
    partitions: Annotated[
        int, typer.Option(min=1, max=1000, help="Partitions of the requests topic (a number).")
    ] = 4,
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Kafka broker; KAFKA_BOOTSTRAP_SERVERS if not given."
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=0, help="How long to wait for the broker to answer, in seconds.")
    ] = 10.0,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Create the topics that do not exist yet; running it again changes nothing."""
    import msgspec

    from slackwater.settings import RunSettings
    from slackwater.transport import make_topics, wait_for_broker

    settings = RunSettings.from_env(bootstrap=kafka)
    wait_for_broker(settings.bootstrap, wait)
    made = make_topics(settings.bootstrap, settings.prefix, partitions)
    if json:
        typer.echo(msgspec.json.encode({"topics": made}).decode())
        return
    for name, count in made.items():
        typer.echo(f"{name}  {count} {'partition' if count == 1 else 'partitions'}")
