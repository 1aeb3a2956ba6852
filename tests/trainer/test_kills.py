"""Learners are killed -9 around their merges, and come back: no split merge, no endless wait."""

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import Fleet, run_loop, run_one

TIMEOUT_S = 6.0
# Beyond the time-out itself: a process that waits for the processor.
SLACK_S = 3.0


@pytest.fixture
def fleet(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Fleet]:
    work = getattr(request, "param", run_one)
    made = Fleet(tmp_path, learners=3, timeout_s=TIMEOUT_S, work=work)
    made.start_meeting()
    for name in made.names:
        made.start(name)
    yield made
    made.end()


def survive(fleet: Fleet, seed: int, kills: int) -> None:
    """Kill one after another; each comes back and merges with all the others."""
    chance = random.Random(seed)
    fleet.until(fleet.full_merge)
    for number in range(kills):
        victim = chance.choice(fleet.names)
        if number % 4:
            # At a random moment of a merge.
            begun = fleet.text(victim).count(" begins")
            fleet.until(lambda v=victim, b=begun: fleet.text(v).count(" begins") > b)
            time.sleep(chance.uniform(0, 0.06))
        else:
            time.sleep(chance.uniform(0, 0.5))
        before = max(m.epoch for name in fleet.names for m in fleet.merged(name))
        fleet.kill(victim)
        if number % 10 == 9:
            fleet.kill("meeting")
            fleet.start_meeting()
        fleet.start(victim)
        fleet.until(lambda b=before: (fleet.full_merge() or 0) > b)
        assert "takes the group's weights after" in fleet.text(victim)
    split = {epoch: found for epoch, found in fleet.all_digests().items() if len(found) > 1}
    assert split == {}
    assert max((s for s, _ in fleet.refusals()), default=0.0) < TIMEOUT_S + SLACK_S


def test_two_killed_learners_come_back_and_all_hold_the_same(fleet: Fleet) -> None:
    survive(fleet, seed=1, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("fleet", [run_loop], indirect=True)
def test_killed_loops_of_ones_own_come_back_and_all_hold_the_same(fleet: Fleet) -> None:
    survive(fleet, seed=2, kills=3)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [11])
def test_fifty_killed_learners_and_five_killed_meeting_places(fleet: Fleet, seed: int) -> None:
    survive(fleet, seed=seed, kills=50)
