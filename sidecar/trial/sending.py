"""The load of one run as a part of it: sent from a thread here, published under the run's name."""

import contextlib
import logging
import time
from pathlib import Path
from typing import Any

import msgspec

from sidecar.events import Publisher
from sidecar.load import (
    Account,
    Anchor,
    Endpoint,
    Limits,
    LoadReport,
    LoadThread,
    Outcome,
    Scheduled,
    start_open_loop,
)
from sidecar.load.summary import Tally
from sidecar.publish import publishing
from slackwater.errors import BrokerError
from slackwater.settings import RunSettings
from slackwater.testbed.parts import Part, PartSpec

SIDECAR = "server"
NAME = "load"
END_S = 10.0


class SendingPart(Part):
    """Sends a schedule to a server, and to the broker what it saw of each request and of the load.

    A thread and no process: it starts at once when the learners are there.

    Args:
        endpoint: the server.
        schedule: what is sent.
        limits: of the client.
        settings: broker, prefix and run.
        folder: for its log.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        schedule: list[Scheduled],
        limits: Limits,
        settings: RunSettings,
        folder: Path,
    ) -> None:
        super().__init__(PartSpec(NAME, [], leaves_by_itself=True), folder)
        self._endpoint, self._schedule, self._limits = endpoint, schedule, limits
        self._settings = settings
        self._stack = contextlib.ExitStack()
        self._tally = Tally()
        self._thread: LoadThread | None = None
        self._publisher: Publisher | None = None
        self._said: dict[str, Any] | None = None

    def start(self) -> None:
        """Begin to send; raises `BrokerError` when the broker is not there."""
        log = logging.getLogger("slackwater.trial")
        outbox = self._stack.enter_context(publishing(self._settings, SIDECAR, log))
        account, anchor = Account(), Anchor.now()
        publisher = self._publisher = Publisher(outbox, account, anchor)
        self._outbox = outbox

        def take(outcome: Outcome) -> None:
            self._tally.add(outcome)
            publisher.outcome(outcome)

        self._thread = start_open_loop(
            self._endpoint,
            self._schedule,
            beside=publisher.sample,
            on_outcome=take,
            limits=self._limits,
            anchor=anchor,
            account=account,
        )

    @property
    def running(self) -> bool:
        """True until the last answer is there; then its events are sent to their end."""
        if self._thread is None or self.exit_code is not None:
            return False
        if self._thread.is_alive():
            return True
        self._finish(self._thread)
        return False

    @property
    def ready(self) -> bool:
        """True once it sends."""
        return self._thread is not None

    def terminate(self) -> None:
        """Let nothing more come due."""
        if self._thread is not None and self.running:
            self._thread.stop()

    def kill(self) -> None:
        """Give up what is in flight."""
        if self._thread is not None and self.running:
            self._thread.abort()
            self._thread.join(END_S)
            self._finish(self._thread)

    def summary(self) -> dict[str, Any] | None:
        """What was sent and how it ended; None before its end."""
        return self._said

    def check(self, now_s: float | None = None) -> None:  # noqa: ARG002
        """Raise `PartError` when it ended badly."""
        if self._thread is not None and not self.running and self.exit_code:
            what = "failed"
            raise self.failure(what)

    def _finish(self, thread: LoadThread) -> None:
        """Take its report, send what is left of its events, and note how it ended."""
        assert self._publisher is not None  # noqa: S101 - made as the thread was
        self._stack.close()
        self.exit_code = 0
        try:
            report = thread.result(0)
            self._said = self._summary(report)
            self._publisher.check()
        except BaseException as error:
            self.exit_code = 1
            why = str(error) if isinstance(error, BrokerError) else f"{error!r}"
            self.log_path.write_text(f"{time.strftime('%X')} {why}\n")

    def _summary(self, report: LoadReport) -> dict[str, Any]:
        figures = msgspec.to_builtins(self._tally.summary(report))
        wanted = ("report", "e2e", "lag", "prompt_tokens", "output_tokens", "errors")
        return {
            "acked": self._outbox.counts().sent,
            **{name: figures[name] for name in wanted},
        }
