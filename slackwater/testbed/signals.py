"""Ctrl-C and its kin as a flag that the supervisor's loop reads, never an exception in the middle.

The first signal asks for an orderly end, a second one hastens it.
"""

import signal
from types import FrameType, TracebackType

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):  # noqa: N818 - it is a wish, not an error
    """A person or a service manager asked for the end."""


class StopSignals:
    """Context manager that catches SIGINT, SIGTERM and SIGHUP and counts them.

    Attributes:
        first: the first signal that came, None while none has.
        count: how many came.
    """

    def __init__(self) -> None:
        self.first: signal.Signals | None = None
        self.count = 0
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> "StopSignals":
        for number in STOP_SIGNALS:
            # nohup ignores SIGHUP on purpose; a script's background job ignores SIGINT by accident.
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @property
    def hasten(self) -> bool:
        """True when the end was asked for more than once."""
        return self.count > 1

    @property
    def exit_code(self) -> int:
        """What the shell expects of a program ended by the first signal: 130 for Ctrl-C."""
        return 128 + (self.first or signal.SIGINT)

    def check(self) -> None:
        """Raise `Interrupted` once a signal has come."""
        if self.first is not None:
            raise Interrupted

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.first = self.first or signal.Signals(number)
        self.count += 1
