"""What is evaluated is what is deployed: the live engine places as the simulation does."""

from collections.abc import Iterator

import numpy as np
import pytest
from small_runs import CORRIDOR, bursty_requests, entrants, uneven_requests

from calibration.contender import Entrant
from calibration.observed import observed_bins
from calibration.placement.corridor import Corridor
from calibration.serving import Requests
from calibration.simulate import Segment, simulate
from controller.engine import Engine
from controller.policies import POLICIES
from slackwater.events import Finished, Heartbeat, MergeCommand, Started, Step

CELL_US = 500_000
TOKENS_PER_STEP = 1_000_000 / 32


def live_starts(requests: Requests, entrant: Entrant) -> Iterator[tuple[int, str]]:
    """Start cells and reasons of an engine that commands a learner whose steps are cells."""
    engine = Engine(entrant.settings, [entrant.policy], run_id="r")
    for row in observed_bins(requests):
        engine.observe(row)
    last, command = 0, None
    for cell in range(1, round(requests.duration_s * 1e6) // CELL_US):
        at_us = cell * CELL_US
        if command is not None and cell == command.at_step + CORRIDOR.window_cells:
            engine.observe(_finished(command, at_us - 1))
            last, command = command.at_step, None
        if command is not None and cell == command.at_step:
            engine.observe(_started(command, at_us))
        if command is None or cell < command.at_step:
            engine.observe(_step(cell - 1, last, at_us))
        else:
            engine.observe(Heartbeat(run_id="r", at_us=at_us, learner="a"))
        for decision, made in engine.advance(at_us):
            if made is not None:
                command = made
                yield made.at_step, decision.reason


def _step(step: int, last: int, at_us: int) -> Step:
    return Step(
        run_id="r",
        at_us=at_us,
        learner="a",
        step=step,
        tokens=round(TOKENS_PER_STEP),
        step_time_s=0.5,
        steps_since_merge=step - last,
        tokens_since_merge=round((step - last) * TOKENS_PER_STEP),
    )


def _started(command: MergeCommand, at_us: int) -> Started:
    return Started(
        run_id="r",
        at_us=at_us,
        group="default",
        learner="a",
        merge_id=command.merge_id,
        step=command.at_step,
    )


def _finished(command: MergeCommand, at_us: int) -> Finished:
    return Finished(
        run_id="r",
        at_us=at_us,
        group="default",
        learner="a",
        merge_id=command.merge_id,
        step=command.at_step,
        seconds=command.window_s,
        bytes_exchanged=0,
    )


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_live_engine_places_as_the_simulation_does(policy: str) -> None:
    requests = bursty_requests(np.random.default_rng(9), 120.0)
    (placed,) = simulate(requests, [Segment(0, CORRIDOR)], entrants(policies=(policy,)))
    simulated = [(merge.start_cell, merge.reason) for merge in placed[policy]]
    # Only a simulated run knows where it ends, and what no longer fits.
    (entrant,) = entrants(policies=(policy,))
    live = [made for made in live_starts(requests, entrant) if made[0] <= CORRIDOR.last_start]
    assert live == simulated
    assert len(live) > 2


@pytest.mark.parametrize("policy", ["slack", "fixed_h", "wa_forecast"])
def test_live_engine_keeps_the_bound_on_harm_as_the_simulation_does(policy: str) -> None:
    corridor = Corridor(480, 8, 16, 64)
    requests = uneven_requests(np.random.default_rng(2), 240.0)
    made = {}
    for bound in (None, 1.05):
        (entrant,) = entrants(corridor, (policy,), lead_s=1.0, max_burden=bound)
        (placed,) = simulate(requests, [Segment(0, corridor)], [entrant])
        made[bound] = [(merge.start_cell, merge.reason) for merge in placed[policy]]
        live = live_starts(requests, entrant)
        assert [one for one in live if one[0] <= corridor.last_start] == made[bound]
    assert made[None] != made[1.05]
