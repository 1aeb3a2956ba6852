"""How runs are scored: corridor in cells, serving model and draws, in one frozen object."""

from dataclasses import dataclass

from calibration.placement.corridor import Corridor
from calibration.serving import ServingModel
from calibration.serving.cells import whole_cells
from slackwater.errors import InputError


@dataclass(frozen=True, slots=True)
class Protocol:
    """How runs are scored.

    Attributes:
        corridor: of every run, in cells.
        cell_s: length of a cell in seconds.
        model: what a window costs. `overlap` adds up over windows; the others are scored as if
            each window stood alone.
        draws: random schedules drawn for each budget.
        seed: of the draws.
        slo_s: a request that takes longer violates.
    """

    corridor: Corridor
    cell_s: float
    model: ServingModel
    draws: int
    seed: int
    slo_s: float = 1.0

    def __post_init__(self) -> None:
        if self.draws < 1:
            msg = f"draws is {self.draws}; an envelope needs 1 or more, 10000 as a rule"
            raise InputError(msg)

    @property
    def window_s(self) -> float:
        """Length of a window in seconds."""
        return self.corridor.window_cells * self.cell_s

    @property
    def run_s(self) -> float:
        """Length of a run in seconds."""
        return self.corridor.cells * self.cell_s


def corridor_of(
    run_s: float, window_s: float, min_gap_s: float, max_gap_s: float, cell_s: float
) -> Corridor:
    """The corridor of a run in cells, with at least one budget of 1 or more.

    Raises:
        InputError: a length is no whole number of cells, merges would overlap, or no budget
            fits; the message says which, and the budgets at the corridor's two ends.
    """
    cells = (
        whole_cells(run_s, cell_s, "a run"),
        whole_cells(window_s, cell_s, "a window"),
        whole_cells(min_gap_s, cell_s, "the least gap"),
        whole_cells(max_gap_s, cell_s, "the largest gap"),
    )
    if min_gap_s > max_gap_s:
        msg = (
            f"the largest gap of {max_gap_s:g} s is below the least gap of {min_gap_s:g} s; raise "
            "the one or lower the other"
        )
        raise InputError(msg)
    shown = f"a run of {run_s:g} s with windows of {window_s:g} s"
    if window_s > min_gap_s:
        msg = (
            f"a window of {window_s:g} s is longer than the least gap of {min_gap_s:g} s: two "
            "merges would overlap; raise the least gap"
        )
        raise InputError(msg)
    corridor = Corridor(*cells)
    if run_s < min_gap_s + window_s:
        msg = (
            f"{shown} is shorter than a corridor: the first merge may start at {min_gap_s:g} s "
            f"and would end at {min_gap_s + window_s:g} s; take longer runs or a lower least gap"
        )
        raise InputError(msg)
    fitting = corridor.budgets()
    if not fitting:
        msg = (
            f"no budget fits {shown} and gaps of {min_gap_s:g} to {max_gap_s:g} s: the largest "
            f"gap asks for {fitting.start} merges or more, the least allows {fitting.stop - 1} at "
            "the most; widen the corridor or change the length of the runs"
        )
        raise InputError(msg)
    return corridor
