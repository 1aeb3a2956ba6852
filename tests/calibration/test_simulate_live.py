"""What is evaluated is what is deployed: the live engine places as the simulation does."""

from collections.abc import Iterator

import numpy as np
import pytest
from small_runs import CORRIDOR, bursty_requests, entrants

from calibration.observed import observed_bins
from calibration.serving import Requests
from calibration.simulate import Segment, simulate
from controller.engine import Engine
from controller.policies import POLICIES
from slackwater.events import Finished, Heartbeat, MergeCommand, Step

CELL_US = 500_000
TOKENS_PER_STEP = 1_000_000 / 32


def live_starts(requests: Requests, policy: str) -> Iterator[tuple[int, str]]:
    """Start cells and reasons of an engine that commands a learner whose steps are cells."""
    (entrant,) = entrants(policies=(policy,))
    engine = Engine(entrant.settings, [entrant.policy], run_id="r")
    for row in observed_bins(requests):
        engine.observe(row)
    last, command = 0, None
    for cell in range(1, CORRIDOR.cells):
        at_us = cell * CELL_US
        if command is not None and cell == command.at_step + CORRIDOR.window_cells:
            engine.observe(_finished(command, at_us - 1))
            last, command = command.at_step, None
        if command is None:
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
    live = [made for made in live_starts(requests, policy) if made[0] <= CORRIDOR.last_start]
    assert live == simulated
    assert len(live) > 2
