"""Where a run shows itself while it lasts: redrawn in place on a terminal, else a line at times."""

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from rich.console import Console
from rich.live import Live

from slackwater.testbed import plain, screen
from slackwater.testbed.status import Status

REDRAW_S = 0.25
LINE_S = 5.0

Show = Callable[[Status], None]


class RunConsole(Console):
    """A console whose reader may leave: the run goes on and the rest is told to nobody."""

    def on_broken_pipe(self) -> None:
        """Write no more; rich would end the program here."""
        self.quiet = True
        with Path(os.devnull).open("wb") as nobody:
            os.dup2(nobody.fileno(), self.file.fileno())


def view_for(console: Console, *, wants_plain: bool) -> AbstractContextManager[Show]:
    """The live screen where the console can redraw, plain lines elsewhere."""
    if wants_plain or not console.is_terminal or console.is_dumb_terminal:
        return plain_view(console)
    return live_view(console)


@contextlib.contextmanager
def live_view(console: Console) -> Iterator[Show]:
    """The screen of `screen.picture`, drawn by the caller's thread and gone at the end."""
    live = Live(console=console, auto_refresh=False, transient=True)

    def draw(status: Status) -> None:
        live.update(screen.picture(status), refresh=True)

    live.start()
    try:
        yield _while_it_can_be_seen(_at_most_every(REDRAW_S, draw))
    finally:
        with contextlib.suppress(OSError):  # The terminal is gone.
            live.stop()


@contextlib.contextmanager
def plain_view(console: Console) -> Iterator[Show]:
    """A line whenever the phase changes, and every five seconds once there are figures."""
    last: list[str] = []
    paced = _at_most_every(LINE_S, lambda status: _print_line(console, status))

    def show(status: Status) -> None:
        if last != [status.phase]:
            last[:] = [status.phase]
            _print_line(console, status)
        elif plain.has_figures(status):
            paced(status)

    yield _while_it_can_be_seen(show)


def _print_line(console: Console, status: Status) -> None:
    console.print(plain.line(status), soft_wrap=True, highlight=False, markup=False)


def _while_it_can_be_seen(draw: Show) -> Show:
    """Stops drawing when the terminal or the pipe has been closed: no reason to end a run."""
    closed = False

    def show(status: Status) -> None:
        nonlocal closed
        try:
            if not closed:
                draw(status)
        except OSError:
            closed = True

    return show


def _at_most_every(
    period_s: float, draw: Show, monotonic: Callable[[], float] = time.monotonic
) -> Show:
    due_s = monotonic()

    def paced(status: Status) -> None:
        nonlocal due_s
        if monotonic() >= due_s:
            due_s = monotonic() + period_s
            draw(status)

    return paced
