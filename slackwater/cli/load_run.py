"""A load client run for a person: progress, interruption, files, events, and the table."""

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slackwater.cli.outputs import OUTCOMES, Output, check_outputs
from slackwater.errors import SlackwaterError

if TYPE_CHECKING:
    from sidecar.events import NoPublisher, Publisher
    from sidecar.load.account import Account
    from sidecar.load.anchor import Anchor
    from sidecar.load.job import Plan
    from sidecar.load.outcome import Outcome
    from sidecar.load.summary import Summary
    from sidecar.load.thread import LoadThread

LOOK_S = 0.2
INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where outcomes go: a file, a broker under the server's name, and which form the summary has.

    `path` and `kafka` are None where nothing is asked for.
    """

    path: Path | None
    kafka: str | None
    sidecar: str
    as_json: bool

    def check(self, trace: Path | None) -> None:
        """Raise `InputError` before any work when a file could not be written, or is read.

        So too when no event could carry the server's name.
        """
        from slackwater.settings import check_name

        check_outputs([Output("--output", self.path, OUTCOMES)], [trace])
        check_name(self.sidecar, "--sidecar")


def run_load(plan: "Plan", outputs: Outputs) -> int:
    """Send what is planned and print the summary; returns the exit code.

    Raises `SlackwaterError` after the summary when nothing at all ended well, the broker did not
    take every event, or the file not every outcome.
    """
    from sidecar.load.account import Account
    from sidecar.load.anchor import Anchor
    from sidecar.load.journal import Journal
    from sidecar.load.summary import Tally
    from slackwater.cli.load_output import print_summary

    tally, account, anchor = Tally(), Account(), Anchor.now()
    for note in plan.notes:
        typer.echo(f"slackwater: {plan.name}: {note}", err=True)
    with Journal(outputs.path) as journal, _events(outputs, account, anchor) as publish:

        def take(outcome: "Outcome") -> None:
            tally.add(outcome)
            journal.add(outcome)
            publish.outcome(outcome)

        thread = plan.start(on_outcome=take, account=account, anchor=anchor, beside=publish.sample)
        interrupted = _wait(thread, plan, account)
        try:
            report = thread.result()
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
    summary = tally.summary(report)
    print_summary(plan.name, summary, as_json=outputs.as_json)
    journal.check()
    publish.check()
    _check_any(summary, plan)
    return INTERRUPTED if interrupted else 0


@contextlib.contextmanager
def _events(
    outputs: Outputs, account: "Account", anchor: "Anchor"
) -> "Iterator[Publisher | NoPublisher]":
    """Who publishes each outcome and the load, if anybody is to."""
    from sidecar.events import NoPublisher, Publisher

    if outputs.kafka is None:
        yield NoPublisher()
        return
    from sidecar.publish import publishing
    from slackwater.settings import RunSettings

    settings = RunSettings.from_env(bootstrap=outputs.kafka)
    with publishing(settings, outputs.sidecar, logging.getLogger("slackwater.load")) as outbox:
        yield Publisher(outbox, account, anchor)


def _wait(thread: "LoadThread", plan: "Plan", account: "Account") -> bool:
    """Show how far it is until it has ended; True when a person ended it.

    The first interrupt lets nothing more come due, the second gives up what is in flight.
    """
    interrupts: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        (thread.abort if interrupts else thread.stop)()
        interrupts.append(number)

    before = {n: signal.signal(n, interrupt) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        with _progress(plan) as show:
            while thread.is_alive():
                show(account)
                thread.join(LOOK_S)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return bool(interrupts)


@contextlib.contextmanager
def _progress(plan: "Plan") -> "Iterator[Callable[[Account], object]]":
    """A bar on stderr, when a person looks at it."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(plan.name, total=plan.total)
        yield lambda account: bar.update(
            task,
            completed=account.scheduled,
            description=f"{plan.name}, {account.in_flight} in flight",
        )


def _check_any(summary: "Summary", plan: "Plan") -> None:
    report = summary.report
    if report.scheduled and not report.ended["ok"]:
        first = next(iter(summary.errors), "nothing was sent")
        msg = (
            f"none of {report.scheduled} requests to {plan.job.endpoint.target} ended well; "
            f"most often: {first}"
        )
        raise SlackwaterError(msg)
