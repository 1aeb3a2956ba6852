"""Made fleets under a switchback: thousands without an effect, and the rule of `slack` with one.

Harm is the requests that arrive in a window (fleets without an effect), or those in service too
(fleets with one). The coins and the random moments are those that the controller draws.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from calibration.placement.corridor import Corridor
from calibration.serving import Requests, start_costs
from calibration.serving.overlap import Counting
from calibration.switchback import Intervals
from controller.estimators import EwRate
from controller.history import CostHistory
from controller.overlap import expected_overlap
from controller.switchback import LEAST_POOL, POOL_GAPS, Switchback, coin_of
from slackwater.clock import US_PER_S
from slackwater.corridor import Corridor as Gaps

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# Seconds: the corridor and the window of the paper, on a grid of a second.
WINDOW_S, MIN_GAP_S, MAX_GAP_S = 8, 18, 72
MEAN_HARM = 64.0
CHUNK = 250

Traffic = Callable[[int, int, np.random.Generator], Floats]
"""(seconds, fleets, rng) -> [seconds, fleets] rate of arrivals, 1 on average."""
Law = Callable[[Floats], Floats]
"""Uniform numbers -> the gaps of a policy that does not look at traffic, seconds."""


def constant(seconds: int, fleets: int, rng: np.random.Generator) -> Floats:  # noqa: ARG001
    """The same rate for ever."""
    return np.ones((seconds, fleets))


def periodic(seconds: int, fleets: int, rng: np.random.Generator) -> Floats:
    """Bursts of 30 s at three times the rate, one every 120 s; each fleet has its own phase."""
    at = np.arange(seconds)[:, None] + rng.integers(0, 120, fleets)
    return np.asarray(np.where(at % 120 < 30, 2.0, 2 / 3))


def telegraph(seconds: int, fleets: int, rng: np.random.Generator) -> Floats:
    """Quiet and bursts of three times the rate in turn, of 6 and 3 s on average."""
    return np.asarray(np.power(3.0, _switching(seconds, fleets, 1 / 6, 1 / 3, rng)) * 0.6)


def slow(seconds: int, fleets: int, rng: np.random.Generator) -> Floats:
    """Hours of calm and of five times the rate: what a merge finds the next one finds too."""
    return np.asarray(np.power(5.0, _switching(seconds, fleets, 1 / 300, 1 / 300, rng)) / 3)


def daily(seconds: int, fleets: int, rng: np.random.Generator) -> Floats:
    """A rate that rises to nine times itself and falls again, every four hours, with bursts."""
    wave = np.power(3.0, np.sin(2 * np.pi * np.arange(seconds) / 14_400))[:, None]
    return np.asarray(wave * telegraph(seconds, fleets, rng))


def _switching(
    seconds: int, fleets: int, up: float, down: float, rng: np.random.Generator
) -> Floats:
    state = rng.random(fleets) < up / (up + down)
    states = np.empty((seconds, fleets))
    for second in range(seconds):
        turned = rng.random(fleets, np.float32) < np.where(state, down, up)
        state ^= turned
        states[second] = state
    return states


def soon(uniform: Floats) -> Floats:
    """Gaps as an eager policy has them: a third at H_min, few long."""
    gaps = MIN_GAP_S - 14 * np.log(np.minimum(1, 1.5 * uniform))
    return np.asarray(np.minimum(MAX_GAP_S, np.floor(gaps)))


def fixed(uniform: Floats) -> Floats:
    """Every 30 s: four merges to one of the bursts of `periodic`."""
    return np.full(uniform.shape, 30.0)


def shortest(uniform: Floats) -> Floats:
    """H_min, always."""
    return np.full(uniform.shape, float(MIN_GAP_S))


def even(uniform: Floats) -> Floats:
    """Evenly over the corridor."""
    return np.floor(MIN_GAP_S + uniform * (MAX_GAP_S - MIN_GAP_S + 1))


@dataclass(frozen=True, slots=True)
class World:
    """Fleets whose policy does not look at traffic.

    Attributes:
        traffic, policy: the rate, and the law of the policy's gaps.
        matched: whether the random arm's gaps are the policy's own, else even over the corridor.
        share: probability of the policy's arm.
        sigma: of the logarithm of a factor on each window's requests, for heavy tails.
    """

    traffic: Traffic
    policy: Law
    matched: bool = True
    share: float = 0.5
    sigma: float = 0.0


def tosses(fleets: int, merges: int) -> Floats:
    """[fleets, merges, 2] the controller's own numbers: each interval's coin and its moment."""
    made = np.empty((fleets, merges, 2))
    for fleet in range(fleets):
        for interval in range(merges):
            rng = coin_of(f"fleet {fleet}", interval)
            made[fleet, interval] = rng.random(), rng.random()
    return made


def outcomes(
    world: World, drawn: Floats, rng: np.random.Generator
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """[fleets, merges] harm and coins of a world's fleets, `drawn` being their `tosses`."""
    harm = [
        _chunk(world, drawn[first : first + CHUNK], rng) for first in range(0, len(drawn), CHUNK)
    ]
    return np.concatenate(harm), drawn[..., 0] < world.share


def _chunk(world: World, drawn: Floats, rng: np.random.Generator) -> Floats:
    fleets, merges, _ = drawn.shape
    seconds = merges * MAX_GAP_S + WINDOW_S + 1
    passed = np.cumsum(world.traffic(seconds, fleets, rng), axis=0)
    column, pool = np.arange(fleets), np.zeros((fleets, POOL_GAPS))
    known, at = np.zeros(fleets, np.int64), np.zeros(fleets, np.int64)
    harm = np.empty((fleets, merges))
    for merge in range(merges):
        own = world.policy(np.asarray(rng.random(fleets)))
        size = np.minimum(known, POOL_GAPS)
        picked = pool[column, (drawn[:, merge, 1] * np.maximum(1, size)).astype(np.int64)]
        ready = world.matched & (known >= LEAST_POOL)
        by_policy = drawn[:, merge, 0] < world.share
        gap = np.where(by_policy, own, np.where(ready, picked, even(drawn[:, merge, 1])))
        at += gap.astype(np.int64)
        mean = MEAN_HARM / WINDOW_S * (passed[at + WINDOW_S, column] - passed[at, column])
        heavy = np.exp(world.sigma * rng.standard_normal(fleets) - world.sigma**2 / 2)
        harm[:, merge] = rng.poisson(mean * heavy)
        pool[column[by_policy], known[by_policy] % POOL_GAPS] = gap[by_policy]
        known += by_policy
    return harm


@dataclass(frozen=True, slots=True, eq=False)
class Looked:
    """A trace as `slack` sees it: for each cell the rank of a window's cost in the last 30 minutes.

    Attributes:
        ranks: [cells] NaN while too little is known.
        costs: [cells] requests that a window there really harms.
        corridor: in cells.
        cell_s: length of a cell in seconds.
    """

    ranks: Floats
    costs: Floats
    corridor: Corridor
    cell_s: float


def look(
    requests: Requests, corridor: Corridor, cell_s: float, counting: Counting = "in_service"
) -> Looked:
    """What the rule of `slack` has to go by, with the controller's own estimators.

    As the controller sees it, arrivals count once their bin of 0.25 s has closed. `counting` says
    which requests a window harms.
    """
    cells = corridor.last_start + 1
    edges = np.arange(0, corridor.cells * cell_s + 0.25, 0.25)
    arrived = np.searchsorted(requests.arrival_s, edges)
    ended = requests.arrival_s + np.asarray(requests.e2e_s)
    present = arrived - np.searchsorted(np.sort(ended), edges)
    window_s = corridor.window_cells * cell_s
    rate, past = EwRate(4.0), CostHistory(1800.0)
    ranks, per_cell = np.full(cells, np.nan), round(cell_s / 0.25)
    for cell in range(1, cells):
        for number in range((cell - 1) * per_cell, cell * per_cell):
            rate.update(int(arrived[number + 1] - arrived[number]), 0.25)
        cost = expected_overlap(float(present[cell * per_cell]), rate.per_s or 0.0, window_s)
        rank = past.rank(cost)
        ranks[cell] = np.nan if rank is None else rank
        past.add(round(cell * cell_s * US_PER_S), cost)
    costs = start_costs(requests, window_s, cell_s, counting)
    return Looked(ranks, costs[:cells].astype(np.float64), corridor, cell_s)


def slack_fleet(seen: Looked, switchback: Switchback, merges: int, tau_s: float = 6.0) -> Intervals:
    """One fleet on that trace, its intervals by the switchback's coins; fewer where it ends."""
    low, high = seen.corridor.min_gap_cells, seen.corridor.max_gap_cells
    left_s = (high - np.arange(low, high + 1)) * seen.cell_s
    worth = 1.0 / (1.0 + left_s / tau_s)
    worth[-1] = np.inf
    at = 0
    harm: list[float] = []
    coins: list[bool] = []
    while len(harm) < merges and at + high < len(seen.ranks):
        assigned = switchback.follow({"learner": at}, Gaps(low, high))
        if assigned.drawn_gap_steps is None:
            ranks = np.nan_to_num(seen.ranks[at + low : at + high + 1], nan=2.0)
            at += low + int(np.flatnonzero(ranks <= worth)[0])
        else:
            at += assigned.drawn_gap_steps
        harm.append(seen.costs[at])
        coins.append(assigned.arm == "policy")
    count = len(harm)
    share = switchback.policy_share
    return Intervals(np.array(harm), np.array(coins), share, np.arange(count))
