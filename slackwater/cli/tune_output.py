"""The tuning for people: default beside tuned, on training runs and on held-out ones."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from slackwater.printable import printable

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table

    from calibration.tuning.tuned import Summary, Tuned
    from slackwater.cli.tune_job import Tuning

LEGEND = (
    "harmed: requests that the windows touch, of all; gain: how far below random schedules with as "
    "many merges, mean over runs; oracle: share of the best schedule's gain; pinned: runs whose "
    "merges are so few or many that their gain does not count. Held-out runs are scored by what a "
    "search without them found."
)
MANY_MORE = 1.1


def print_tuned(tuned: "Tuned", path: "Path", console: "Console") -> None:
    """The table, the settings by name, what to know, and what to type next."""
    console.print(_table(tuned))
    console.print(LEGEND, highlight=False)
    console.print(_settings(tuned))
    for line in notes(tuned):
        console.print(f"note: {line}", highlight=False, markup=False)
    live = " ".join(f"--set controller.{n}={value:g}" for n, value in tuned.settings.items())
    console.print(f"live: slackwater stream --policy {tuned.policy} {live}", soft_wrap=True)
    named = printable(str(path))
    console.print(
        f"wrote {named}; run it with: slackwater evaluate TRACE --settings {named} --claim "
        f"{tuned.policy}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


@contextlib.contextmanager
def told(tuning: "Tuning", advance: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """`advance`, with a line on stderr at the start and after each round where no bar is shown."""
    if sys.stderr.isatty():
        yield advance
        return
    job, sources, done = tuning.job, tuning.sources, 0
    sys.stderr.write(
        f"slackwater: {job.policy}: {job.candidates + 1} candidates on {sources} "
        f"source{'s' if sources > 1 else ''} of runs, then {job.rounds} rounds around the best: "
        f"{tuning.steps} passes\n"
    )

    def counted() -> None:
        nonlocal done
        advance()
        done += 1
        if done % sources == 0:
            at = done // sources - 1
            name = f"round {at} of {job.rounds}" if at else "candidates"
            sys.stderr.write(f"slackwater: {name} done\n")

    yield counted


def notes(tuned: "Tuned") -> list[str]:
    """What a person must know to read the figures."""
    told = []
    scores = tuned.scores
    if scores.held_out_tuned is None or scores.held_out_default is None:
        told.append("not cross-validated: two training runs or more, and --folds 2 or more, do it")
    elif scores.held_out_tuned.objective <= scores.held_out_default.objective:
        told.append("on held-out runs the tuned settings are no better than the default ones")
    more = scores.training_tuned.budget / scores.training_default.budget
    if more > MANY_MORE:
        told.append(
            f"tuned, it merges {more:.1f} times as often: the gain is that of placement alone, and "
            "what is harmed in all may rise"
        )
    segments = [t.name for t in tuned.training if t.runs > 1]
    if segments:
        told.append(
            f"{', '.join(segments)}: runs are segments of one trace, so held-out runs are no "
            "traffic of another kind"
        )
    return told


def _table(tuned: "Tuned") -> "Table":
    from rich.table import Table

    scores = tuned.scores
    table = Table(
        title=f"{tuned.policy}: {tuned.search.candidates_scored} candidates on "
        f"{scores.training_default.runs} runs; figures in %",
        title_justify="left",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("runs", no_wrap=True)
    table.add_column("settings", no_wrap=True)
    for name in ("merges", "harmed", "gain", "oracle", "pinned"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = [
        ("training", "default", scores.training_default),
        ("training", "tuned", scores.training_tuned),
        ("held out", "default", scores.held_out_default),
        ("held out", "tuned", scores.held_out_tuned),
    ]
    for runs, settings, summary in rows:
        if summary is not None:
            table.add_row(runs, settings, *_row(summary))
    return table


def _row(summary: "Summary") -> list[str]:
    return [
        f"{summary.budget:.1f}",
        f"{summary.cost_pp:.1f}",
        f"{100 * summary.gain:.1f}",
        "-" if summary.capture is None else f"{100 * summary.capture:.1f}",
        f"{summary.pinned_runs} of {summary.runs}",
    ]


def _settings(tuned: "Tuned") -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("setting", no_wrap=True)
    for name in ("default", "tuned", "searched"):
        table.add_column(name, justify="right", no_wrap=True)
    folds = tuned.search.folds_found
    if folds:
        table.add_column("without a fold", justify="right")
    for parameter in tuned.search.parameters:
        name = parameter["name"]
        row = [
            name,
            f"{parameter['default']:g}",
            f"{tuned.settings[name]:g}",
            f"{parameter['low']:g} to {parameter['high']:g}",
        ]
        table.add_row(*row, *([" ".join(f"{f[name]:g}" for f in folds)] if folds else []))
    return table
