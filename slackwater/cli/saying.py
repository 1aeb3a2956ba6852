"""Where a long measurement is: one live line on a terminal, else lines some seconds apart."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

LINE_S = 10.0
LIVE_S = 0.5


class Saying:
    """Call `end` when nothing more will be said.

    Args:
        console: where it is said.
        wants_plain: lines on a terminal too.
    """

    def __init__(self, console: "Console", wants_plain: bool) -> None:
        self._console = console
        self._status = console.status("") if console.is_terminal and not wants_plain else None
        self._due_s = 0.0
        self._last: object = None
        if self._status is not None:
            self._status.start()

    def word(self, text: str) -> None:
        """Something else than progress; texts alike up to a colon are one, said now and then."""
        if self._status is not None and text.startswith("starting"):
            self._status.update(text)
        elif self._last != (stage := text.partition(":")[0]) or time.monotonic() >= self._due_s:
            self._said(stage)
            self._print(text)

    def progress(self, text: str, stage: object) -> None:
        """Where it is; a line at once when it is at another stage, a live one is one anyway."""
        due = time.monotonic() >= self._due_s
        if not due and (self._status is not None or stage == self._last):
            return
        self._said(stage)
        if self._status is not None:
            self._status.update(text)
        else:
            self._print(text)

    def end(self) -> None:
        """Nothing more will be said."""
        if self._status is not None:
            self._status.stop()

    def _said(self, stage: object) -> None:
        self._last = stage
        self._due_s = time.monotonic() + (LINE_S if self._status is None else LIVE_S)

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)
