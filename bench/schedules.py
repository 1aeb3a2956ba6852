"""When each arm of the quality study merges: as many merges in every arm, the last at the end.

A schedule is the steps after which the learners merge. The corridor is that of the paper (128 to
512 inner steps, 18 to 72 s) on a scale of 20 to 80 steps, a fixed period being twice H_min.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from calibration.contender import Entrant
from calibration.placement import Grid
from calibration.placement.corridor import Corridor
from calibration.simulate import CELL_S, Segment, corridor_settings, simulate
from controller.policies import policy_named
from controller.settings import ControllerSettings
from replay_producer.generators import generate
from slackwater.cli.evaluate_sources import LEAD_IN_S, served
from slackwater.errors import InputError

Schedule = list[int]

H_MIN, H_FIXED, H_MAX = 20, 40, 80
# 20 to 80 steps are then the 18 to 72 s of the replay's corridor.
STEP_S = 0.9
WINDOW_S = 8.0
REGIME = "bursty"
# Repeats until the run is over: bursts of four merges, which breaks both bounds.
BUNCHED = (157, 1, 1, 1)
# Runs of traffic looked at for each that `slack` gives the budget in.
RUNS_A_SEED = 20

KEPT = ("fixed_h", "irregular", "slack")
BROKEN = ("unbounded", "bunched", "one_at_end")


def schedules(seeds: int, budget: int) -> list[dict[str, Schedule]]:
    """For each seed the schedule of every arm; all but `one_at_end` have `budget` merges.

    Raises `InputError` for a budget that whole bursts do not fill.
    """
    if budget < 1 or budget % len(BUNCHED):
        msg = f"a budget of {budget} merges; it must be a multiple of {len(BUNCHED)}"
        raise InputError(msg)
    steps = budget * H_FIXED
    placed = itertools.islice(slack(seeds, budget), seeds)
    return [
        {
            "fixed_h": list(range(H_FIXED, steps + 1, H_FIXED)),
            "irregular": drawn(seed, budget, H_MIN, H_MAX),
            "slack": next(placed),
            "unbounded": drawn(seed, budget, 1, budget * H_FIXED),
            "bunched": bunched(budget),
            "one_at_end": [steps],
        }
        for seed in range(seeds)
    ]


def drawn(seed: int, budget: int, least: int, most: int) -> Schedule:
    """Drawn uniformly from all schedules whose gaps, the last included, keep these bounds."""
    steps = budget * H_FIXED
    # A "window" as long as the least gap keeps as much free after the last drawn merge.
    grid = Grid(np.ones(steps), least, least, most)
    (starts,) = grid.draw(budget - 1, 1, np.random.default_rng([seed, 3]))
    return [*starts.tolist(), steps]


def slack(seeds: int, budget: int) -> Iterator[Schedule]:
    """What the policy `slack` places on bursty traffic, run after run of one long trace.

    Runs that got another budget, or whose last merge is too near the end for a gap of H_min to the
    merge there, are passed over: that looks at the traffic, never at a loss.
    Raises `InputError` when the trace holds too few runs.
    """
    run_s = budget * H_FIXED * STEP_S
    cells, lead = round(run_s / CELL_S), round(LEAD_IN_S / CELL_S)
    gaps = (round(H_MIN * STEP_S / CELL_S), round(H_MAX * STEP_S / CELL_S))
    corridor = Corridor(cells, round(WINDOW_S / CELL_S), *gaps)
    runs = seeds * RUNS_A_SEED
    duration_s = LEAD_IN_S + runs * run_s
    settings = corridor_settings(ControllerSettings(), corridor)
    segments = [Segment(lead + n * cells, corridor) for n in range(runs)]
    requests = served(generate(REGIME, duration_s, seed=0), duration_s)
    entrant = Entrant("slack", policy_named("slack"), settings)
    for placed in simulate(requests, segments, [entrant]):
        starts = [merge.start_cell for merge in placed["slack"]]
        if len(starts) == budget - 1 and cells - starts[-1] >= corridor.min_gap_cells:
            yield [*(in_steps(start) for start in starts), budget * H_FIXED]
    msg = f"`slack` made {budget} merges in fewer than {seeds} of {runs} runs; try another budget"
    raise InputError(msg)


def in_steps(cell: int) -> int:
    """Whole steps done when a cell begins; gaps within the corridor stay within it."""
    return int(cell * CELL_S / STEP_S + 1e-9)


def bunched(budget: int) -> Schedule:
    """Bursts of four merges, a step apart, over and over."""
    return list(itertools.accumulate(itertools.islice(itertools.cycle(BUNCHED), budget)))
