"""`slackwater tap`: a streaming proxy before a server that takes no plugin."""

import logging
from typing import Annotated

import typer


def tap(
    upstream: Annotated[
        str, typer.Option(metavar="URL", help="The server that requests are passed to.")
    ],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where clients find the tap; port 0: any.")
    ] = "127.0.0.1:8001",
    sidecar: Annotated[
        str, typer.Option(metavar="NAME", help="The server's name in events.")
    ] = "sidecar-0",
    kafka: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Kafka broker.", show_default="KAFKA_BOOTSTRAP_SERVERS"
        ),
    ] = None,
) -> None:
    """Pass requests to a server, stream its answers back, and publish what was seen of them.

    Emits one `request` event each POST that asks for tokens, and the load every 100 ms: in front
    of SGLang, TGI or a gateway it does what the vLLM plugin does inside vLLM.
    """
    from sidecar.publish import publishing
    from sidecar.tap.run import run_tap
    from sidecar.tap.settings import Address, TapSettings, address
    from slackwater.settings import RunSettings

    where = address(listen)
    run = RunSettings.from_env(bootstrap=kafka)
    settings = TapSettings(upstream=upstream, sidecar=sidecar, run_id=run.run_id)
    logging.basicConfig(level=logging.INFO, format="slackwater: %(message)s")
    log = logging.getLogger("slackwater.tap")

    def ready(at: Address) -> None:
        typer.echo(f"http://{at.host}:{at.port} passes to {settings.base}", err=True)

    with publishing(run, sidecar, log) as outbox:
        run_tap(settings, where, outbox, log, ready)
    counts = outbox.counts()
    typer.echo(f"{counts.recorded} events, {counts.sent} sent, {counts.dropped} dropped", err=True)
