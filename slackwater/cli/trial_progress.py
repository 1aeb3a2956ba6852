"""What a trial says while it is played: what it will play, where it is and what is left."""

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from sidecar.trial.design import TrialDesign
    from sidecar.trial.play import Progress

LINE_S = 10.0
PHASES = {"starting the replay": "starting the load"}


def plan(design: "TrialDesign") -> str:
    """What will be played, in one line, and whether it can claim anything."""
    from calibration.gate import MIN_RUNS

    arms = design.runs // design.blocks
    few = f"; fewer than {MIN_RUNS} blocks can claim nothing" if design.blocks < MIN_RUNS else ""
    blocks = "1 block" if design.blocks == 1 else f"{design.blocks} blocks"
    return (
        f"{blocks} of {arms} runs of {design.run_s:g} s: about {left(design.lasts_s)} in all{few}"
    )


class Saying:
    """Where it is: one live line on a terminal, else lines, ten seconds apart at the most."""

    def __init__(self, console: "Console", wants_plain: bool) -> None:
        self._console = console
        self._live = console.is_terminal and not wants_plain
        self._status = console.status("") if self._live else None
        self._due_s = 0.0
        self._last: tuple[object, ...] = ()
        if self._status is not None:
            self._status.start()

    def word(self, text: str) -> None:
        """Something else than the progress of a run."""
        if self._status is not None and text.startswith("starting"):
            self._status.update(text)
        elif self._last != (text.partition(":")[0],) or time.monotonic() >= self._due_s:
            self._last = (text.partition(":")[0],)
            self._due_s = time.monotonic() + LINE_S
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def progress(self, now: "Progress") -> None:
        """A run is being played."""
        stage = (now.number, now.status.phase)
        due = time.monotonic() >= self._due_s
        if not due and (self._status is not None or stage == self._last):
            return
        self._last = stage
        self._due_s = time.monotonic() + (0.5 if self._status is not None else LINE_S)
        text = line(now)
        if self._status is not None:
            self._status.update(text)
        else:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def end(self) -> None:
        """Nothing more will be said."""
        if self._status is not None:
            self._status.stop()


def line(now: "Progress") -> str:
    """One line on a run: `run 7 of 48, block 2: slack, running 83 s, ...`."""
    status = now.status
    played = "" if status.played_s is None else f" {status.played_s:.0f} s"
    seen = ""
    if status.snapshot is not None:
        requests = status.snapshot.counts["requests"]
        seen = f", {requests:,} requests, {status.snapshot.merge_counts['finished']} merges"
    return (
        f"run {now.number} of {now.runs}, block {now.run.block}: {now.run.arm}, "
        f"{PHASES.get(status.phase, status.phase)}{played}{seen}; {left(now.left_s)} left"
    )


def left(seconds: float) -> str:
    """`3 h 20 min`, `12 min`, `under a minute`."""
    minutes = round(seconds / 60)
    if minutes < 1:
        return "under a minute"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min"
