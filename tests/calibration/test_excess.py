"""What windows add to a run's violations is told from the other runs of its block."""

from bisect import bisect_right

import numpy as np
import pytest
from numpy.typing import NDArray

from calibration.paired import ServedRun, excess_violations

Floats = NDArray[np.float64]
RUN_S, WINDOW_S, SLO_S, SERVICE_S = 300.0, 2.0, 0.3, 0.04
SLOW = (1.0, 1.25)
"""How a machine's speed differs from run to run: by a quarter."""


def load(rng: np.random.Generator) -> tuple[Floats, NDArray[np.bool_]]:
    """Arrivals of a minute's burst and quiet in turn: 18 a second for 6 s, 6 a second for 12 s."""
    candidates = np.sort(rng.uniform(0, RUN_S, round(18 * RUN_S)))
    busy = candidates % 18 < 6
    kept = busy | (rng.random(len(candidates)) < 1 / 3)
    return candidates[kept], busy[kept]


def served(arrival_s: Floats, windows_s: Floats, slow: float, slowed: float) -> Floats:
    """Latencies of a queue of one server: service takes `slow` times, in a window `slowed` more."""
    opens, closes = windows_s[:, 0].tolist(), windows_s[:, 1].tolist()
    free_s, took = 0.0, []
    for at_s in arrival_s.tolist():
        begins_s = max(at_s, free_s)
        last = bisect_right(opens, begins_s) - 1
        within = last >= 0 and begins_s < closes[last]
        free_s = begins_s + SERVICE_S * slow * (slowed if within else 1.0)
        took.append(free_s - at_s)
    return np.array(took)


def quiet_moments(arrival_s: Floats, took_s: Floats) -> Floats:
    """Windows that open where nothing has been in flight for a while, 8 s apart or more."""
    ends = np.sort(arrival_s + took_s)
    starts: list[float] = []
    for at_s in np.arange(3.0, RUN_S - 5, 0.1):
        inside = np.searchsorted(arrival_s, at_s) - np.searchsorted(ends, at_s)
        recent = np.searchsorted(arrival_s, at_s) - np.searchsorted(arrival_s, at_s - 1.5)
        if inside == 0 and recent <= 8 and (not starts or at_s > starts[-1] + 8):
            starts.append(float(at_s))
    return np.array(starts)


def anywhere(count: int, rng: np.random.Generator) -> Floats:
    """As many windows, at random moments 8 s apart or more."""
    spare_s = RUN_S - 8 - 8.0 * count
    return np.sort(rng.uniform(0, spare_s, count)) + 3 + 8.0 * np.arange(count)


def block(seed: int, slowed: float) -> tuple[list[ServedRun], list[float]]:
    """A policy that opens windows where it is quiet, its control, and two runs at other moments.

    Also how many violations the windows of the first two really added.
    """
    rng = np.random.default_rng(seed)
    arrival_s, _ = load(rng)
    speeds = rng.uniform(*SLOW, 4)
    calm = quiet_moments(arrival_s, served(arrival_s, np.zeros((0, 2)), 1.0, 1.0))
    runs, true = [], []
    for i, starts in enumerate([calm, *(anywhere(len(calm), rng) for _ in range(3))]):
        windows_s = np.stack([starts, starts + WINDOW_S], axis=1)
        late = served(arrival_s, windows_s, speeds[i], slowed) > SLO_S
        alone = served(arrival_s, np.zeros((0, 2)), speeds[i], 1.0) > SLO_S
        runs.append(ServedRun(arrival_s, late, windows_s))
        true.append(float(late.sum()) - float(alone.sum()))
    return runs, true


def gain(runs: list[ServedRun]) -> float:
    """How much less the policy's windows added than its control's."""
    calm, random = excess_violations(runs, SLO_S)[:2]
    assert calm is not None
    assert random is not None
    return random - calm


def test_windows_that_do_nothing_spare_nothing_however_calm_the_moments_that_a_policy_picks() -> (
    None
):
    gains, shares = [], []
    for seed in range(20):
        runs, _ = block(seed, 1.0)
        gains.append(gain(runs))
        shares.append(float(runs[1].violates.mean()))
    # Bursts violate by themselves, and there is much that a bad estimate could call a gain.
    assert np.mean(shares) > 0.03
    assert abs(np.mean(gains)) < 3 * np.std(gains) / np.sqrt(len(gains))
    assert abs(np.mean(gains)) < 0.005 * len(runs[0].violates)


def test_what_windows_add_is_found_and_machines_of_other_speeds_hide_it_less() -> None:
    found, true, raw = [], [], []
    for seed in range(20):
        runs, added = block(seed, 1.4)
        found.append(gain(runs))
        true.append(added[1] - added[0])
        raw.append(float(runs[1].violates.sum()) - float(runs[0].violates.sum()))
    assert np.mean(true) > 20
    # A backlog that outlasts the second after a window is not in it.
    assert 0.75 * np.mean(true) < np.mean(found) < 1.05 * np.mean(true)
    assert np.std(np.array(found) - true) < np.std(np.array(raw) - true) / 2


def test_requests_that_met_a_window_in_every_run_are_taken_as_others() -> None:
    arrival_s = np.arange(0.0, 100.0, 0.5)
    windows_s = np.array([[50.0, 52.0]])
    violates = (arrival_s >= 50) & (arrival_s < 52)
    everywhere = [ServedRun(arrival_s, violates, windows_s)] * 2
    assert excess_violations(everywhere, SLO_S) == [4.0, 4.0]


def test_harm_is_looked_for_from_the_objective_before_a_window_to_a_second_after() -> None:
    arrival_s = np.arange(0.0, 100.0, 0.25)
    nobody = ServedRun(arrival_s, np.zeros(400, np.bool_), np.zeros((0, 2)))
    windows_s = np.array([[50.0, 52.0]])
    for at_s, added in ((49.5, 0.0), (49.75, 1.0), (52.75, 1.0), (53.0, 0.0)):
        one = ServedRun(arrival_s, arrival_s == at_s, windows_s)
        assert excess_violations([one, nobody], SLO_S)[0] == pytest.approx(added, abs=0.05)


def test_without_windows_nothing_is_added_and_without_others_it_is_not_known() -> None:
    arrival_s, violates = np.arange(99.0), np.ones(99, np.bool_)
    nobody = ServedRun(arrival_s, violates, np.zeros((0, 2)))
    always = ServedRun(arrival_s, violates, np.array([[-1.0, 199.0]]))
    alone = ServedRun(arrival_s, violates, np.array([[5.0, 9.0]]))
    assert excess_violations([nobody, always], SLO_S) == [0.0, None]
    assert excess_violations([alone], SLO_S) == [None]
