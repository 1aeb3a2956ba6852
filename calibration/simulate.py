"""Controller policies run over served requests in a corridor of seconds, by the live code.

The ticks of a run are the cells of its grid. What is known at a tick is what the bins closed by
then say: nothing looks ahead. A merge changes nothing of the load: the requests are those of a
run without merges, the same for all policies, so the signals are made once and shared.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

import msgspec

from calibration.contender import Contender, Entrant, Merge, Seen
from calibration.observed import BIN_S, observed_bins
from calibration.placement.corridor import Corridor
from calibration.serving.contract import Requests
from controller.decider import Outcome
from controller.outlook import Outlook, OutlookSettings
from controller.settings import ControllerSettings
from slackwater.clock import US_PER_S
from slackwater.errors import InputError
from slackwater.events import BinRow

CELL_S = 0.5


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a trace that is one run: its first cell, and the corridor within it."""

    first_cell: int
    corridor: Corridor


@dataclass(frozen=True, slots=True)
class Decided:
    """One policy's decision at one tick; `cell` counts from the segment's begin."""

    segment: int
    entrant: str
    cell: int
    outcome: Outcome
    merge: Merge | None


def corridor_settings(
    base: ControllerSettings, corridor: Corridor, cell_s: float = CELL_S, lead_s: float = 0.0
) -> ControllerSettings:
    """Settings for a corridor in cells: one tick and one inner step is one cell.

    The fixed period is twice H_min, as the usual 256 steps are of 128, and at most H_max.
    Raises `InputError` for a window longer than H_min: two merges would overlap.
    """
    if corridor.window_cells > corridor.min_gap_cells:
        msg = (
            f"a window of {corridor.window_cells * cell_s:g} s is longer than the least gap of "
            f"{corridor.min_gap_cells * cell_s:g} s: two merges would overlap; raise the least gap"
        )
        raise InputError(msg)
    return msgspec.structs.replace(
        base,
        tick_s=cell_s,
        min_gap_steps=corridor.min_gap_cells,
        max_gap_steps=corridor.max_gap_cells,
        fixed_steps=min(2 * corridor.min_gap_cells, corridor.max_gap_cells),
        window_s=corridor.window_cells * cell_s,
        measure_window=False,
        command_lead_s=lead_s,
    )


def simulate(
    requests: Requests,
    segments: Sequence[Segment],
    entrants: Sequence[Entrant],
    *,
    cell_s: float = CELL_S,
) -> Iterator[dict[str, list[Merge]]]:
    """The merges of every policy by its name, one segment after another.

    Args:
        requests: served without merges, every `e2e_s` known; times count from cell 0.
        segments: in order, none overlapping. What lies before and between them is seen by the
            signals, which run through, and has no merges.
        entrants: the policies, with settings from `corridor_settings`. Those whose signals are
            made alike share them; each other half-life or memory is a pass of its own.
        cell_s: length of a cell in seconds.
    """
    passes = [_placed(requests, segments, group, cell_s) for group in alike(entrants)]
    for together in zip(*passes, strict=True):
        placed = {name: merges for one in together for name, merges in one.items()}
        yield {entrant.name: placed[entrant.name] for entrant in entrants}


def alike(entrants: Sequence[Entrant]) -> list[list[Entrant]]:
    """Groups of those whose signals are the same."""
    groups: dict[OutlookSettings, list[Entrant]] = {}
    for entrant in entrants:
        groups.setdefault(OutlookSettings.of(entrant.settings), []).append(entrant)
    return list(groups.values())


def _placed(
    requests: Requests, segments: Sequence[Segment], entrants: Sequence[Entrant], cell_s: float
) -> Iterator[dict[str, list[Merge]]]:
    """The merges of policies that share their signals, one segment after another."""
    decisions = groupby(
        decide(observed_bins(requests), segments, entrants, cell_s=cell_s),
        key=attrgetter("segment"),
    )
    waiting = next(decisions, None)
    for number in range(len(segments)):
        placed: dict[str, list[Merge]] = {entrant.name: [] for entrant in entrants}
        # A run too short for any decision has none.
        if waiting is not None and waiting[0] == number:
            for decided in waiting[1]:
                if decided.merge is not None:
                    placed[decided.entrant].append(decided.merge)
            waiting = next(decisions, None)
        yield placed


def decide(
    bins: Iterable[BinRow],
    segments: Sequence[Segment],
    entrants: Sequence[Entrant],
    *,
    cell_s: float = CELL_S,
    bin_s: float = BIN_S,
) -> Iterator[Decided]:
    """Every decision of every policy, tick after tick; `simulate` keeps the merges.

    The signals are made with the first entrant's settings, and `bins` must come in order of time.
    Ticks while a policy's merge is on its way or under way are left out: all they could say is
    that it is.
    """
    outlook = Outlook(OutlookSettings.of(entrants[0].settings), bin_s)
    feed = _Feed(bins, bin_s)
    cell_us, seen_until = round(cell_s * US_PER_S), 0
    for number, segment in enumerate(segments):
        start = segment.first_cell
        runs = [Contender(e, segment.corridor, start * cell_us) for e in entrants]
        end = start + segment.corridor.cells
        for tick in range(seen_until, end):
            feed.until(tick * cell_us, outlook)
            seen = Seen(tick, tick * cell_us, outlook)
            for run in runs if tick > start else ():
                made = run.tick(tick - start, seen)
                if made is not None:
                    yield Decided(number, run.entrant.name, tick - start, *made)
            outlook.remember(seen.tick_us, seen.load)
        seen_until = end


class _Feed:
    """Bins in order of time, handed on once they have closed."""

    def __init__(self, bins: Iterable[BinRow], bin_s: float) -> None:
        self._rows = iter(bins)
        self._bin_us = round(bin_s * US_PER_S)
        self._next = next(self._rows, None)

    def until(self, tick_us: int, outlook: Outlook) -> None:
        while self._next is not None and self._next.start_us + self._bin_us <= tick_us:
            outlook.observe(self._next)
            self._next = next(self._rows, None)
